"""The guide to a new bonus is right: its file and its line, put in their places, train."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import Train, metrics_of

from online_jax.intrinsic import Experience

GUIDE = Path(__file__).parents[2] / "docs" / "how_to" / "new_bonus.md"


def example(name: str) -> str:
    """The code block under `<!-- example: <name> -->`."""
    found = re.search(rf"<!-- example: {re.escape(name)} -->\n```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found, name
    return found[1]


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory):
    """The guide's file as the module that its line names."""
    line = example("presets.py").strip()
    name, module, function = re.fullmatch(r'"(\w+)": "([\w.]+):(\w+)",', line).groups()
    path = tmp_path_factory.mktemp("guide") / "counts.py"
    path.write_text(example("intrinsic/counts.py"))
    spec = importlib.util.spec_from_file_location(module, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    with pytest.MonkeyPatch.context() as patch:
        from online_jax import presets

        patch.setitem(sys.modules, module, loaded)
        patch.setitem(presets.BONUSES, name, f"{module}:{function}")
        patch.setitem(presets.PRESETS, f"ppo-{name}", {"bonus": name})
        yield loaded


def test_the_guides_bonus_counts_visits(counts) -> None:
    """One environment sees A, A, B, then its episode ends, then A once more; what followed is what counts."""
    a, b = jnp.zeros((1, 3)), jnp.ones((1, 3))
    ended = jnp.array([[False], [False], [True], [False]])
    experience = Experience(jnp.stack([a, a, a, b]), jnp.zeros((4, 1), jnp.int32), ended, a)
    bonus = counts.counts(type("Given", (), {"config": _config()})())
    _, memory = bonus.init(jax.random.PRNGKey(0), a)
    _, memory, paid = jax.jit(bonus.reward)((), memory, experience)
    np.testing.assert_allclose(paid[:, 0], [1, 2**-0.5, 0, 1], rtol=1e-6)
    assert memory.sum() == 1  # of the second episode


def _config():
    from online_jax.config import TrainConfig

    return TrainConfig()


def test_the_guides_preset_trains(counts, scribbled: Train, tmp_path: Path) -> None:
    from small_runs import SMALL

    from online_jax import train

    train.main(["ppo-counts", *SMALL, "--run-dir", str(tmp_path / "run")])
    for line in metrics_of(tmp_path / "run"):
        assert 0 < line["intrinsic/reward"] <= 1
