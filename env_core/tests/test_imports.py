"""The law of imports, from the inside: the contract loads nothing heavy, and works where nothing heavy is installed."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import env_core

HEAVY = ["jax", "jaxlib", "flax", "optax", "craftax", "torch", "vllm", "wandb", "redis", "matplotlib", "rich"]

# A finder, put first, that refuses heavy packages as if they were not installed.
BLOCK = f"""
import importlib, sys
HEAVY = {HEAVY!r}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HEAVY:
            raise ModuleNotFoundError(f"{{name}} is blocked in this test", name=name)

sys.meta_path.insert(0, Blocked())
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def _modules() -> list[str]:
    names = [module.name for module in pkgutil.walk_packages(env_core.__path__, "env_core.", onerror=lambda _: None)]
    return ["env_core", *(name for name in names if not name.startswith("env_core.craftax"))]


def test_every_module_outside_the_jax_corner_imports_without_anything_heavy() -> None:
    modules = _modules()
    assert {"env_core.run.directory", "env_core.workspace", "env_core.errors"} <= set(modules)
    finished = _run(BLOCK + f"for name in {modules!r}: importlib.import_module(name)")
    assert finished.returncode == 0, finished.stderr


def test_the_block_would_notice() -> None:
    finished = _run(BLOCK + "import env_core.craftax.make")
    assert "is blocked in this test" in finished.stderr


def test_importing_the_contract_loads_neither_numpy_nor_its_own_rooms() -> None:
    finished = _run("import sys, env_core; sys.stdout.write(' '.join(sys.modules))")
    loaded = set(finished.stdout.split())
    rooms = {path.stem for path in Path(env_core.__path__[0]).iterdir() if not path.name.startswith("_")}
    assert not loaded & {*HEAVY, "numpy", "pyarrow", *(f"env_core.{room}" for room in rooms)}
