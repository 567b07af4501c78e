"""`online:evaluate`: what is written, from which checkpoint, and that films show what was played."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import scribble
from small_runs import Train

from env_core.evaluation import Episodes
from env_core.run import Progress, Run
from online_jax import assemble, checkpoint, evaluate, measure
from online_jax.checkpoint import Checkpoint
from online_jax.config import EnvConfig, NetworkConfig, TrainConfig, to_json
from online_jax.film import Projector, film
from online_jax.loading import load
from online_jax.measure import Measurer, Plan

CLASSIC = "Craftax-Classic-Symbolic-v1"
EPISODES = 6


@pytest.fixture(scope="module")
def quick(scribbled: Train) -> Iterator[None]:
    """`scribbled` has put the quick game in the place of Craftax."""
    yield


@pytest.fixture(scope="module")
def evaluated(run: Path, quick: None) -> Path:
    evaluate.main([str(run), "--episodes", str(EPISODES), "--quiet"])
    return run / "evaluation"


def report_of(folder: Path) -> Any:
    return json.loads((folder / "evaluation.json").read_text())["conditions"]


def test_a_run_is_evaluated_at_its_best_checkpoint(run: Path, evaluated: Path) -> None:
    best = checkpoint.best(run / "checkpoints")
    assert best is not None
    (folder,) = evaluated.iterdir()
    assert folder.name == best[0].name
    assert {path.name for path in folder.iterdir()} == {
        *("evaluation.json", "evaluation.txt", "evaluation.png"),
        *("episodes-sampled.npz", "episodes-greedy.npz"),
    }
    made = report_of(folder)["greedy"]["provenance"]
    assert (made["policy"], made["step"], made["seed"], made["preset"]) == ("greedy", best[1].step, 0, "ppo")


def test_the_numbers_are_those_of_the_episodes(evaluated: Path) -> None:
    (folder,) = evaluated.iterdir()
    episodes = {name: Episodes.load(folder / f"episodes-{name}.npz") for name in ("sampled", "greedy")}
    assert episodes["sampled"].seeds.tolist() == episodes["greedy"].seeds.tolist()
    assert len(set(episodes["sampled"].seeds.tolist())) == EPISODES
    for name, one in episodes.items():
        told = report_of(folder)[name]
        assert told["return_mean"]["value"] == pytest.approx(one.returns.mean())
        assert told["length"]["value"] == pytest.approx(one.lengths.mean())
        assert (one.achievements == (one.lengths[:, None] >= [3, 6])).all()  # as the game has it
        assert (one.deepest_floor == one.lengths // 4).all()
        assert ((one.lengths == 9) | one.terminated).all()  # the run's own limit


def test_the_table_is_printed_and_truncation_told(run: Path, quick: None, tmp_path: Path, capsys) -> None:
    arguments = [str(run), "--policy", "sampled", "--max-steps", "2", "--episodes", "4", "--which", "192"]
    evaluate.main([*arguments, "--out", str(tmp_path)])
    printed = capsys.readouterr()
    assert re.search(r"length \(steps\) +2.0 \[2.0, 2.0\]", printed.out)
    assert "4 episodes were truncated by the limit of steps" in printed.err
    assert report_of(tmp_path).keys() == {"sampled"}


def test_batches_make_no_difference(run: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three batches of two worlds, the last with a spare one, against one batch."""
    trained = load(run)

    def measured() -> dict[str, Episodes]:
        plan = Plan(5, evaluate.POLICIES, 0, num_slots=3)
        with Progress(10, quiet=True) as progress:
            return Measurer(trained.policy, trained.env, plan, progress).play(trained.params, {}).episodes

    expected = measured()
    monkeypatch.setattr(measure, "WORLDS", 2)
    for name, found in measured().items():
        assert len(found) == 5
        for column in ("returns", "lengths", "achievements", "seeds", "terminated", "deepest_floor"):
            assert getattr(found, column).tolist() == getattr(expected[name], column).tolist()


def test_a_film_shows_the_steps_that_were_played(run: Path, quick: None) -> None:
    """Its frames show the game's clock and the world's key here."""
    trained, env = load(run), scribble(CLASSIC, max_timesteps=9)
    plan = Plan(8, evaluate.POLICIES, 0, num_slots=3, filmed=8)
    with Progress(16, quiet=True) as progress:
        measured = Measurer(trained.policy, env, plan, progress).play(trained.params, {})

    def paint(state: Any) -> jax.Array:
        return jnp.broadcast_to(jnp.stack([state.clock, state.world[1] % 256, 0]).astype(jnp.uint8), (2, 2, 3))

    projector = Projector(env, paint)
    for name, filmed in measured.steps.items():
        assert [len(one.action) for one in filmed] == measured.episodes[name].lengths.tolist()
        for number, steps in enumerate(filmed):
            shown = film(projector, steps, 6, 0.9, "title")
            length = len(steps.action)
            whole = steps.terminated and length <= 6
            count = length if whole else min(length - 1, 6)
            assert shown.frames[:, 0, 0, 0].tolist() == list(range(count))
            assert set(shown.frames[:, 0, 0, 1].tolist()) == {int(measured.episodes[name].seeds[number]) % 256}
            assert shown.rewards.tolist() == steps.reward[:count].tolist()
            assert shown.values.tolist() == steps.values[:count, 0].tolist()
            assert shown.final_value == (None if whole else float(steps.values[count, 0]))
    assert {steps.terminated for filmed in measured.steps.values() for steps in filmed} == {True, False}


def test_a_run_of_several_seeds_is_evaluated_seed_by_seed(scribbled: Train, tmp_path: Path, capsys) -> None:
    run = scribbled(tmp_path / "run", "--num-seeds", "2", "--total-steps", "96", "--no-record")
    evaluate.main([str(run), "--episodes", "3", "--policy", "greedy"])
    (folder,) = (run / "evaluation").iterdir()
    means = [report_of(folder / "seeds" / seed)["greedy"]["return_mean"]["value"] for seed in ("0", "1")]
    told = json.loads((folder / "seeds.json").read_text())["greedy"]
    assert list(told["return_mean"].values()) == means and means[0] != means[1]
    assert told["over_seeds"]["value"] == pytest.approx(np.mean(means))
    assert "over 2 seeds" in capsys.readouterr().out
    evaluate.main([str(run), "--episodes", "3", "--policy", "greedy", "--seed-index", "1", "--out", str(tmp_path)])
    assert report_of(tmp_path / "seeds" / "1")["greedy"]["return_mean"]["value"] == means[1]
    assert not (tmp_path / "seeds" / "0").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--episodes", "0"], "--episodes is 0; it must be at least 1."),
        (["--video", "5", "--episodes", "3"], "--video 5 films more than --episodes 3."),
        (["--fps", "0"], "--fps is 0.0. Expected more than 0"),
        (["--which", "7"], "has no checkpoint '7'. There are: best, last, "),
        (["--seed-index", "1"], "--seed-index is 1, but the run has 1 seeds."),
    ],
)
def test_a_mistake_is_named(run: Path, quick: None, capsys, tmp_path: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        evaluate.main([str(run), *arguments, "--out", str(tmp_path / "out"), "--quiet"])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_craftax_is_evaluated_and_filmed(tmp_path: Path) -> None:
    """The real game, with a policy that has learnt nothing."""
    settings = TrainConfig(
        env_name=CLASSIC,
        env=EnvConfig(max_timesteps=30),
        network=NetworkConfig(width=8, depth=2, first_layer="gather", narrow="off"),
    )
    with pytest.MonkeyPatch.context() as patch:  # whatever game the other tests play
        from env_core.craftax import make

        patch.setattr(assemble, "make", make)
        env = assemble.make_environment(settings)
        with Run.create(tmp_path / "run", "ppo", {"preset": "ppo", **to_json(settings)}) as run:
            params = assemble.policy(settings, env).init(jax.random.PRNGKey(0))
            digest = run.record["config_sha256"]
            about = Checkpoint(0, 0, digest, {"first_layer": "gather", "narrow": "off"}, [{}], None, "now")
            checkpoint.save(run.checkpoints, {"params": params}, about, keep=1)
        evaluate.main([str(run.path), *["--episodes", "2", "--video", "1", "--video-steps", "5", "--gif", "--quiet"]])
    (folder,) = (run.path / "evaluation").iterdir()
    assert (folder / "video-sampled-0.mp4").read_bytes()[4:8] == b"ftyp"
    assert (folder / "video-sampled-0.gif").read_bytes()[:4] == b"GIF8"
    assert report_of(folder)["sampled"]["max_return"] == 22
    assert report_of(folder)["sampled"]["length"]["value"] == 30
