"""Two processes of two devices each are one run: they learn what one process of four learns, and stop together.

Real processes on this machine, which find one another as they would without SLURM (`cluster.join`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import SMALL, arrays_of, assert_same, devices_of_cpu, metrics_of, rows_by_slot, store_of

from env_core.errors import ConfigError
from env_core.trajectory.inspection import verify_store
from online_jax import checkpoint, cluster, train

PROGRAM = Path(__file__).with_name("train_on_scribble.py")
ARGUMENTS = [argument for argument in SMALL if argument != "--quiet"]


def start(count: int, devices: int, *arguments: object, pause: float = 0.0) -> list[subprocess.Popen[str]]:
    """One run in `count` processes of `devices` devices each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    processes = []
    for number in range(count):
        environment = {
            **os.environ,
            "XLA_FLAGS": devices_of_cpu(devices),
            "SCRIBBLE_PAUSE": str(pause),
        }
        if count > 1:
            environment |= {
                "JAX_COORDINATOR_ADDRESS": address,
                "JAX_NUM_PROCESSES": str(count),
                "JAX_PROCESS_ID": str(number),
            }
        command = [sys.executable, str(PROGRAM), *map(str, arguments)]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))
    return processes


def ended(processes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """The exit status of each, and what it said."""
    try:
        said = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def wait(processes: list[subprocess.Popen[str]], until: Callable[[], bool]) -> None:
    latest = time.monotonic() + 240
    while not until():
        if any(process.poll() is not None for process in processes) or time.monotonic() > latest:
            pytest.fail("\n".join(f"{status}: {said}" for status, said in ended(processes)))
        time.sleep(0.02)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The run in one process; and that in two, stopped once and continued, with what its processes said."""
    folder = tmp_path_factory.mktemp("cluster")
    alone, together = folder / "alone", folder / "together"
    first = start(1, 4, *ARGUMENTS, "--run-dir", alone)
    processes = start(2, 2, *ARGUMENTS, "--run-dir", together, pause=0.3)
    wait(processes, lambda: (together / "metrics.jsonl").exists() and len(metrics_of(together)) > 1)
    processes[1].send_signal(signal.SIGTERM)
    stopped = ended(processes)
    kept = checkpoint.latest(together / "checkpoints")
    resumed = ended(start(2, 2, "--resume", together))
    assert [status for status, _ in ended(first)] == [0]
    yield {"alone": alone, "together": together, "stopped": stopped, "at": kept, "resumed": resumed}


def test_a_signal_to_one_stops_both_with_a_checkpoint(runs: dict[str, Any]) -> None:
    assert [status for status, _ in runs["stopped"]] == [143, 143], runs["stopped"]
    assert runs["at"] is not None and 0 < runs["at"][1].update < 8
    (_, main), (_, other) = runs["stopped"]
    assert f"Stopped at step {32 * runs['at'][1].update}" in main and "--resume" in main
    assert other == ""  # the main process tells how the run goes


def test_it_ends_as_one_process_does(runs: dict[str, Any]) -> None:
    assert [status for status, _ in runs["resumed"]] == [0, 0], runs["resumed"]
    assert f"Continuing at step {32 * runs['at'][1].update}" in runs["resumed"][0][1]
    found, expected = arrays_of(runs["together"]), arrays_of(runs["alone"])
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_main_process_alone_writes_metrics_and_records(runs: dict[str, Any]) -> None:
    assert [line["step"] for line in metrics_of(runs["together"])] == [32 * update for update in range(1, 9)]
    assert verify_store(store_of(runs["together"])).ok
    found, expected = rows_by_slot(runs["together"]), rows_by_slot(runs["alone"])
    exact = ("obs_tile", "obs_mob", "action", "is_first", "is_last", "is_terminal", "episode_id", "env_seed")
    for slot, columns in expected.items():
        assert_same({slot: {n: found[slot][n] for n in exact}}, {slot: {n: columns[n] for n in exact}})
    names = sorted(path.name for path in runs["together"].iterdir())
    assert names == ["checkpoints", "config.json", "curves.png", "lock", "metrics.jsonl", "trajectories"]


def test_a_run_that_cannot_be_opened_ends_every_process(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    (status, said), (other, also) = ended(start(2, 1, *ARGUMENTS, "--run-dir", tmp_path))
    assert (status, other) == (2, 2)
    assert "is not empty" in said and "Traceback" not in said
    assert "The main process could not open the run; its own message says why." in also


def test_how_many_processes_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAX_NUM_PROCESSES", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    assert train.num_processes() == 1
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "8")
    assert train.num_processes() == 8
    monkeypatch.setenv("JAX_NUM_PROCESSES", "2")
    assert train.num_processes() == 2


def test_half_of_the_variables_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_NUM_PROCESSES", "2")
    monkeypatch.delenv("JAX_COORDINATOR_ADDRESS", raising=False)
    monkeypatch.setenv("JAX_PROCESS_ID", "0")
    with pytest.raises(ConfigError, match="JAX_NUM_PROCESSES is set, but not JAX_COORDINATOR_ADDRESS"):
        cluster.join()


def test_alone_nobody_is_asked() -> None:
    assert cluster.is_main() and cluster.any_of(True, False) == (True, False)
    assert cluster.from_main(lambda: {"first_layer": "gather"}) == {"first_layer": "gather"}
    cluster.wait_for_all("nothing")
