"""What is recorded is what happened: replayed from world keys and actions alone, and compared bit for bit."""

from __future__ import annotations

import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import scribble_game, silent
from small_runs import SMALL, Columns, Train, assert_same, final_state, metrics_of, rows_by_slot, steps_of, store_of

from env_core.errors import WriteError
from env_core.observation import CLASSIC, Packed
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.schema import Ending
from env_core.trajectory.store import StoreWriter
from online_jax import assemble, checkpoint, session
from online_jax.command import parse
from online_jax.learner import Learner
from online_jax.policies import act, log_prob
from online_jax.record import StoreRecorder

ENVS, STEPS, UPDATES, LIMIT = 4, 8, 8, 9  # those of SMALL


def obs_of(columns: Columns) -> Packed:
    return Packed(columns["obs_tile"], columns["obs_mob"], columns["obs_scalar"])


def key_of(env_seed: np.uint64) -> jax.Array:
    return jnp.array([int(env_seed) >> 32, int(env_seed) & 0xFFFFFFFF], jnp.uint32)


def test_a_replay_gives_the_recorded_rows(run: Path) -> None:
    """One environment at a time, one step at a time, through the game's own functions."""
    game = scribble_game(CLASSIC, LIMIT)
    reset, step, look, ends = map(jax.jit, (game.reset, game.step, game.observe, game.endings))
    found = rows_by_slot(run)
    assert sorted(found) == list(range(ENVS))
    endings = set()
    for columns in found.values():
        starts, episode, at = True, 0, None
        for row in range(len(columns["action"])):
            if starts:
                at = reset(key_of(columns["env_seed"][row]))
            assert columns["is_first"][row] == starts
            assert columns["episode_id"][row] == episode
            terminated, truncated = map(bool, ends(at))
            assert columns["is_last"][row] == (terminated or truncated) == (not columns["is_step"][row])
            assert columns["is_terminal"][row] == terminated
            for name, value in zip(("obs_tile", "obs_mob", "obs_scalar"), look(at), strict=True):
                assert columns[name][row].tobytes() == np.asarray(value).tobytes()
            starts = terminated or truncated
            if starts:
                episode += 1
                endings.add("terminated" if terminated else "truncated")
            else:
                at, reward = step(jax.random.PRNGKey(0), at, columns["action"][row])
                assert columns["reward"][row] == reward
        assert columns["is_step"].sum() == UPDATES * STEPS
    assert endings == {"terminated", "truncated"}
    worlds = np.concatenate([columns["env_seed"][columns["is_first"]] for columns in found.values()])
    assert len(set(worlds.tolist())) > ENVS  # fresh worlds, not the first ones again


def test_log_probs_and_values_are_those_of_the_policy_that_acted(run: Path, scribbled: Train) -> None:
    _, settings = parse(SMALL)
    variant = assemble.variant(settings)
    learner, evaluate = Learner(variant, silent), jax.jit(lambda params, obs: _evaluate(variant, params, obs))
    state = learner.init(settings.seed)
    slots = [steps_of(columns) for columns in rows_by_slot(run).values()]
    for update in range(UPDATES):
        rows = slice(update * STEPS, (update + 1) * STEPS)
        acted = {name: np.stack([slot[name][rows] for slot in slots]) for name in slots[0]}
        for env in range(ENVS):
            obs = jax.tree.map(lambda part, env=env: part[env], obs_of(acted))
            logits, values = evaluate(state.params, obs)
            found = log_prob(logits, jnp.asarray(acted["action"][env], jnp.int32))
            np.testing.assert_allclose(acted["log_prob"][env], found, atol=1e-5)
            np.testing.assert_allclose(acted["value"][env], values, atol=1e-5)
        state = learner.update(state).state


def _evaluate(variant, params, obs):
    _, output = act(variant.policy, params, (), obs, jnp.zeros(len(obs.tile), bool))
    return output


def test_the_store_is_sound_and_says_where_it_comes_from(run: Path) -> None:
    store = store_of(run)
    report = verify_store(store)
    assert report.ok and not report.leftovers, report.defects
    assert store.totals.num_steps == ENVS * STEPS * UPDATES
    assert len(store.shards) == 3  # one per checkpoint
    segments = [batch.segments for batch in store.batches()]
    assert any((table.continues_from >= 0).any() for table in segments)
    assert [int(table.policy_step.min()) for table in segments] == [0, 3 * ENVS * STEPS, 6 * ENVS * STEPS]
    said = store.header.provenance
    assert (said.env_id, said.seed, said.layout_sha256) == ("Craftax-Classic-Symbolic-v1", 0, CLASSIC.sha256)
    assert said.producer.startswith("craftax-online-jax ")


def test_the_first_environments_are_recorded_and_recording_changes_nothing(
    run: Path, scribbled: Train, tmp_path: Path
) -> None:
    everything = rows_by_slot(run)
    two = scribbled(tmp_path / "two", "--record-envs", "2")
    assert_same(rows_by_slot(two), {slot: everything[slot] for slot in (0, 1)})
    none = scribbled(tmp_path / "none", "--no-record")
    assert not (none / "trajectories").exists()
    assert final_state(none) == final_state(two) == final_state(run)


def test_gaps_are_cut_and_not_continued(run: Path, scribbled: Train, tmp_path: Path) -> None:
    """Rollouts 0, 3 and 6 of the 8 are recorded."""
    some = scribbled(tmp_path / "some", "--record-every", "3")
    store = store_of(some)
    assert verify_store(store).ok
    tables = [batch.segments for batch in store.batches()]
    assert all((table.continues_from == -1).all() for table in tables)
    assert sum(int((table.ending == Ending.CUT).sum()) for table in tables) > ENVS
    every = {slot: steps_of(columns) for slot, columns in rows_by_slot(run).items()}
    rows = np.concatenate([np.arange(STEPS) + STEPS * rollout for rollout in (0, 3, 6)])
    found = {slot: steps_of(columns) for slot, columns in rows_by_slot(some).items()}
    assert_same(found, {slot: {name: c[rows] for name, c in columns.items()} for slot, columns in every.items()})


@pytest.mark.parametrize("where", ["while acting", "at a checkpoint"])
def test_a_full_disk_stops_training_and_loses_nothing(
    run: Path, scribbled: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, where: str
) -> None:
    """The recorder's own thread publishes full shards, the training loop what is left at a checkpoint."""
    if where == "while acting":
        monkeypatch.setattr(session, "StoreRecorder", _with_shards_of_a_rollout)
    threads: list[str] = []
    with monkeypatch.context() as disk:
        disk.setattr(StoreWriter, "append", _until_the_disk_is_full(StoreWriter.append, threads))
        with pytest.raises(SystemExit) as stopped:
            scribbled(tmp_path / "full")
    assert stopped.value.code == 2
    assert ("recorder" in threads) == (where == "while acting")
    message = capsys.readouterr().err
    assert message.startswith("error: ") and "disk full" in message
    saved = checkpoint.latest(tmp_path / "full/checkpoints")
    assert (saved is None) == (where == "while acting")
    resumed = scribbled(tmp_path / "full", resume=True)
    assert verify_store(store_of(resumed)).ok
    assert_same(rows_by_slot(resumed), rows_by_slot(run))
    assert final_state(resumed) == final_state(run)
    assert metrics_of(resumed) == metrics_of(run)


def _with_shards_of_a_rollout(path, header, slots, shard_bytes, position=None) -> StoreRecorder:
    return StoreRecorder(path, header, slots, 5000, position)


def _until_the_disk_is_full(append, threads: list[str]):
    """`StoreWriter.append` that works once; notes which threads call it."""

    def full(writer, batch):
        threads.append(threading.current_thread().name)
        if len(threads) > 1:
            raise WriteError("disk full")
        return append(writer, batch)

    return full


def test_a_finished_run_that_is_resumed_stays_as_it_is(scribbled: Train, tmp_path: Path) -> None:
    finished = scribbled(tmp_path / "run")
    state, rows, metrics = final_state(finished), rows_by_slot(finished), metrics_of(finished)
    scribbled(finished, resume=True)
    assert (final_state(finished), metrics_of(finished)) == (state, metrics)
    assert_same(rows_by_slot(finished), rows)
