"""What the tests of training share: compiled programs, kept on disk between runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_runs import QUICK_TO_COMPILE, SMALL, Train

from env_core.workspace import cache_directory

# By environment variables, so that the processes that tests start have them too. On the CPU, because the tests compare
# arithmetic to the last bits, and accelerators multiply with fewer of them.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_directory("jax")))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
os.environ["XLA_FLAGS"] = f"{QUICK_TO_COMPILE} {os.environ.get('XLA_FLAGS', '')}"
os.environ.pop("WANDB_API_KEY", None)


@pytest.fixture(scope="module")
def scribbled() -> Iterator[Train]:
    """The training program in this process, on the quick `scribble` game instead of Craftax: called with a run
    directory and arguments beside `SMALL`, it trains and returns the directory. Runs of one variant share programs."""
    from in_process import share_programs
    from probes import scribble

    from online_jax import assemble, train

    def run(path: Path, *arguments: str, preset: str = "ppo", resume: bool = False) -> Path:
        start = ["--resume", str(path), "--quiet"] if resume else [preset, *SMALL, "--run-dir", str(path)]
        train.main([*start, *arguments])
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assemble, "make", scribble)
        share_programs(patch)
        yield run


@pytest.fixture(scope="module")
def run(scribbled: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from start to end, to be read only."""
    return scribbled(tmp_path_factory.mktemp("small") / "run")
