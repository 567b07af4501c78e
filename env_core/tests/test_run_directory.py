"""The run directory: nobody's work is overwritten, one process writes, and a resumed run is the same run."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from env_core.errors import ConfigError, ResumeError, RunError, RunExistsError, RunLockedError
from env_core.run import Run, config_sha256, read_metrics

CONFIG = {"seed": 3, "ppo": {"learning_rate": 2e-4, "epochs": 4}, "env": "Craftax-Symbolic-v1"}

HOLDER = """
import sys, time
from env_core.run import Run
run = Run.create(sys.argv[1], "ppo", {"seed": 3})
step = 0
sys.stdout.write("ready\\n"); sys.stdout.flush()
while True:
    step += 1
    run.log(step, {"episode/return": 1.0, "padding/" + "x" * 2000: step})
"""


@pytest.fixture(autouse=True)
def no_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(variable, raising=False)


def _hold(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_new_run_says_what_made_it(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", "ppo", CONFIG) as run:
        record = json.loads((tmp_path / "r/config.json").read_text())
    assert run.path == tmp_path / "r"
    assert record["config"] == CONFIG
    assert record["config_sha256"] == config_sha256(CONFIG)
    assert record["name"] == "ppo"
    assert record["resumed"] == []
    assert record["packages"]["numpy"]
    assert record["python"].startswith("3.")
    assert record["created_at"].endswith("+00:00")
    assert not list(tmp_path.glob("r/*.tmp"))


def test_the_default_path_is_among_the_workspaces_runs_and_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAFTAX_PATHS_RUNS", str(tmp_path / "all"))
    runs = [Run.create(None, "ppo-rnd", CONFIG) for _ in range(3)]
    try:
        assert len({run.path for run in runs}) == 3
        for run in runs:
            assert run.path.parent == tmp_path / "all"
            assert run.path.name.startswith("ppo-rnd-seed3-20")
    finally:
        for run in runs:
            run.close()


def test_a_directory_with_contents_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(RunExistsError, match=r"not empty \(it holds thesis\.tex\)\. Name another .*--run-dir"):
        Run.create(tmp_path, "ppo", CONFIG)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_earlier_run_is_refused_with_the_way_to_continue_it(tmp_path: Path) -> None:
    Run.create(tmp_path / "r", "ppo", CONFIG).close()
    before = (tmp_path / "r/config.json").read_bytes()
    with pytest.raises(RunExistsError, match="--resume"):
        Run.create(tmp_path / "r", "ppo", CONFIG)
    assert (tmp_path / "r/config.json").read_bytes() == before


def test_a_directory_whose_creator_died_at_once_is_free(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("123\n")
    (tmp_path / ".config.json.ab12.tmp").write_text("{")
    Run.create(tmp_path, "ppo", CONFIG).close()


@pytest.mark.parametrize("broken", [{"f": len}, {"x": float("nan")}])
def test_a_configuration_that_json_cannot_hold_is_refused_before_anything_is_made(
    tmp_path: Path, broken: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="plain JSON"):
        Run.create(tmp_path / "r", "ppo", broken)
    assert not (tmp_path / "r").exists()


def test_a_place_that_is_no_folder_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="--run-dir"):
        Run.create(tmp_path / "file" / "r", "ppo", CONFIG)


def test_one_process_writes_and_its_death_frees_the_directory(tmp_path: Path) -> None:
    holder = _hold(tmp_path / "r")
    try:
        with pytest.raises(RunLockedError, match=rf"written to by process {holder.pid}\."):
            Run.resume(tmp_path / "r")
    finally:
        _kill(holder)
    with Run.resume(tmp_path / "r") as run:
        assert (tmp_path / "r/lock").read_text() == f"{os.getpid()}\n"
        with pytest.raises(RunLockedError, match=f"process {os.getpid()}"):
            Run.resume(tmp_path / "r")
    run.close()  # a second time


def test_killed_at_any_moment_the_metrics_are_whole_lines(tmp_path: Path) -> None:
    for attempt in range(5):
        path = tmp_path / str(attempt)
        holder = _hold(path)
        time.sleep(0.02 * attempt + 0.01)
        _kill(holder)
        with Run.resume(path) as run:
            steps = [line["step"] for line in read_metrics(path / "metrics.jsonl")]
            assert steps == list(range(1, len(steps) + 1))
            run.log(steps[-1] + 1 if steps else 1, {"episode/return": 2.0})
        assert (path / "metrics.jsonl").read_bytes().endswith(b"\n")


def test_a_resumed_run_drops_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", "ppo", CONFIG) as run:
        for step in (10, 20, 30):
            run.log(step, {"loss": step})
    with (tmp_path / "r/metrics.jsonl").open("a") as file:
        file.write('{"step": 40, "lo')
    with Run.resume(tmp_path / "r", CONFIG) as run:
        assert run.truncate_metrics(20) == 1
        assert run.truncate_metrics(20) == 0
        run.log(30, {"loss": 31})
    assert [(line["step"], line["loss"]) for line in read_metrics(tmp_path / "r/metrics.jsonl")] == [
        (10, 10),
        (20, 20),
        (30, 31),
    ]


def test_a_resumption_is_recorded_and_keeps_the_run_id(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", "ppo", CONFIG) as first:
        pass
    with Run.resume(tmp_path / "r", {**CONFIG, "seed": 4}, may_differ=["seed"]) as second:
        assert second.config == CONFIG
    record = json.loads((tmp_path / "r/config.json").read_text())
    assert record["run_id"] == first.record["run_id"]
    assert [resumption["changes"] for resumption in record["resumed"]] == [{"seed": [3, 4]}]


def test_another_configuration_is_refused_by_key(tmp_path: Path) -> None:
    Run.create(tmp_path / "r", "ppo", CONFIG).close()
    other = {**CONFIG, "ppo": {"learning_rate": 1e-3, "epochs": 4}}
    with pytest.raises(ResumeError, match=r"ppo\.learning_rate: 0\.0002 → 0\.001"):
        Run.resume(tmp_path / "r", other)
    with pytest.raises(ResumeError, match="new_key"):
        Run.resume(tmp_path / "r", {**CONFIG, "new_key": None})
    Run.resume(tmp_path / "r", CONFIG).close()  # the refusals did not keep the lock


def test_the_configuration_of_a_run_in_progress_can_be_read(tmp_path: Path) -> None:
    with Run.create(tmp_path / "r", "ppo", CONFIG):
        assert Run.read_config(tmp_path / "r") == CONFIG
    with pytest.raises(ResumeError, match=r"is no run: it holds no config\.json"):
        Run.read_config(tmp_path)


def test_resuming_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ResumeError, match=r"is no run: it holds no config\.json"):
        Run.resume(tmp_path)
    assert not list(tmp_path.iterdir())
    Run.create(tmp_path / "r", "ppo", CONFIG).close()
    record = (tmp_path / "r/config.json").read_text()
    for damaged in (record.replace('"epochs": 4', '"epochs": 5'), record[:100], "[]"):
        (tmp_path / "r/config.json").write_text(damaged)
        with pytest.raises(ResumeError, match="not as this program wrote it"):
            Run.resume(tmp_path / "r")


class FakeWandb(types.ModuleType):
    """Stands in for wandb, which is not a test dependency, and keeps what it was told."""

    def __init__(self, key: bool = False):
        super().__init__("wandb")
        self.key, self.started, self.logged, self.finished = key, [], [], 0

    def login(self, prompt: bool) -> bool:
        assert not prompt
        return self.key

    def Settings(self, **settings: Any) -> dict[str, Any]:  # noqa: N802 - wandb's name
        return settings

    def init(self, **arguments: Any) -> FakeWandb:
        self.started.append(arguments)
        return self

    def log(self, values: dict[str, Any], step: int) -> None:
        self.logged.append((step, values))

    def finish(self) -> None:
        self.finished += 1


def test_wandb_is_not_even_imported_unless_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it raises
    Run.create(tmp_path / "r", "ppo", CONFIG).close()
    with pytest.raises(ConfigError, match="wandb is not installed"):
        Run.create(tmp_path / "asked", "ppo", CONFIG, wandb=True)


def test_a_key_without_wandb_only_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setenv("WANDB_API_KEY", "k")
    with caplog.at_level(logging.WARNING):
        Run.create(tmp_path / "r", "ppo", CONFIG).close()
    assert "WANDB_API_KEY is set, but wandb is not installed" in caplog.text


@pytest.mark.parametrize(
    ("asked", "variables", "mode"),
    [
        (True, {}, "offline"),
        (True, {"WANDB_MODE": "disabled"}, None),  # wandb reads it
        (False, {"WANDB_API_KEY": "k"}, None),
        (False, {"WANDB_API_KEY": "k", "WANDB_MODE": "offline"}, None),
    ],
)
def test_wandb_gets_the_same_run_again_and_goes_offline_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool, variables: dict[str, str], mode: str | None
) -> None:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Run.create(tmp_path / "r", "ppo", CONFIG, wandb=asked) as run:
        run.log(5, {"loss": 0.5, "odd": float("nan")})
    Run.resume(tmp_path / "r", wandb=asked).close()
    assert fake.logged == [(5, {"loss": 0.5})]
    assert fake.finished == 2
    assert [(call["id"], call["mode"], call["resume"]) for call in fake.started] == [
        (run.record["run_id"], mode, "allow")
    ] * 2
