"""Comparing runs: which are a group, what it is called, and what is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from env_core.run import Run
from online_jax import compare
from online_jax.compare import by_hand, by_settings
from online_jax.config import TrainConfig, replaced, to_json


def trained(folder: Path, score: float, preset: str = "ppo", **settings: Any) -> Path:
    """A run directory with ten lines of metrics that end at `score`."""
    changed = replaced(TrainConfig(), {name.replace("__", "."): value for name, value in settings.items()})
    with Run.create(folder, preset, {"preset": preset, **to_json(changed)}) as run:
        for step in range(1, 11):
            run.log(1000 * step, {"episode/return": score * step / 10, "episode/count": 5})
    return folder


def groups(*runs: Path) -> dict[str, list[str]]:
    return {group.name: [run.name for run in group.runs] for group in by_settings(runs)}


def test_runs_that_differ_in_their_seed_only_are_a_group(tmp_path: Path) -> None:
    a, b = trained(tmp_path / "a", 3, seed=0), trained(tmp_path / "b", 4, seed=1, log_every=5, record=False)
    c = trained(tmp_path / "c", 5, "ppo-rnn", network__memory="gru")
    assert groups(a, c, b) == {"ppo": ["a", "b"], "ppo-rnn": ["c"]}


def test_groups_of_a_preset_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    a = trained(tmp_path / "a", 3, ppo__gamma=0.9)
    b = trained(tmp_path / "b", 4, ppo__gamma=0.99, seed=7)
    c = trained(tmp_path / "c", 5, "ppo-rnd", bonus="rnd", rnd__width=64)
    assert groups(a, b, c) == {"ppo ppo.gamma=0.9": ["a"], "ppo ppo.gamma=0.99": ["b"], "ppo-rnd": ["c"]}


def test_groups_by_hand() -> None:
    (wide, narrow) = by_hand(["wide=runs/a,runs/b", "narrow=runs/c"])
    assert (wide.name, list(wide.runs)) == ("wide", [Path("runs/a"), Path("runs/b")])
    assert (narrow.name, list(narrow.runs)) == ("narrow", [Path("runs/c")])


def test_the_table_is_printed_and_the_files_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [trained(tmp_path / f"a{seed}", 3 + seed, seed=seed) for seed in range(2)]
    other = trained(tmp_path / "b", 10, "ppo-rnn", network__memory="gru")
    arguments = [*map(str, runs), "--group", f"memory={other}", "--out", str(tmp_path / "out"), "--last", "0.2"]
    compare.main(arguments)
    shown = capsys.readouterr().out
    assert "memory" in shown and "3.33 [2.85, 3.80]" in shown  # the runs end at 3 and 4; means of their last two lines
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "comparison.json",
        "comparison.txt",
        "comparison.png",
    }
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert told["groups"]["memory"]["final"]["value"] == pytest.approx(9.5)
    assert {(one["of"], one["value"]) for one in told["improvement"]} == {("memory", 1.0), ("ppo", 0.0)}
    compare.main([*arguments, "--quiet"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "There is nothing to compare. Name runs"),
        (["--group", "wide"], "--group wide is no group. Expected name=run,run"),
        (["nowhere"], "nowhere is no run: it holds no config.json"),
        (["{run}", "--metric", "episode/retrun"], "no metric 'episode/retrun'. Did you mean 'episode/return'"),
        (["{run}", "--last", "2"], "last is 2.0. Expected a share"),
        (["{run}", "--group", "ppo={run}"], "Two groups are named 'ppo'"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, capsys, arguments: list[str], message: str) -> None:
    run = trained(tmp_path / "run", 3)
    with pytest.raises(SystemExit) as stopped:
        compare.main([*(one.format(run=run) for one in arguments), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_nothing_here_loads_jax(tmp_path: Path) -> None:
    code = f"""
import sys
from online_jax import compare, evaluate
compare.main(["{trained(tmp_path / "run", 3)}", "--out", "{tmp_path / "out"}", "--quiet"])
for program in (compare, evaluate):
    try:
        program.main(["--help"])
    except SystemExit as stopped:
        assert stopped.code == 0
heavy = {{"jax", "jaxlib", "flax", "optax", "orbax", "craftax"}} & set(sys.modules)
assert not heavy, heavy
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "--metric" in shown.stdout and "--video-steps" in shown.stdout
