"""What a run says of itself: totals of known episodes, and a name and a meaning for every number."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import Train, metrics_of

from env_core.run import read_metrics
from online_jax.metrics import METRICS, add_episodes, episode_metrics, explained_variance, no_episodes

PAGE = Path(__file__).parents[2] / "docs/metrics.md"
BEGIN, END = "<!-- metrics: begin -->\n", "<!-- metrics: end -->"
NAMES = ("wood", "stone", "iron")


def totals(*steps: SimpleNamespace):
    sums = no_episodes(SimpleNamespace(achievement_names=NAMES))
    for step in steps:
        sums = add_episodes(sums, step)
    return sums


def step(terminated, truncated, returns, lengths, floors, achievements) -> SimpleNamespace:
    """A timestep of two environments."""
    episode = SimpleNamespace(
        episode_return=jnp.array(returns, jnp.float32),
        length=jnp.array(lengths, jnp.int32),
        deepest_floor=jnp.array(floors, jnp.int32),
    )
    return SimpleNamespace(
        terminated=jnp.array(terminated),
        truncated=jnp.array(truncated),
        episode=episode,
        achievements=jnp.array(achievements, bool),
    )


NOTHING_ENDS = step([False, False], [False, False], [9, 9], [90, 90], [9, 9], [[1, 1, 1], [1, 1, 1]])
ONE_DIES = step([True, False], [False, False], [2, 9], [10, 90], [1, 9], [[1, 0, 0], [1, 1, 1]])
BOTH_END = step([False, True], [True, False], [1, 3], [30, 20], [0, 2], [[0, 0, 0], [1, 1, 0]])


def test_episodes_by_hand() -> None:
    """Three episodes end: returns 2, 1, 3; lengths 10, 30, 20; floors 1, 0, 2; achievements 1, 0, 2."""
    found = episode_metrics([totals(ONE_DIES, NOTHING_ENDS), totals(BOTH_END)], NAMES)
    assert found == pytest.approx(
        {
            "episode/return": 2.0,
            "episode/length": 20.0,
            "episode/achievements": 1.0,
            "episode/count": 3,
            "episode/deepest_floor": 1.0,
            "episode/deepest_floor_max": 2,
            "achievement/wood": 2 / 3,
            "achievement/stone": 1 / 3,
            "achievement/iron": 0.0,
        }
    )


def test_where_no_episode_ended_there_is_nothing_to_say() -> None:
    found = episode_metrics([totals(NOTHING_ENDS), totals()], NAMES)
    assert found.pop("episode/count") == 0
    assert len(found) == 8 and all(math.isnan(value) for value in found.values())


def test_explained_variance_by_hand() -> None:
    """Targets 0, 2, 4 have variance 8/3. Stream by stream: all of it, none of it, errors -1, 0, 1 of variance 2/3."""
    targets = jnp.array([[0.0], [2.0], [4.0]])
    found = [
        float(explained_variance(values, targets))
        for values in (targets, jnp.full((3, 1), 7.0), targets + jnp.array([[1.0], [0.0], [-1.0]]))
    ]
    assert found == pytest.approx([1.0, 0.0, 0.75])
    both = jnp.concatenate([targets, jnp.zeros((3, 1))], 1), jnp.concatenate([targets, targets], 1)
    assert float(explained_variance(*both)) == pytest.approx(0.5)


ONLY_WITH_SETTINGS = {
    *("ppo/stopped", "intrinsic/reward", "intrinsic/reward_std"),
    *("rnd/loss", "icm/inverse_loss", "icm/forward_loss"),
}


def test_every_metric_that_is_written_has_a_meaning(run: Path) -> None:
    known = set(METRICS) - {"achievement/<name>"}
    lines = list(read_metrics(run / "metrics.jsonl"))
    for line in lines:
        names = set(line) - {"step", "time"}
        achievements = {name for name in names if name.startswith("achievement/")}
        assert achievements == {"achievement/three_steps", "achievement/six_steps"}
        assert names - achievements == known - ONLY_WITH_SETTINGS
    assert lines[-1]["time/sps"] > 0 and lines[0]["time/compile_seconds"] > 0


def test_the_numbers_of_a_run(run: Path) -> None:
    """Episodes of the scribble game last at most nine steps and unlock by their length."""
    lines = metrics_of(run)
    assert [line["step"] for line in lines] == [32 * update for update in range(1, 9)]
    for line in lines:
        assert 0 < line["episode/count"] <= 32 and 1 <= line["episode/length"] <= 9
        assert line["episode/achievements"] == pytest.approx(
            line["achievement/three_steps"] + line["achievement/six_steps"]
        )
        assert 0 < line["ppo/entropy"] <= np.log(5) + 1e-6
    rates = [line["ppo/learning_rate"] for line in lines]
    assert rates == pytest.approx([2e-4 * (1 - update / 8) for update in range(8)])


def test_intervals_cover_every_update(run: Path, scribbled: Train, tmp_path: Path) -> None:
    """Eight updates in lines of three: the last one holds two."""
    lines, every = metrics_of(scribbled(tmp_path / "run", "--log-every", "3")), metrics_of(run)
    assert [line["step"] for line in lines] == [96, 192, 256]
    for line, updates in zip(lines, (every[:3], every[3:6], every[6:]), strict=True):
        assert line["episode/count"] == sum(one["episode/count"] for one in updates)
        lengths = sum(one["episode/count"] * one["episode/length"] for one in updates)
        assert line["episode/length"] == pytest.approx(lengths / line["episode/count"])
        assert line["ppo/entropy"] == updates[-1]["ppo/entropy"]


def test_the_page_shows_the_table() -> None:
    command = [sys.executable, "-m", "online_jax.metrics"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stderr == ""
    shown = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    assert shown == printed.stdout, f"Put the output of `{' '.join(command[1:])}` between the markers of {PAGE.name}."


def test_every_episode_is_in_one_line(run: Path, scribbled: Train, tmp_path: Path) -> None:
    """Lines after every 4th of 8 updates, and at the checkpoints after 3, 6 and 8: a resumed run counts from there."""
    coarse = list(read_metrics(scribbled(tmp_path / "run", "--log-every", "4") / "metrics.jsonl"))
    assert [line["step"] for line in coarse] == [32 * update for update in (3, 4, 6, 8)]
    fine = list(read_metrics(run / "metrics.jsonl"))
    assert sum(line["episode/count"] for line in coarse) == sum(line["episode/count"] for line in fine) > 0
