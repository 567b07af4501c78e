"""Fine-tuning: a run that starts with another's policy."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from in_process import killed_before_update
from small_runs import Train, saved_state

from online_jax import checkpoint
from online_jax.session import Session


def first_session(scribbled: Train, path: Path, *arguments: str) -> Session:
    """A run as it stands before its first update."""
    with killed_before_update(0) as died:
        scribbled(path, *arguments)
    return died[0]


def params_of(session: Session) -> dict[str, np.ndarray]:
    leaves = jax.tree.leaves_with_path(session._state.params)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def saved(path: Path) -> dict[str, bytes]:
    """The parameters in a checkpoint."""
    place = "['params']"
    return {name.removeprefix(place): leaf for name, leaf in saved_state(path).items() if name.startswith(place)}


def test_it_starts_with_that_policy_and_nothing_else_of_it(run: Path, scribbled: Train, tmp_path: Path) -> None:
    tuned = first_session(scribbled, tmp_path / "tuned", "--init-from", str(run), "--seed", "9")
    fresh = first_session(scribbled, tmp_path / "fresh", "--seed", "9")
    found = {name: leaf.tobytes() for name, leaf in params_of(tuned).items()}
    best = checkpoint.best(run / "checkpoints")
    assert found == saved(best[0]) and found
    assert found != {name: leaf.tobytes() for name, leaf in params_of(fresh).items()}
    for part in ("opt_state", "actor", "key", "update"):
        ours, theirs = (jax.tree.leaves(getattr(session._state, part)) for session in (tuned, fresh))
        assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True)), part


def test_every_seed_starts_with_the_checkpoint_that_is_named(run: Path, scribbled: Train, tmp_path: Path) -> None:
    last = checkpoint.latest(run / "checkpoints")[0]
    tuned = first_session(scribbled, tmp_path / "tuned", "--init-from", str(last), "--num-seeds", "2")
    wanted = saved(last)
    for name, leaf in params_of(tuned).items():
        assert leaf.shape[0] == 2 and all(one.tobytes() == wanted[name] for one in leaf)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--network.width", "16"], ["has shape", "--network.*"]),
        (["--network.memory", "gru"], ["has shape", "--network.*"]),
        (["--bonus", "rnd"], ["has shape", "reward streams"]),
        (["--init-from", "nowhere"], ["nowhere"]),
    ],
)
def test_another_policy_is_refused(
    run: Path, scribbled: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments, told
) -> None:
    with pytest.raises(SystemExit) as stopped:
        scribbled(tmp_path / "run", "--init-from", str(run), *arguments)
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and "Traceback" not in said
    assert all(word in said for word in told), said
