"""The command line: every mistake is one clear message and exit status 2, and asking for help is quick."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
from small_runs import SMALL, Train

from env_core.errors import ConfigError, RunError
from env_core.run import Run
from online_jax import train
from online_jax.command import PRESET_NAMES, parse
from online_jax.config import Invocation, TrainConfig, from_json, to_json, validate
from online_jax.devices import enough_memory
from online_jax.presets import PRESETS


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The message on stderr of a command line that must be refused, as one line without the frame around it."""
    with pytest.raises(SystemExit) as stopped:
        train.main([str(argument) for argument in arguments])
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return re.sub(r"[\s│─╭╮╰╯]+", " ", printed.err).strip()


def flags(kind: Any = Invocation, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every flag with its default."""
    default = kind()
    for field in dataclasses.fields(kind):
        value = getattr(default, field.name)
        name = (prefix + field.name).replace("_", "-")
        if dataclasses.is_dataclass(value):
            yield from flags(type(value), f"{name}.")
        else:
            yield f"--{name}", value


def run_of(folder: Path, **changes: Any) -> Path:
    """A run directory as training creates it, before anything was learnt."""
    _, settings = parse(SMALL)
    Run.create(folder, "ppo", {"preset": "ppo", **to_json(settings.settings()), **changes}).close()
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num-enves", "8"], "Unrecognized options: --num-enves.* Perhaps you meant: --num-envs"),
        (["--ppo.gama", "1"], "Unrecognized options: --ppo.gama.* Perhaps you meant: --ppo.gamma"),
        (["pppo"], "Unknown preset 'pppo'. Did you mean 'ppo'\\? Known: ppo."),
        (["--env-name", "Craftax-Clasic-v1"], "Unknown environment 'Craftax-Clasic-v1'. Did you mean 'Craftax-"),
        (["--num-envs", "many"], "Error parsing --num-envs: .*'many'"),
        (["--env.reset", "pol"], "invalid choice 'pol' .*'pool', 'optimistic', 'plain'"),
        (["--num-envs", "0"], "--num-envs is 0; it must be at least 1."),
        (["--total-steps", "0"], "--total-steps is 0; it must be at least 1."),
        (["--network.width", "-2"], "--network.width is -2; it must be at least 1."),
        (["--ppo.learning-rate", "-1"], "--ppo.learning-rate is -1.0; it must be at least 0."),
        (["--ppo.learning-rate", "nan"], "--ppo.learning-rate is nan; it must be at least 0."),
        (["--checkpoint.minutes", "-1"], "--checkpoint.minutes is -1.0; it must be at least 0."),
        (["--env.pool-size", "-3"], "--env.pool-size is -3; it must be at least 0."),
        (["--env.max-timesteps", "-1"], "--env.max-timesteps is -1; it must be at least 0."),
        (["--env.reset", "optimistic", "--env.reset-ratio", "0"], "--env.reset-ratio is 0; it must be at least 1."),
        (["--env.reset", "optimistic", "--env.reset-ratio", "3"], "--env.reset-ratio 3 must divide --num-envs 128"),
        (
            ["--num-envs", "7", "--num-steps", "5"],
            "--num-envs 7 x --num-steps 5 = 35 steps cannot be split into --ppo.minibatches 8 equal parts. "
            "Nearest that divide: 1, 5, 7.",
        ),
        (["--record-envs", "0"], "--record-envs 0 must .* say --no-record"),
        (["--ppo.gamma", "1.5"], "--ppo.gamma 1.5 must lie in"),
    ],
)
def test_a_mistake_is_named_with_what_would_do(capsys, tmp_path: Path, arguments: list[str], message: str) -> None:
    found = refused(capsys, *arguments, "--run-dir", tmp_path / "run")
    assert re.search(message, found), found
    assert not (tmp_path / "run").exists()


def test_a_run_directory_is_not_written_over(capsys, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    before = (run / "config.json").read_bytes()
    assert "is not empty (it holds config.json" in refused(capsys, "--run-dir", run)
    assert (run / "config.json").read_bytes() == before


def test_what_is_no_run_cannot_be_resumed(capsys, tmp_path: Path) -> None:
    assert "is no run: it holds no config.json" in refused(capsys, "--resume", tmp_path)
    assert "holds no config.json" in refused(capsys, f"--resume={tmp_path / 'absent'}")
    assert "--resume" in refused(capsys, "--resume", "--quiet")


def test_a_resumed_run_keeps_its_settings(capsys, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    message = refused(capsys, "--resume", run, "--ppo.gamma", "0.5")
    assert "was made with another configuration (ppo.gamma: 0.99 → 0.5)" in message
    assert json.loads((run / "config.json").read_text())["resumed"] == []


def test_what_does_not_change_the_result_may_change(run: Path, scribbled: Train, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    scribbled(copy, "--log-every", "2", "--checkpoint.keep", "5", resume=True)
    changes = json.loads((copy / "config.json").read_text())["resumed"][0]["changes"]
    assert changes == {"log_every": [1, 2], "checkpoint.keep": [2, 5]}


def test_a_run_of_another_version_is_refused(capsys, tmp_path: Path) -> None:
    run = run_of(tmp_path / "preset", preset="ppo_of_the_future")
    assert "was made by the preset 'ppo_of_the_future'" in refused(capsys, "--resume", run)
    run = run_of(tmp_path / "setting", ppo={"momentum": 0.5})
    assert "has the setting ppo.momentum, which this version does not know" in refused(capsys, "--resume", run)


@pytest.mark.parametrize("damage", ["cut short", "edited", "empty"])
def test_a_broken_configuration_is_named(capsys, tmp_path: Path, damage: str) -> None:
    path = run_of(tmp_path / "run") / "config.json"
    content = path.read_text()
    edited = content.replace('"gamma": 0.99', '"gamma": 0.9')
    path.write_text({"cut short": content[:200], "edited": edited, "empty": ""}[damage])
    assert "config.json is not as this program wrote it" in refused(capsys, "--resume", tmp_path / "run")


def test_one_process_per_run(tmp_path: Path) -> None:
    """This process holds the run, another is refused: without loading JAX, so at once."""
    run = run_of(tmp_path / "run")
    with Run.resume(run):
        command = [sys.executable, "-m", "online_jax.train", "--resume", str(run)]
        other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert other.stderr.startswith("error: ") and other.stderr.count("\n") == 1
    assert f"is being written to by process {os.getpid()}" in other.stderr


def test_a_damaged_checkpoint_is_one_message(capsys, run: Path, scribbled: Train, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    newest = max((copy / "checkpoints").iterdir())
    (newest / "checkpoint.json").write_text("{}")
    with pytest.raises(SystemExit) as stopped:
        scribbled(copy, resume=True)
    message = capsys.readouterr().err
    assert stopped.value.code == 2
    assert message.startswith("error: ") and "Remove that folder to go back" in message
    shutil.rmtree(newest)
    scribbled(copy, resume=True)  # as the message says


def test_help_names_every_flag_with_its_default_and_loads_no_jax() -> None:
    code = """
import sys
from online_jax import train
try:
    train.main(["--help"])
finally:
    heavy = {"jax", "jaxlib", "flax", "optax", "orbax", "craftax"} & set(sys.modules)
    assert not heavy, heavy
"""
    environment = {**os.environ, "COLUMNS": "100"}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert shown.returncode == 0 and shown.stderr == "", shown.stderr
    _, _, text = re.sub(r"[\s│─╭╮╰╯]+", " ", shown.stdout).partition("-h, --help")
    for flag, default in flags():
        described = re.search(rf"{re.escape(flag)}[ ,](.*?)\(default: (.*?)\)", text)
        assert described, flag
        assert described[2].replace(" ", "") == str(default), flag
        assert len(described[1].split()) > 2, flag


def test_a_mistake_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "online_jax.train", "--ppo.minibatches", "7"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("error: --num-envs 128 x --num-steps 64") and found.stderr.count("\n") == 1


def test_flags_become_settings_and_come_back_from_json() -> None:
    preset, invocation = parse(["ppo", *SMALL, "--ppo.gamma", "0.9", "--ppo.no-anneal"])
    settings = invocation.settings()
    validate(settings)
    assert (preset, type(settings), invocation.quiet) == ("ppo", TrainConfig, True)
    assert (settings.num_envs, settings.ppo.gamma, settings.ppo.anneal) == (4, 0.9, False)
    assert (settings.steps_per_update, settings.num_updates, settings.recorded_envs) == (32, 8, 4)
    assert from_json(json.loads(json.dumps(to_json(settings)))) == settings
    with pytest.raises(ConfigError, match=r"the setting ppo\.lr"):
        from_json({"ppo": {"lr": 1}})


def test_steps_are_rounded_up_to_whole_updates() -> None:
    assert TrainConfig(total_steps=8193, num_envs=128, num_steps=64).num_updates == 2
    assert TrainConfig(total_steps=8192, num_envs=128, num_steps=64).num_updates == 1


def test_too_little_memory_is_told_with_what_would_do() -> None:
    with pytest.raises(RunError, match=r"too little memory.*126 bytes.*Lower it"), enough_memory("Lower it."):
        raise jax.errors.JaxRuntimeError("INTERNAL: Out of memory allocating 126 bytes.\nand more")
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"), enough_memory(""):
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")


def test_every_preset_can_be_named() -> None:
    assert tuple(PRESETS) == PRESET_NAMES
