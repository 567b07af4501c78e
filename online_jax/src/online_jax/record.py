"""The recorder: kept rollouts stream to a trajectory store while training goes on.

A thread of its own fetches them from the device, joins them to segments and publishes a shard whenever one is full.
What is not kept is never fetched. `flush` makes everything durable and says where recording stands; a run that is
continued from there takes back what was published later, and writes those rows again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from env_core.errors import RunError, StoreError
from env_core.observation import Layout, Packed
from env_core.trajectory.batch import Header, Provenance
from env_core.trajectory.builder import SegmentBuilder
from env_core.trajectory.rollout import Rollout
from env_core.trajectory.store import StoreWriter
from online_jax.config import TrainConfig
from online_jax.keeping import Kept
from online_jax.ppo import Variant

WAITING = 2
"""Rollouts that may wait for the thread; training then waits for it, so that memory stays bounded."""
WRITER = "online"


class Recorder(Protocol):
    """Where kept rollouts go."""

    def take(self, kept: Kept, policy_step: int, contiguous: bool) -> None:
        """Takes a rollout. Raises what went wrong with an earlier one."""

    def flush(self) -> dict[str, Any]:
        """Waits until all that was taken is published; returns where recording stands, as JSON."""

    def close(self) -> None:
        """Ends. What was taken since the last `flush` is dropped: no checkpoint counts on it."""


class NoRecorder:
    """The null object."""

    def take(self, kept: Kept, policy_step: int, contiguous: bool) -> None: ...

    def flush(self) -> dict[str, Any]:
        return {}

    def close(self) -> None: ...


class StoreRecorder:
    """Records to the store at `path`. `position` is what `flush` returned when the state to continue from was saved."""

    def __init__(
        self, path: Path, header: Header, num_slots: int, shard_bytes: int, position: dict[str, Any] | None = None
    ) -> None:
        self._writer = StoreWriter.open(path, header, WRITER)
        published = set() if position is None else set(position["shards"])
        names = {shard.name for shard in self._writer.shards}
        if missing := sorted(published - names):
            self._writer.close()
            raise StoreError(
                f"{path} lacks {', '.join(missing)}, recorded before the checkpoint. Restore them from a copy, or "
                "start a new run."
            )
        self._writer.retract(sorted(names - published))
        builder_state = None if position is None else position["builder"]
        self._builder = SegmentBuilder(header, range(num_slots), builder_state)
        self._shard_bytes = shard_bytes
        self._num_streams = header.num_streams
        self._error: BaseException | None = None
        self._queue: queue.Queue[tuple[Kept, int, bool] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def take(self, kept: Kept, policy_step: int, contiguous: bool) -> None:
        self._queue.put((kept, policy_step, contiguous))
        self._raise()

    def flush(self) -> dict[str, Any]:
        self._queue.join()
        self._raise()
        self._publish()
        return {"shards": [shard.name for shard in self._writer.shards], "builder": self._builder.state()}

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._writer.close()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                if self._error is None:
                    self._builder.add(self._rollout(*item))
                    if self._builder.nbytes >= self._shard_bytes:
                        self._publish()
            except BaseException as error:  # handed to the training loop, which stops
                self._error = error
            finally:
                self._queue.task_done()

    def _publish(self) -> None:
        if self._builder.rows:
            self._writer.append(self._builder.build())

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _rollout(self, on_device: Kept, policy_step: int, contiguous: bool) -> Rollout:
        kept: Any = jax.device_get(on_device)  # the same, of NumPy arrays
        endings, capacity = int(kept.endings.num_endings), len(kept.endings.next_world_key)
        if endings > capacity:
            raise RunError(
                f"{endings} episodes ended in one rollout of {kept.action.size} recorded steps, more than the "
                f"{capacity} that the environment's max_ending_rate makes room for. Nothing of it was recorded. Raise "
                "that rate, or train with --no-record."
            )
        columns = {
            **columns_of(kept.obs),
            "action": kept.action,
            "reward": kept.reward,
            "log_prob": kept.log_prob,
            "value": kept.values,
        }
        if self._num_streams > 1:
            columns["intrinsic_reward"] = kept.bonus[..., None]
        return Rollout(
            columns=columns,
            terminated=kept.terminated,
            truncated=kept.truncated,
            terminal_obs=columns_of(jax.tree.map(lambda x: x[:endings], kept.endings.obs)),
            final_obs=columns_of(kept.final_obs),
            is_first=kept.is_first,
            episode_id=kept.episode.astype(np.int64),
            env_seed=as_seed(kept.world_key),
            next_env_seed=as_seed(kept.endings.next_world_key[:endings]),
            policy_step=policy_step,
            contiguous=contiguous,
        )


def columns_of(obs: Any) -> dict[str, Any]:
    """Observations, packed or frames, as columns of the schema."""
    if isinstance(obs, Packed):
        return {"obs_tile": obs.tile, "obs_mob": obs.mob, "obs_scalar": obs.scalar}
    return {"obs_pixel": obs}


def as_seed(key: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """PRNG key data uint32 [..., 2] → uint64 [...], the first word high."""
    words = key.astype(np.uint64)
    return words[..., 0] << np.uint64(32) | words[..., 1]


def header(settings: TrainConfig, variant: Variant, run_record: Mapping[str, Any], seed: int) -> Header:
    """What all shards of a run's seed say of themselves. `run_record` is the run's config.json."""
    layout = variant.env.layout
    return Header(
        encoding=layout.name,
        sizes={} if isinstance(layout, Layout) else {"height": layout.height, "width": layout.width},
        num_streams=len(variant.streams.gamma),
        provenance=Provenance(
            env_id=settings.env_name,
            craftax_version=metadata.version("craftax"),
            layout_sha256=layout.sha256,
            producer=f"craftax-online-jax {metadata.version('craftax-online-jax')}",
            git_revision=run_record["git_revision"] or "unknown",
            config_sha256=run_record["config_sha256"],
            seed=seed,
            created_at=run_record["created_at"],
        ),
    )
