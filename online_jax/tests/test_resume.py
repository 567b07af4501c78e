"""A run that was stopped or killed, at any point, ends with what an undisturbed one ends with, bit for bit.

Real processes, really stopped: on Craftax-Classic, and more often on a quicker game.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_runs import SMALL, assert_same_runs, metrics_of, rows_by_slot, store_of

from env_core.run import read_metrics
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.schema import Ending
from online_jax import checkpoint

SCRIBBLE = [str(Path(__file__).with_name("train_on_scribble.py"))]
CLASSIC = ["-m", "online_jax.train"]
LOUD = [argument for argument in SMALL if argument != "--quiet"]
CLASSIC_RUN = [
    *("--env-name", "Craftax-Classic-Symbolic-v1", "--env.max-timesteps", "20"),
    *("--num-envs", "8", "--num-steps", "16", "--total-steps", "1280", "--record-envs", "-1"),
    *("--network.width", "32", "--checkpoint.updates", "5"),
]
"""Ten updates; a checkpoint after the fifth and at the end."""
LONG = ["--total-steps", str(4 * 8 * 200), "--checkpoint.updates", "40"]
"""Two hundred updates of the quick game."""


def start(program: list[str], *arguments: object, pause: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, *program, *map(str, arguments)]
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "SCRIBBLE_PAUSE": str(pause)}
    )


def finish(process: subprocess.Popen[str]) -> str:
    """What it said, when it has ended well."""
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    return said


def stop(process: subprocess.Popen[str], when: Callable[[], bool], number: signal.Signals) -> str:
    """Sends a signal once `when` is true, and waits for the end; returns what the process said."""
    until = time.monotonic() + 240
    while not when():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(number)
    return process.communicate(timeout=120)[1]


def updates_logged(run: Path) -> int:
    path = run / "metrics.jsonl"
    return len(list(read_metrics(path))) if path.exists() else 0


def checkpoints(run: Path) -> int:
    return len(checkpoint.finished(run / "checkpoints"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Undisturbed runs, made side by side."""
    paths = {name: tmp_path_factory.mktemp(name) / "run" for name in ("classic", "scribble")}
    processes = [
        start(CLASSIC, *CLASSIC_RUN, "--run-dir", paths["classic"]),
        start(SCRIBBLE, *SMALL, *LONG, "--run-dir", paths["scribble"]),
    ]
    for process in processes:
        finish(process)
    return paths


@pytest.fixture
def classic(runs: dict[str, Path]) -> Path:
    return runs["classic"]


@pytest.fixture
def undisturbed(runs: dict[str, Path]) -> Path:
    return runs["scribble"]


def test_an_undisturbed_run_is_whole(classic: Path) -> None:
    said = json.loads((classic / "config.json").read_text())
    assert said["config"]["total_steps"] == 1280 and said["resumed"] == []
    assert [line["step"] for line in metrics_of(classic)] == [128 * update for update in range(1, 11)]
    assert (classic / "curves.png").stat().st_size > 1000
    assert store_of(classic).totals.num_steps == 1280
    rows = [row for batch in store_of(classic).batches() for row in batch.segments.ending.tolist()]
    assert Ending.TRUNCATED in rows
    for columns in rows_by_slot(classic).values():
        assert (columns["is_last"] & ~columns["is_terminal"]).any()


def test_craftax_killed_before_a_checkpoint_and_after_one(classic: Path, tmp_path: Path) -> None:
    """Killed at once; started over, and killed after the checkpoint; continued, to the end."""
    run = tmp_path / "run"
    process = start(CLASSIC, *CLASSIC_RUN, "--run-dir", run)
    stop(process, lambda: (run / "config.json").exists(), signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and checkpoints(run) == 0
    process = start(CLASSIC, "--resume", run)
    stop(process, lambda: checkpoints(run) > 0, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    at = checkpoint.latest(run / "checkpoints")[1].update
    said = finish(start(CLASSIC, "--resume", run))
    assert at == 10 or f"Continuing at step {128 * at:,}" in said
    assert_same_runs(run, classic)
    assert len(json.loads((run / "config.json").read_text())["resumed"]) == 2


def test_stopped_and_killed_again_and_again(undisturbed: Path, tmp_path: Path) -> None:
    """Killed before any checkpoint, stopped by two signals, killed long after a checkpoint, and then left alone."""
    run = tmp_path / "run"
    process = start(SCRIBBLE, *LOUD, *LONG, "--run-dir", run, pause=0.02)
    stop(process, lambda: updates_logged(run) > 3, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and checkpoints(run) == 0
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start(SCRIBBLE, "--resume", run, pause=0.02)
        said = _stop_after(process, run, 20, number)
        assert process.returncode == 128 + number, said
        assert "--resume" in said and "Traceback" not in said
        assert checkpoint.latest(run / "checkpoints")[1].update == updates_logged(run)
        assert verify_store(store_of(run)).ok
    process = start(SCRIBBLE, "--resume", run, pause=0.02)
    _stop_after(process, run, 60, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    at = checkpoint.latest(run / "checkpoints")[1].update
    assert 40 <= at <= updates_logged(run) < 200
    said = finish(start(SCRIBBLE, "--resume", run))
    assert f"Continuing at step {32 * at:,}" in said
    assert_same_runs(run, undisturbed)


def _stop_after(process: subprocess.Popen[str], run: Path, updates: int, number: signal.Signals) -> str:
    """Sends a signal when the run has logged `updates` more than it had when it was last saved."""
    newest = checkpoint.latest(run / "checkpoints")
    saved = 0 if newest is None else newest[1].update
    return stop(process, lambda: saved + updates <= updates_logged(run), number)
