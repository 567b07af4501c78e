"""The buffer of terminal observations, by hand: filled by time, then environment, and never silently too small."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import small_config

from env_core.errors import RunError
from env_core.observation import CLASSIC, Packed
from env_core.testing.examples import example_header
from online_jax import keeping
from online_jax.keeping import Endings, Kept
from online_jax.record import StoreRecorder

OBS = jnp.zeros((3, 1), jnp.int32)


def room(kept_envs: int, num_steps: int, rate: float) -> int:
    return len(keeping.no_endings(SimpleNamespace(max_ending_rate=rate), OBS, kept_envs, num_steps).next_world_key)


def filled(*steps: tuple[list[bool], list[int]], rate: float = 0.5) -> Endings:
    """After steps of three environments, of (which ended, their observations); world keys are 100 more."""
    endings = keeping.no_endings(SimpleNamespace(max_ending_rate=rate), OBS, 3, 4)
    for ended, obs in steps:
        shown = jnp.array(obs)[:, None]
        keys = jnp.concatenate([shown + 100, shown + 100], axis=1).astype(jnp.uint32)
        endings = jax.jit(keeping.add_endings)(endings, jnp.array(ended), shown, keys)
    return jax.device_get(endings)


def test_endings_come_in_the_order_in_which_they_happen() -> None:
    found = filled(
        ([False, True, False], [10, 11, 12]),
        ([False, False, False], [20, 21, 22]),
        ([True, False, True], [30, 31, 32]),
    )
    assert found.num_endings == 3
    assert found.obs[:3, 0].tolist() == [11, 30, 32]
    assert found.next_world_key[:3, 0].tolist() == [111, 130, 132]


def test_what_finds_no_room_is_counted() -> None:
    """Room for one each, 3; the fourth ending changes nothing that is there."""
    found = filled(([True, True, False], [10, 11, 12]), ([True, True, False], [20, 21, 22]), rate=0.0)
    assert found.num_endings == 4
    assert found.obs[:, 0].tolist() == [10, 11, 20]


@pytest.mark.parametrize(
    ("kept_envs", "num_steps", "rate", "expected"),
    [(0, 64, 0.125, 0), (16, 64, 0.125, 144), (16, 4, 0.125, 24), (2, 4, 1.0, 8), (1, 1, 0.125, 1)],
)
def test_room_is_one_each_and_a_share_of_the_steps_and_at_most_all(kept_envs, num_steps, rate, expected) -> None:
    assert room(kept_envs, num_steps, rate) == expected


def test_the_recorder_refuses_a_rollout_that_lacks_endings(tmp_path: Path) -> None:
    config = small_config(num_envs=2, num_steps=3)
    steps, envs = config.num_steps, config.num_envs

    def obs(*lead: int) -> Packed:
        sizes = (CLASSIC.tiles, CLASSIC.mob_slots, CLASSIC.scalars)
        return Packed(*(np.zeros((*lead, size), kind) for size, kind in zip(sizes, "BHf", strict=True)))

    number, flag = np.zeros((steps, envs), np.float32), np.zeros((steps, envs), bool)
    kept = Kept(
        obs=obs(steps, envs),
        action=number.astype(np.int32),
        log_prob=number,
        values=number[..., None],
        reward=number,
        bonus=number,
        terminated=~flag,
        truncated=flag,
        endings=Endings(obs(4), np.zeros((4, 2), np.uint32), np.int32(6)),
        is_first=~flag[0],
        episode=np.zeros(envs, np.int32),
        world_key=np.zeros((envs, 2), np.uint32),
        final_obs=obs(envs),
    )
    recorder = StoreRecorder(tmp_path / "store", example_header(CLASSIC.name), envs, 2**20)
    recorder.take(kept, policy_step=0, contiguous=True)
    with pytest.raises(RunError, match="6 episodes ended in one rollout of 6 recorded steps, more than the 4"):
        recorder.flush()
    recorder.close()
    assert not list((tmp_path / "store/shards").glob("*.arrow"))
