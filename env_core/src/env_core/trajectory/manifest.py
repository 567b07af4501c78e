"""What a store's folder says about itself: one sidecar per shard, and a manifest that is their index.

```
<store>/
  manifest.json             header, all shards, the next free number: written last, atomically
  shards/shard-000000.arrow the rows
  shards/shard-000000.json  its sidecar; the shard is published at the moment that this file appears
  columns/<group>/<key>/    column groups for the same rows
  locks/                    lock files; they hold nothing and may stay
```
Sidecars are the truth. A writer that was killed after its sidecar and before the manifest leaves a shard that the
manifest lacks: readers find it all the same, and the next writer lists it. Retraction goes the other way round: the
manifest names the shards first, from then on no reader sees them, and their files go after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from env_core.errors import StoreError
from env_core.publish import write_json
from env_core.trajectory.batch import Header, TrajectoryBatch
from env_core.trajectory.schema import Ending
from env_core.trajectory.versions import parse_version

SHARD_NAME = re.compile(r"(shard-(\d{6,}))\.")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ShardInfo:
    """One published shard. `name` is its file's without suffix; segment ids are those of `writer`."""

    name: str
    sha256: str
    num_bytes: int
    num_rows: int
    num_steps: int
    num_segments: int
    endings: Mapping[str, int]
    first_segment_id: int
    last_segment_id: int
    writer: str

    @classmethod
    def of(cls, batch: TrajectoryBatch, name: str, sha256: str, num_bytes: int, writer: str) -> ShardInfo:
        """The sidecar's content for a batch that was written with this checksum and size."""
        segments = batch.segments
        return cls(
            name=name,
            sha256=sha256,
            num_bytes=num_bytes,
            num_rows=batch.num_rows,
            num_steps=batch.num_steps,
            num_segments=len(segments),
            endings={ending.value: int(np.sum(segments.ending == ending)) for ending in Ending},
            first_segment_id=int(segments.segment_id[0]),
            last_segment_id=int(segments.segment_id[-1]),
            writer=writer,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any], where: Path) -> ShardInfo:
        """Ignores keys that it does not know. Raises `StoreError` naming `where` if one is missing."""
        missing = [field.name for field in fields(cls) if field.name not in data]
        if missing:
            raise StoreError(f"{where} lacks {missing} of a shard; restore the file from a copy.")
        return cls(**{field.name: data[field.name] for field in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` gives an equal value back."""
        return {**asdict(self), "endings": dict(self.endings)}


OnShard = Callable[[ShardInfo], None]
"""Is told which shard comes next."""


@dataclass(frozen=True)
class Manifest:
    """The index of a store. `retracted` are shards whose files may still be there and count no more."""

    header: Header
    shards: tuple[ShardInfo, ...] = ()
    retracted: tuple[str, ...] = ()
    next_shard: int = 0


def manifest_path(root: Path) -> Path:
    """Where a store's manifest is."""
    return root / MANIFEST


def shards_folder(root: Path) -> Path:
    """Where a store's shards and sidecars are."""
    return root / "shards"


def shard_path(root: Path, name: str) -> Path:
    """The Arrow file of a shard."""
    return shards_folder(root) / f"{name}.arrow"


def sidecar_path(root: Path, name: str) -> Path:
    """The sidecar of a shard."""
    return shards_folder(root) / f"{name}.json"


def store_lock(root: Path) -> Path:
    """The lock that a process holds while it publishes or retracts."""
    return root / "locks" / "store.lock"


def read_manifest(root: Path) -> Manifest:
    """The store as its manifest and the sidecars that it lacks tell it, shards in the order of their numbers.

    A shard that the manifest lists stays listed if its files are gone, so that reading it is an error and not an
    omission. Raises `StoreError` if there is no store, `VersionError` if it is a newer one's.
    """
    listed = _listed(root)
    known = {shard.name for shard in listed.shards} | set(listed.retracted)
    found = []
    for path in sorted(shards_folder(root).glob("shard-*.json")):
        if path.stem not in known and (data := _read_if_there(path)) is not None:
            check_major(data.get("header", {}), path)
            found.append(ShardInfo.from_json(data, path))
    shards = sorted((*listed.shards, *found), key=lambda shard: shard_number(shard.name))
    taken = [shard_number(path.name) for path in shards_folder(root).glob("shard-*")]
    return replace(listed, shards=tuple(shards), next_shard=max([listed.next_shard, *(n + 1 for n in taken)]))


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Replaces the manifest atomically. Hold the store's lock. Raises `WriteError`."""
    data = {
        "schema_version": manifest.header.schema_version,
        "header": manifest.header.to_json(),
        "shards": [shard.to_json() for shard in manifest.shards],
        "retracted": list(manifest.retracted),
        "next_shard": manifest.next_shard,
    }
    write_json(manifest_path(root), data, replace=True)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object. Raises `FileNotFoundError`, or `StoreError` if it is not one."""
    try:
        data = json.loads(path.read_text())
    except ValueError as error:
        raise StoreError(f"{path} is not valid JSON ({error}); restore it from a copy.") from error
    if not isinstance(data, dict):
        raise StoreError(f"{path} holds {type(data).__name__}, expected a JSON object; restore it from a copy.")
    return cast(dict[str, Any], data)


def shard_number(name: str) -> int:
    """`"shard-000007"` or a file of it → 7; -1 for other names."""
    match = SHARD_NAME.match(name + ".")
    return int(match.group(2)) if match else -1


def check_major(header: Mapping[str, Any], where: Path) -> None:
    """Raises `VersionError` if a header is not for this reader."""
    Header.from_json(header, str(where))


def differences(store: Header, given: Header) -> list[str]:
    """What keeps rows of `given` out of a store of `store`: a line per field that differs."""
    pairs = {
        "env_id": (store.provenance.env_id, given.provenance.env_id),
        "layout_sha256": (store.provenance.layout_sha256, given.provenance.layout_sha256),
        "encoding": (store.encoding, given.encoding),
        "sizes": (dict(store.sizes), dict(given.sizes)),
        "num_streams": (store.num_streams, given.num_streams),
        "required_features": (store.required_features, given.required_features),
        "schema major": (parse_version(store.schema_version)[0], parse_version(given.schema_version)[0]),
    }
    return [f"{name}: the store has {a}, the rows have {b}" for name, (a, b) in pairs.items() if a != b]


def _listed(root: Path) -> Manifest:
    """The manifest file; without one, what the first sidecar says of the store."""
    try:
        path = manifest_path(root)
        data = read_json(path)
    except FileNotFoundError:
        sidecars = sorted(shards_folder(root).glob("shard-*.json"))
        if not sidecars:
            raise StoreError(f"There is no trajectory store at {root}: no {MANIFEST} and no shard.") from None
        path, data = sidecars[0], read_json(sidecars[0])
        return Manifest(Header.from_json(data.get("header", {}), str(path)))
    header = Header.from_json(data.get("header", {}), str(path))
    shards = tuple(ShardInfo.from_json(shard, path) for shard in data.get("shards", ()))
    return Manifest(header, shards, tuple(data.get("retracted", ())), int(data.get("next_shard", 0)))


def _read_if_there(path: Path) -> dict[str, Any] | None:
    """A sidecar, or None if it was retracted after the folder was listed."""
    try:
        return read_json(path)
    except FileNotFoundError:
        return None
