"""Each sub-project is installable by itself, from its wheel, outside this tree, and brings only what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKSPACE = tomllib.loads((ROOT / "workspace.toml").read_text())
CONSTRAINTS = ROOT / WORKSPACE["constraints"]


def _run(*command: str | Path, folder: Path) -> str:
    """Outside the tree and without this process's environment of Python."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "UV_CONSTRAINT")
    }
    environment = kept | {"JAX_PLATFORMS": "cpu"}
    finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel of each member, made through its source distribution, as a release would be."""
    folder = tmp_path_factory.mktemp("wheels")
    made = {}
    for member in WORKSPACE["members"]:
        _run("uv", "build", "--quiet", "--out-dir", folder / member, ROOT / member, folder=folder)
        (made[member],) = (folder / member).glob("*.whl")
    return made


def _install(folder: Path, *wheels: Path) -> Path:
    """A fresh environment with these wheels; returns its folder of programs."""
    _run("uv", "venv", "--quiet", "--python", WORKSPACE["python"], folder / "venv", folder=folder)
    programs = folder / "venv" / "bin"
    options = ["--quiet", "--python", str(programs / "python"), "--constraint", str(CONSTRAINTS)]
    _run("uv", "pip", "install", *options, *wheels, folder=folder)
    return programs


def _installed(programs: Path) -> set[str]:
    listed = _run("uv", "pip", "list", "--format=json", "--python", programs / "python", folder=programs)
    return {entry["name"] for entry in json.loads(listed)}


def test_wheels_hold_types_and_licence_and_no_tests(wheels: dict[str, Path]) -> None:
    for member, wheel in wheels.items():
        names = zipfile.ZipFile(wheel).namelist()
        assert f"{member}/py.typed" in names
        (licence,) = [name for name in names if name.endswith("licenses/LICENSE")]
        assert zipfile.ZipFile(wheel).read(licence) == (ROOT / "LICENSE").read_bytes()
        assert not [name for name in names if "test_" in name or "benchmarks" in name]


def test_the_contract_alone_needs_neither_jax_nor_the_game(wheels: dict[str, Path], tmp_path: Path) -> None:
    programs = _install(tmp_path, wheels["env_core"])
    assert _installed(programs) == {"craftax-env-core", "numpy", "pyarrow"}
    assert "usage" in _run(programs / "craftax-trajectories", "--help", folder=tmp_path).lower()
    assert "built-in defaults" in _run(programs / "python", "-m", "env_core.workspace", folder=tmp_path)


def test_online_rl_brings_the_game_and_jax_but_no_torch(wheels: dict[str, Path], tmp_path: Path) -> None:
    programs = _install(tmp_path, wheels["env_core"], wheels["online_jax"])
    installed = _installed(programs)
    assert {"craftax-online-jax", "craftax", "jax"} <= installed
    assert not installed & {"torch", "vllm", "redis", "transformers", "wandb"}
    assert "usage" in _run(programs / "craftax-online-train", "--help", folder=tmp_path).lower()
    assert "usage" in _run(programs / "craftax-trajectories", "--help", folder=tmp_path).lower()
