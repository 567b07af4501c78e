"""A writer for the kill tests: appends batches that go on from one another until it is killed or has written enough.

usage: append_for_ever.py STORE WRITER SEED COUNT      (COUNT 0: no end). Says "ready" before the first append.
"""

import sys
from pathlib import Path

from env_core.testing.examples import ExampleRecorder, example_header
from env_core.trajectory.builder import SegmentBuilder
from env_core.trajectory.store import StoreWriter


def main(store: str, name: str, seed: str, count: str) -> None:
    header = example_header("craftax_classic_symbolic/1", seed=int(seed))
    recorder = ExampleRecorder(header, 8, int(seed))
    with StoreWriter.open(Path(store), header, name) as writer:
        first_id = writer.shards[-1].last_segment_id + 1 if writer.shards else 0
        state = SegmentBuilder(header, range(8)).state() | {"next_segment_id": first_id}
        builder = SegmentBuilder(header, range(8), state)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while count == "0" or len(writer.shards) < int(count):
            builder.add(recorder.rollout(16))
            writer.append(builder.build())


if __name__ == "__main__":
    main(*sys.argv[1:])
