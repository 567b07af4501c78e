"""The contracts of import-linter hold, cover every member, and notice each way of breaking them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEMBERS: list[str] = tomllib.loads((ROOT / "workspace.toml").read_text())["members"]


def _lint(root: Path) -> subprocess.CompletedProcess[str]:
    sources = os.pathsep.join(str(root / member / "src") for member in MEMBERS)
    command = [
        str(Path(sys.executable).parent / "lint-imports"),
        "--no-cache",
        "--config",
        str(root / "pyproject.toml"),
    ]
    environment = {**os.environ, "PYTHONPATH": sources}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources and the contracts, to be broken."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for member in MEMBERS:
        shutil.copytree(ROOT / member / "src", tmp_path / member / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_every_member_is_under_the_law() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert contracts["root_packages"] == MEMBERS
    siblings, contract = contracts["contracts"][0]["layers"]
    assert [*siblings.split(" | "), contract] == [*MEMBERS[1:], "env_core"]


def test_the_law_holds() -> None:
    finished = _lint(ROOT)
    assert finished.returncode == 0, finished.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("env_core/src/env_core/errors.py", "import online_jax"),
        ("env_core/src/env_core/errors.py", "import jax"),
        ("env_core/src/env_core/run/directory.py", "from craftax import craftax_env"),
        ("env_core/src/env_core/run/directory.py", "def later():\n    import flax"),
        ("env_core/src/env_core/trajectory/schema.py", "from env_core.craftax import make"),
        ("env_core/src/env_core/observation/layout.py", "import env_core.trajectory"),
        ("env_core/src/env_core/craftax/make.py", "import torch"),
        ("env_core/src/env_core/extra.py", "import numpy"),  # a new room needs its place in the contract
        ("online_jax/src/online_jax/__init__.py", "import torch"),
    ],
)
def test_each_breach_is_noticed(copy: Path, module: str, line: str) -> None:
    with (copy / module).open("a") as file:
        file.write(f"\n{line}\n")
    finished = _lint(copy)
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert "BROKEN" in finished.stdout
