"""How fast are trajectories written and read, and does memory stay flat?

usage: python env_core/benchmarks/bench_store.py [--shards 20] [--folder DIR]

Rollouts of 128 slots x 64 steps, as Craftax-Symbolic gives them, are built into shards of about 96 MB and written to
disk (validated, hashed, synced). Then the store is opened, its checksums verified, and minibatches of 256 random steps
are read, as codes: observation, next observation, action, reward.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from env_core.testing.examples import ExampleRecorder, example_header
from env_core.trajectory.builder import SegmentBuilder
from env_core.trajectory.rollout import Rollout
from env_core.trajectory.store import TARGET_SHARD_BYTES, Store, StoreWriter

NUM_SLOTS, NUM_STEPS, ENDING_RATE = 128, 64, 0.003
MINIBATCH, MINIBATCHES = 256, 4000


def resident() -> float:
    """Memory of this process now, without the pages of files that it maps, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) / 1e3


def write(folder: Path, num_shards: int) -> None:
    """Writes the shards and prints rows per second of build + append, and the memory after each fifth."""
    header = example_header()
    recorder = ExampleRecorder(header, NUM_SLOTS, ending_rate=ENDING_RATE)
    rollouts: list[Rollout] = [recorder.rollout(NUM_STEPS) for _ in range(32)]
    builder = SegmentBuilder(header, range(NUM_SLOTS))
    rows, seconds, memory = 0, [], []
    with StoreWriter.open(folder, header) as writer:
        for _ in range(num_shards):
            started, k = time.perf_counter(), 0
            while builder.nbytes < TARGET_SHARD_BYTES:
                builder.add(_unconnected(rollouts[k % len(rollouts)]))
                k += 1
            batch = builder.build()
            writer.append(batch)
            seconds.append(time.perf_counter() - started)
            rows += batch.num_rows
            memory.append(resident())
    rates = rows / num_shards / np.array(seconds)
    print(f"written   {rows:,} rows in {num_shards} shards, {batch.nbytes / batch.num_rows:.0f} bytes a row")
    print(f"          {rows / sum(seconds):,.0f} rows/s build + append (median shard {np.median(rates):,.0f}, slowest "
          f"{rates.min():,.0f})")  # fmt: skip
    print(f"          memory after shards: {', '.join(f'{m:.0f}' for m in memory[:: max(1, num_shards // 5)])} MB")


def _unconnected(rollout: Rollout) -> Rollout:
    """The same arrays, recorded after a gap: the benchmark comes back to them again and again."""
    return replace(rollout, contiguous=False)


def read(folder: Path) -> None:
    """Prints the rates of verification, of opening, and of random minibatches, and memory around the latter."""
    started = time.perf_counter()
    store = Store.open(folder)
    batches = list(store.batches())
    seconds = time.perf_counter() - started
    print(f"opened    first time {store.totals.num_bytes / 1e6 / seconds:,.0f} MB/s, every byte verified")
    time.sleep(1.1)
    list(Store.open(folder).batches())
    started = time.perf_counter()
    list(Store.open(folder).batches())
    print(f"          later {(time.perf_counter() - started) / len(batches) * 1e3:.1f} ms a shard")
    steps = [np.flatnonzero(batch.is_step) for batch in batches]
    random, before = np.random.default_rng(0), resident()
    started = time.perf_counter()
    for _ in range(MINIBATCHES):
        which = random.integers(len(batches))
        columns = batches[which].columns
        row = random.choice(steps[which], MINIBATCH)
        for name in ("obs_tile", "obs_mob", "obs_scalar"):
            columns[name][row], columns[name][row + 1]
        columns["action"][row], columns["reward"][row]
    rate = MINIBATCHES / (time.perf_counter() - started)
    print(f"read      {rate:,.0f} minibatches of {MINIBATCH}/s ({rate * MINIBATCH:,.0f} steps/s), one core; "
          f"memory {before:.0f} -> {resident():.0f} MB")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=20, help="of about 96 MB each (default: 20)")
    parser.add_argument("--folder", type=Path, help="where to write (default: the folder for temporary files)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        write(folder / "store", options.shards)
        read(folder / "store")
        print(f"peak      {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f} MB, pages of files included")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
