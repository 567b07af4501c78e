"""Rollouts become segments: a table worked out by hand, and a slow walk through random recordings."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from step_by_step import StepByStep, assert_same

from env_core.errors import SchemaError
from env_core.testing.examples import ExampleRecorder, example_header
from env_core.trajectory.batch import Header
from env_core.trajectory.builder import SegmentBuilder
from env_core.trajectory.rollout import Rollout

PIXEL = example_header("pixel/1")


def frames(*values: int) -> dict[str, np.ndarray]:
    """Observations that are told apart by one number."""
    return {"obs_pixel": np.stack([np.full((6, 7, 3), value, np.uint8) for value in values])}


def hand_rollout(**changes: object) -> Rollout:
    """Three steps of two slots. Slot 0 terminates at step 1; slot 1 is truncated at step 2.

    Observations are 10, 11 | 20 in slot 0 (terminal 12, next 21) and 50, 51, 52 in slot 1 (terminal 53, next 60).
    """
    grid = {"obs_pixel": frames(10, 50, 11, 51, 20, 52)["obs_pixel"].reshape(3, 2, 6, 7, 3)}
    steps = {
        "action": np.array([[1, 4], [2, 5], [3, 6]]),
        "reward": np.array([[0.1, 0.4], [0.2, 0.5], [0.3, 0.6]], np.float32),
        "log_prob": np.full((3, 2), -1, np.float32),
        "value": np.full((3, 2, 1), 7, np.float32),
    }
    rollout = Rollout(
        columns=grid | steps,
        terminated=np.array([[False, False], [True, False], [False, False]]),
        truncated=np.array([[False, False], [False, False], [False, True]]),
        terminal_obs=frames(12, 53),
        final_obs=frames(21, 60),
        is_first=np.array([False, True]),
        episode_id=np.array([8, 0]),
        env_seed=np.array([100, 200], np.uint64),
        next_env_seed=np.array([101, 201], np.uint64),
        policy_step=64,
    )
    return replace(rollout, **changes)


def test_a_table_worked_out_by_hand() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout())
    assert builder.rows == 9
    batch = builder.build()
    batch.validate()
    assert batch.segments.to_json() == {
        "segment_id": [0, 1, 2],
        "env_slot": [4, 4, 9],
        "episode_id": [8, 9, 0],
        "row_start": [0, 3, 5],
        "num_steps": [2, 1, 3],
        "ending": ["terminated", "cut", "truncated"],
        "continues_from": [-1, -1, -1],
        "env_seed": [100, 101, 200],
        "policy_step": [64, 64, 64],
    }
    assert batch.columns["obs_pixel"][:, 0, 0, 0].tolist() == [10, 11, 12, 20, 21, 50, 51, 52, 53]
    assert batch.columns["action"].tolist() == [1, 2, 0, 3, 0, 4, 5, 6, 0]
    assert np.flatnonzero(batch.columns["is_first"]).tolist() == [3, 5]
    assert np.flatnonzero(batch.columns["is_last"]).tolist() == [2, 8]
    assert np.flatnonzero(batch.columns["is_terminal"]).tolist() == [2]
    assert np.flatnonzero(~batch.is_step).tolist() == [2, 4, 8]


def following(**changes: object) -> Rollout:
    """One step of each slot that goes on where `hand_rollout` stops."""
    first = hand_rollout()
    columns = {name: column[:1] for name, column in first.columns.items()}
    columns["obs_pixel"] = first.final_obs["obs_pixel"][None]
    none = np.zeros((1, 2), bool)
    rollout = Rollout(
        columns, none, none, frames_of_none(), frames(22, 61), np.array([False, True]), np.array([9, 1]),
        np.array([101, 201], np.uint64), np.zeros(0, np.uint64), policy_step=128,
    )  # fmt: skip
    return replace(rollout, **changes)


def frames_of_none() -> dict[str, np.ndarray]:
    return {"obs_pixel": np.zeros((0, 6, 7, 3), np.uint8)}


def test_contiguous_rollouts_lie_in_one_segment() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout())
    builder.add(following())
    table = builder.build().segments
    assert table.num_steps.tolist() == [2, 2, 3, 1]
    assert table.policy_step.tolist() == [64, 64, 64, 128]  # that of the first step
    assert table.continues_from.tolist() == [-1] * 4


def test_build_cuts_and_the_next_batch_continues() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout())
    builder.build()
    builder.add(following())
    table = builder.build().segments
    assert table.segment_id.tolist() == [3, 4]
    assert table.continues_from.tolist() == [1, -1]  # slot 9's episode had ended
    assert table.env_seed.tolist() == [101, 201]


def test_a_gap_cuts_and_nothing_continues() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout())
    builder.add(following(contiguous=False, episode_id=np.array([30, 31]), is_first=np.array([False, False])))
    batch = builder.build()
    assert batch.segments.ending.tolist() == ["terminated", "cut", "cut", "truncated", "cut"]
    assert batch.segments.continues_from.tolist() == [-1] * 5
    assert batch.columns["obs_pixel"][3:5, 0, 0, 0].tolist() == [20, 21]  # the final_obs given before the gap
    assert batch.segments.episode_id.tolist() == [8, 9, 30, 0, 31]


def test_a_gap_after_build_continues_nothing_either() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout())
    builder.build()
    builder.add(following(contiguous=False))
    assert builder.build().segments.continues_from.tolist() == [-1, -1]


def test_unknown_worlds_are_null() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout(env_seed=None, next_env_seed=None))
    table = builder.build().segments
    assert table.to_json()["env_seed"] == [None] * 3
    assert not table.has_env_seed.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"is_first": np.array([True, True])}, "is_first of slot 4 is True"),
        ({"episode_id": np.array([9, 0])}, "episode_id of slot 9 is 0.*must be 1"),
        (
            {"columns": hand_rollout().columns},
            r"columns\['obs_pixel'\] is uint8\[3, 2, 6, 7, 3\]; expected uint8\[1, 2",
        ),
    ],
)
def test_a_contiguous_rollout_goes_on_where_the_last_stopped(changes: dict[str, object], message: str) -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout())
    with pytest.raises(SchemaError, match=message):
        builder.add(following(**changes))
    builder.add(following())  # what was refused left nothing behind
    assert builder.rows == 8 + 4  # steps and segments


def test_another_observation_than_the_final_one_is_refused() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout(final_obs=frames(21, 99)))
    with pytest.raises(SchemaError, match="obs_pixel is not the final_obs"):
        builder.add(following())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"terminated": np.zeros((3, 2), np.float32)}, "terminated is float32.*expected bool"),
        ({"truncated": np.zeros((3, 1), bool)}, r"truncated is bool\[3, 1\].*bool\[3, 2\]"),
        ({"truncated": np.ones((3, 2), bool)}, "both terminated and truncated"),
        ({"terminated": np.zeros((0, 2), bool), "truncated": np.zeros((0, 2), bool)}, "no step"),
        ({"terminal_obs": frames(12)}, r"terminal_obs\['obs_pixel'\].*\[2, 6, 7, 3\]"),
        ({"final_obs": {}}, "final_obs lacks 'obs_pixel'"),
        ({"next_env_seed": np.zeros(3, np.uint64)}, r"next_env_seed is uint64\[3\]; expected uint64\[2\]"),
        (
            {"columns": hand_rollout().columns | {"rewrd": np.zeros((3, 2))}},
            "unexpected 'rewrd'. Did you mean 'reward'",
        ),
        ({"columns": hand_rollout().columns | {"is_first": np.zeros((3, 2), bool)}}, "unexpected 'is_first'"),
        ({"columns": hand_rollout().columns | {"action": np.full((3, 2), 70_000)}}, "int16 cannot hold"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        SegmentBuilder(PIXEL, [4, 9]).add(hand_rollout(**changes))


def test_the_columns_stay_the_same_within_a_batch() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    builder.add(hand_rollout())
    fewer = {name: column for name, column in following().columns.items() if name != "value"}
    with pytest.raises(SchemaError, match="build\\(\\) before changing"):
        builder.add(following(columns=fewer))
    builder.build()
    builder.add(following(columns=fewer))
    assert "value" not in builder.build().columns


def test_nothing_to_build_and_rows_not_in_the_state() -> None:
    builder = SegmentBuilder(PIXEL, [4, 9])
    assert (builder.rows, builder.nbytes) == (0, 0)
    with pytest.raises(SchemaError, match="Nothing was added"):
        builder.build()
    builder.add(hand_rollout())
    with pytest.raises(SchemaError, match="9 rows are waiting"):
        builder.state()


def test_a_state_of_other_slots_is_refused() -> None:
    state = SegmentBuilder(PIXEL, [4, 9]).state()
    with pytest.raises(SchemaError, match="state is not one of slots"):
        SegmentBuilder(PIXEL, [4, 8], state)
    with pytest.raises(SchemaError, match="different numbers"):
        SegmentBuilder(PIXEL, [4, 4])


recordings = st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), min_size=1, max_size=6)
"""Rollouts: how many steps, whether contiguous, whether `build` follows."""


@settings(max_examples=60, deadline=None)
@given(
    encoding=st.sampled_from(["craftax_classic_symbolic/1", "bits/1", "pixel/1"]),
    num_slots=st.integers(1, 4),
    num_streams=st.integers(1, 2),
    ending_rate=st.sampled_from([0.0, 0.3, 1.0]),
    recording=recordings,
    seed=st.integers(0, 2**16),
)
def test_equal_to_a_walk_step_by_step(
    encoding: str, num_slots: int, num_streams: int, ending_rate: float, recording: list, seed: int
) -> None:
    header = example_header(encoding, num_streams)
    recorder = ExampleRecorder(header, num_slots, seed, ending_rate)
    builder, plain = SegmentBuilder(header, range(num_slots)), StepByStep(num_slots)
    waiting: list[Rollout] = []
    for number, (num_steps, contiguous, build) in enumerate([*recording, (1, True, True)]):
        waiting.append(recorder.rollout(num_steps, contiguous=contiguous, policy_step=number))
        builder.add(waiting[-1])
        if build:
            rows, nbytes = builder.rows, builder.nbytes
            batch = builder.build()
            batch.validate()
            assert (batch.num_rows, batch.nbytes) == (rows, nbytes)
            assert_same(batch, plain.build(waiting))
            waiting = []


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**16), st.sampled_from([0.0, 0.4]), st.booleans())
def test_a_resumed_builder_builds_the_same(seed: int, ending_rate: float, contiguous: bool) -> None:
    header: Header = example_header("bits/1")
    recorder = ExampleRecorder(header, 3, seed, ending_rate)
    builder = SegmentBuilder(header, range(3))
    builder.add(recorder.rollout(4))
    builder.build()
    resumed = SegmentBuilder(header, range(3), json.loads(json.dumps(builder.state())))
    for steps in (3, 2):
        rollout = recorder.rollout(steps, contiguous=contiguous)
        builder.add(rollout)
        resumed.add(rollout)
    assert resumed.build().equals(builder.build())
    assert resumed.state() == builder.state()
