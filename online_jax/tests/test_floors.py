"""The observation at which each floor was first reached; the quick game goes one floor down every four steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from in_process import killed_before_update
from probes import scribble
from small_runs import Train, rows_by_slot

from env_core.observation import CLASSIC, Layout, Packed
from online_jax import floors
from online_jax.floors import FloorLog, Reached


def described(packed: Packed, layout: Layout) -> list[str]:
    """In place of `env_core`'s text, which refuses observations that the game would not give."""
    return [f"{layout.name} {one}" for one in packed.scalar[:, 0]]


@pytest.fixture(scope="module", autouse=True)
def text() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floors, "describe", described)
        yield


@pytest.fixture(scope="module")
def dumped(scribbled: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scribbled(tmp_path_factory.mktemp("floors") / "run", "--dump-new-floors")


def files(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / "floors").iterdir()}


def about(run: Path, floor: int) -> dict:
    return json.loads((run / "floors" / f"floor-{floor}.json").read_text())


def test_every_floor_below_the_surface_has_its_files(dumped: Path) -> None:
    """Episodes end after nine steps at the latest, and what is at an episode's end belongs to no step."""
    assert sorted(files(dumped)) == [f"floor-{n}.{kind}" for n in (1, 2) for kind in ("json", "npz", "txt")]


@pytest.mark.parametrize("floor", [1, 2])
def test_it_is_the_first_time(dumped: Path, floor: int) -> None:
    """Of all recorded steps, by time; the observation is the row that was recorded then."""
    said = about(dumped, floor)
    deep_enough: list[tuple[int, int, int]] = []
    slots = rows_by_slot(dumped)
    for slot, columns in slots.items():
        steps = columns["is_step"]
        length = episode_lengths(columns["is_first"][steps])
        rows = np.flatnonzero(steps)
        deep_enough += [(int(t), slot, int(rows[t])) for t in np.flatnonzero(length // 4 == floor)]
    first_time = min(t for t, _, _ in deep_enough)
    assert said["step"] == 4 * first_time  # environment steps before it, of four environments
    assert said["floor"] == floor and said["episode_length"] == 4 * floor and said["encoding"] == CLASSIC.name
    shown = np.load(dumped / "floors" / f"floor-{floor}.npz")
    _, slot, row = min(deep_enough)
    for name in ("obs_tile", "obs_mob", "obs_scalar"):
        np.testing.assert_array_equal(shown[name], slots[slot][name][row])
    text = (dumped / "floors" / f"floor-{floor}.txt").read_text()
    assert text == f"{CLASSIC.name} {shown['obs_scalar'][0]}"


def episode_lengths(is_first: np.ndarray) -> np.ndarray:
    """Steps since the last first one."""
    at = np.arange(len(is_first))
    return at - np.maximum.accumulate(np.where(is_first, at, 0))


def test_a_resumed_run_has_the_same_ones(dumped: Path, scribbled: Train, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with killed_before_update(5):
        scribbled(run, "--dump-new-floors")
    scribbled(run, resume=True)
    assert files(run) == files(dumped)


def test_within_a_rollout_the_first_time_counts() -> None:
    """Two environments; floors after each step: (0, 1), (1, 1), (2, 0), (2, 2)."""
    env = scribble("Craftax-Classic-Symbolic-v1")
    states, _ = env.reset(jax.random.PRNGKey(0), 2)
    reached = floors.none_reached(env, states, 4)
    for step, (first, second) in enumerate([(0, 1), (1, 1), (2, 0), (2, 2)]):
        inner = states.inner._replace(clock=jnp.array([10 * step, 10 * step + 1]))
        statistics = states.statistics._replace(deepest_floor=jnp.array([first, second]), length=inner.clock)
        reached = floors.add(reached, env, states._replace(inner=inner, statistics=statistics), jnp.int32(step))
    assert reached.found.tolist() == [True, True, True, False]
    assert reached.step[:3].tolist() == [0, 0, 2]
    assert reached.length[:3].tolist() == [0, 1, 20]
    np.testing.assert_array_equal(reached.world_key[2], states.statistics.world_key[0])


def test_a_floor_is_kept_once(tmp_path: Path) -> None:
    """By the run, not by the process."""
    obs = Packed(np.zeros((2, CLASSIC.tiles), np.uint8), *(np.zeros((2, n), t) for n, t in _rest()))
    reached = Reached(np.array([True, True]), obs, np.zeros((2, 2), np.uint32), np.array([0, 4]), np.array([0, 3]))
    for policy_step in (100, 200):
        FloorLog(tmp_path, CLASSIC).take(reached, policy_step, num_envs=8)
        assert json.loads((tmp_path / "floor-1.json").read_text())["step"] == 100 + 4 * 8
    assert not (tmp_path / "floor-0.json").exists()


def _rest() -> list[tuple[int, type]]:
    return [(CLASSIC.mob_slots, np.uint16), (CLASSIC.scalars, np.float32)]
