"""A small run of the training program, and what it left: recorded rows, metrics and final state, to be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from env_core.run import read_metrics
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.schema import Ending
from env_core.trajectory.store import Store

SMALL = [
    *("--env-name", "Craftax-Classic-Symbolic-v1", "--env.max-timesteps", "9"),
    *("--num-envs", "4", "--num-steps", "8", "--total-steps", "256", "--record-envs", "-1"),
    *("--network.width", "8", "--network.depth", "2", "--network.first-layer", "gather"),
    *("--ppo.epochs", "1", "--ppo.minibatches", "2", "--checkpoint.updates", "3", "--quiet"),
]
"""Arguments of a run of 8 updates of 4 x 8 steps, with checkpoints after 3, 6 and 8 of them."""


Train = Callable[..., Path]
Columns = dict[str, np.ndarray[Any, Any]]


QUICK_TO_COMPILE = "--xla_backend_optimization_level=0"
"""Of XLA_FLAGS: a third less time for programs that run for seconds. What XLA itself optimises stays."""


def devices_of_cpu(count: int) -> str:
    """XLA_FLAGS that make `count` devices of the CPU, which wait for one another as long as a busy machine needs."""
    return (
        f"{QUICK_TO_COMPILE} --xla_force_host_platform_device_count={count} "
        "--xla_cpu_collective_call_terminate_timeout_seconds=600 --xla_cpu_collective_timeout_seconds=1800"
    )


def store_of(run: Path) -> Store:
    return Store.open(run / "trajectories")


def rows_by_slot(run: Path) -> dict[int, Columns]:
    """Every slot's rows over all shards, wherever they were cut into segments and shards.

    The final row of a cut segment is left out: it repeats the first row of the one that continues it. `is_step` tells
    steps from the rows that hold a last observation.
    """
    pieces: dict[int, list[Columns]] = {}
    for batch in store_of(run).batches():
        segments = batch.segments
        for i, slot in enumerate(segments.env_slot.tolist()):
            rows = batch.rows_of(i)
            if segments.ending[i] == Ending.CUT:
                rows = slice(rows.start, rows.stop - 1)
            columns = {name: np.array(column[rows]) for name, column in batch.columns.items()}
            columns["is_step"] = np.array(batch.is_step[rows])
            for name in ("episode_id", "env_seed"):
                columns[name] = np.full(len(columns["is_step"]), getattr(segments, name)[i])
            pieces.setdefault(slot, []).append(columns)
    return {
        slot: {name: np.concatenate([piece[name] for piece in parts]) for name in parts[0]}
        for slot, parts in sorted(pieces.items())
    }


def steps_of(columns: Columns) -> Columns:
    return {name: column[columns["is_step"]] for name, column in columns.items()}


def assert_same(found: dict[int, Columns], expected: dict[int, Columns]) -> None:
    """Bit for bit."""
    assert found.keys() == expected.keys()
    for slot, columns in expected.items():
        assert found[slot].keys() == columns.keys()
        for name, column in columns.items():
            assert found[slot][name].tobytes() == column.tobytes(), f"{name} of slot {slot} differs"


def arrays_of(run: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Every array of the newest checkpoint, by its place in the training state, whatever devices it was saved on."""
    import jax
    import orbax.checkpoint as orbax

    from online_jax import checkpoint

    newest = checkpoint.latest(run / "checkpoints")
    assert newest is not None
    path = (newest[0] / checkpoint.STATE).absolute()
    with orbax.PyTreeCheckpointer() as checkpointer:
        like = checkpointer.metadata(path).item_metadata.tree
        as_numpy = jax.tree.map(lambda _: orbax.RestoreArgs(restore_type=np.ndarray), like)
        state = checkpointer.restore(path, args=orbax.args.PyTreeRestore(restore_args=as_numpy))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(state)}


def final_state(run: Path) -> dict[str, bytes]:
    """Every array of the newest checkpoint, by its place in the training state."""
    from online_jax import checkpoint

    newest = checkpoint.latest(run / "checkpoints")
    assert newest is not None
    return saved_state(newest[0])


def saved_state(path: Path) -> dict[str, bytes]:
    """The same of any checkpoint."""
    import jax
    import orbax.checkpoint as orbax

    from online_jax import checkpoint

    with orbax.StandardCheckpointer() as checkpointer:
        state = checkpointer.restore((path / checkpoint.STATE).absolute())
    leaves = jax.tree.leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(leaf).tobytes() for path, leaf in leaves}


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl without what the clock says."""
    lines = read_metrics(run / "metrics.jsonl")
    return [{name: value for name, value in line.items() if not name.startswith("time")} for line in lines]


def assert_same_runs(found: Path, expected: Path, folders: Sequence[str] = ("",)) -> None:
    """Bit for bit: the final state, and in each of the run's `folders` metrics and recorded rows."""
    from online_jax import checkpoint

    state, wanted = final_state(found), final_state(expected)
    assert {path for path in wanted if state.get(path) != wanted[path]} == set()
    assert state.keys() == wanted.keys()
    newest, other = (checkpoint.latest(run / "checkpoints") for run in (found, expected))
    assert newest is not None and other is not None and newest[1].step == other[1].step
    for folder in folders:
        assert_same(rows_by_slot(found / folder), rows_by_slot(expected / folder))
        assert metrics_of(found / folder) == metrics_of(expected / folder)
        report = verify_store(store_of(found / folder))
        assert report.ok and not report.leftovers, report.defects
