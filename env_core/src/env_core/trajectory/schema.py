"""The trajectory schema: every field, its dtype, its axes and its meaning. The one source of the tables in the docs.

Axes: a batch has R rows; K is the number of reward streams (the first is the extrinsic one). Symbols in a shape
(`tiles`, `streams`, …) stand for sizes that the observation layout or the header fixes: `resolve_sizes`.

A change to a field is a new schema version: a field that readers may ignore is a new minor version, anything else a
new major one with a step in `versions.MIGRATIONS`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from env_core.errors import SchemaError, nearest
from env_core.observation.layout import layouts

SCHEMA_VERSION = "1.0"
FEATURES: frozenset[str] = frozenset()
"""The `required_features` that this reader knows. Version 1.0 has none."""


class Ending(StrEnum):
    """Why a segment stopped: the episode ended by itself, it hit a time limit, or only the recording stopped."""

    TERMINATED = "terminated"
    TRUNCATED = "truncated"
    CUT = "cut"


BITS = "bits/1"
PIXEL = "pixel/1"
PACKED = ("craftax_symbolic/1", "craftax_classic_symbolic/1")
ENCODINGS = (*PACKED, BITS, PIXEL)
EXTRA_SIZES: Mapping[str, tuple[str, ...]] = {BITS: ("map_size", "size"), PIXEL: ("height", "width")}
"""The sizes that a header must state because no layout does."""


@dataclass(frozen=True)
class Field:
    """One column. `shape` is per row; `encodings` are those that have it (none named: all). A field with `per_step` is
    null on a segment's final row, which holds an observation and no step."""

    name: str
    dtype: str
    shape: tuple[str | int, ...]
    required: bool
    meaning: str
    since: str = "1.0"
    encodings: tuple[str, ...] = ()
    per_step: bool = False


@dataclass(frozen=True)
class Column:
    """A field with its symbols resolved: what one column of one batch must look like."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    required: bool
    per_step: bool

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


FIELDS: tuple[Field, ...] = (
    Field("obs_tile", "uint8", ("tiles",), True, encodings=PACKED,
          meaning="code of each tile of the map view, row-major: 0 = dark, else 1 + block·items + item (1 + block "
          "where the layout has no items)"),
    Field("obs_mob", "uint16", ("mob_slots",), True, encodings=PACKED,
          meaning="tile·channels + channel of each visible mob, ascending; 0xFFFF = empty slot"),
    Field("obs_scalar", "float32", ("scalars",), True, encodings=(*PACKED, BITS),
          meaning="the rest of the observation (inventory, intrinsics, …), bit for bit as the environment gives it"),
    Field("obs_bits", "uint8", ("bits",), True, encodings=(BITS,),
          meaning="the leading `map_size` zeros and ones of the observation, eight to a byte, lowest bit first"),
    Field("obs_pixel", "uint8", ("height", "width", 3), True, encodings=(PIXEL,), meaning="the frame, RGB"),
    Field("action", "int16", (), True, per_step=True, meaning="the action taken on seeing this row's observation"),
    Field("reward", "float32", (), True, per_step=True, meaning="extrinsic reward of that action"),
    Field("intrinsic_reward", "float32", ("intrinsic_streams",), False, per_step=True,
          meaning="rewards of the streams after the first, where there are any"),
    Field("log_prob", "float32", (), False, per_step=True,
          meaning="natural logarithm of the behaviour policy's probability of the action"),
    Field("value", "float32", ("streams",), False, per_step=True,
          meaning="the behaviour policy's value of the observation, one per reward stream"),
    Field("is_first", "bool", (), True, meaning="the observation is the first of its episode"),
    Field("is_last", "bool", (), True, meaning="the observation is the last of its episode, however that ended"),
    Field("is_terminal", "bool", (), True, meaning="the episode terminated here, so no reward can follow"),
)  # fmt: skip

SEGMENT_FIELDS: tuple[Field, ...] = (
    Field("segment_id", "int64", (), True, "number of the segment, ascending and unique among its writer's segments"),
    Field("env_slot", "int32", (), True, "the environment slot that it was recorded in"),
    Field("episode_id", "int64", (), True, "number of the episode within the slot"),
    Field("row_start", "int64", (), True, "its first row in this shard"),
    Field("num_steps", "int64", (), True, "its steps n; it has n+1 rows"),
    Field("ending", "str", (), True, "terminated, truncated or cut"),
    Field("continues_from", "int64", (), True, "segment_id (same writer) whose last observation is its first, or −1"),
    Field("env_seed", "uint64", (), True, "key of the world that the episode plays in (null in the file = unknown)"),
    Field("has_env_seed", "bool", (), True, "whether that key is known (in memory; the file writes null)"),
    Field("policy_step", "int64", (), True, "environment steps that the policy of its first step was trained on"),
)
"""The segment table, one row per segment. A shard keeps it as columnar JSON in its metadata."""


def resolve_sizes(encoding: str, num_streams: int, extra: Mapping[str, int]) -> dict[str, int]:
    """Numbers for the symbols in the shapes of `encoding`'s fields.

    Raises `SchemaError` for an unknown encoding, sizes that are missing or not asked for, or no reward stream.
    """
    if encoding not in ENCODINGS:
        raise SchemaError(f"Unknown observation encoding {encoding!r}. {nearest(encoding, ENCODINGS)}")
    wanted = EXTRA_SIZES.get(encoding, ())
    if set(extra) != set(wanted) or any(not isinstance(n, int) or n < 0 for n in extra.values()):
        raise SchemaError(
            f"The header's sizes are {dict(extra)}; {encoding} wants whole numbers for {list(wanted) or 'nothing'}."
        )
    if num_streams < 1:
        raise SchemaError(f"num_streams is {num_streams}; there is always one reward stream, the extrinsic one.")
    sizes = {"streams": num_streams, "intrinsic_streams": num_streams - 1, **extra}
    if encoding == BITS:
        if extra["map_size"] > extra["size"]:
            raise SchemaError(f"map_size {extra['map_size']} is more than the observation's size {extra['size']}.")
        sizes |= {"bits": -(-extra["map_size"] // 8), "scalars": extra["size"] - extra["map_size"]}
    elif encoding in PACKED:
        layout = layouts[encoding]
        sizes |= {"tiles": layout.tiles, "mob_slots": layout.mob_slots, "scalars": layout.scalars}
    return sizes


def columns_of(encoding: str, num_streams: int, extra: Mapping[str, int]) -> dict[str, Column]:
    """The columns that a batch may have, by name, in the table's order. Same errors as `resolve_sizes`."""
    sizes = resolve_sizes(encoding, num_streams, extra)
    columns = {}
    for field in FIELDS:
        if (field.encodings and encoding not in field.encodings) or (field.shape and _absent(field, sizes)):
            continue
        shape = tuple(sizes[n] if isinstance(n, str) else n for n in field.shape)
        columns[field.name] = Column(field.name, np.dtype(field.dtype), shape, field.required, field.per_step)
    return columns


def _absent(field: Field, sizes: Mapping[str, int]) -> bool:
    """An axis of length zero leaves nothing to store: no intrinsic reward with one stream, no scalars in a pure map."""
    return any(sizes.get(n, 1) == 0 for n in field.shape if isinstance(n, str))


def fingerprint(fields: Sequence[Field] = FIELDS, segment_fields: Sequence[Field] = SEGMENT_FIELDS) -> str:
    """SHA-256 of everything about the tables that a file depends on, so of all but the meanings."""
    table = [
        [f.name, f.dtype, list(f.shape), f.required, f.since, list(f.encodings), f.per_step]
        for f in (*fields, *segment_fields)
    ]
    return hashlib.sha256(json.dumps(table).encode()).hexdigest()


def markdown() -> str:
    """The field tables for the documentation."""
    lines = ["| field | dtype | shape | required | meaning |", "|---|---|---|---|---|"]
    for field in FIELDS:
        shape = ", ".join(str(n) for n in field.shape)
        required = "yes" if field.required else "no"
        if field.encodings:
            required = ", ".join(f"`{name}`" for name in field.encodings)
        lines.append(f"| `{field.name}` | {field.dtype} | [{shape}] | {required} | {field.meaning} |")
    lines += ["", "| segment column | dtype | meaning |", "|---|---|---|"]
    lines += [f"| `{field.name}` | {field.dtype} | {field.meaning} |" for field in SEGMENT_FIELDS]
    lines += ["", "| size | " + " | ".join(f"`{name}`" for name in PACKED) + " |", "|---|---|---|"]
    for size in ("tiles", "mob_slots", "scalars"):
        lines.append(f"| `{size}` | " + " | ".join(str(getattr(layouts[name], size)) for name in PACKED) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """`python -m env_core.trajectory.schema --markdown`"""
    parser = argparse.ArgumentParser(description=f"The field tables of trajectory schema {SCHEMA_VERSION}.")
    parser.add_argument("--markdown", action="store_true", required=True, help="print them as Markdown tables")
    parser.parse_args()
    sys.stdout.write(markdown())


if __name__ == "__main__":
    main()
