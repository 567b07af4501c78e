"""Shards as another program might have written them: a newer version, more columns, a feature of the future."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from env_core.publish import temporary_beside
from env_core.trajectory.batch import Array
from env_core.trajectory.checksums import hashed_file
from env_core.trajectory.codecs.arrow import read_arrow, read_raw, write_raw
from env_core.trajectory.manifest import read_manifest, shard_path, sidecar_path, write_manifest


def rewrite_shard(
    root: Path, name: str, *, header: Mapping[str, Any] | None = None, columns: Mapping[str, Array] | None = None
) -> None:
    """Replaces entries of a shard's header and adds columns, with a checksum to match, as if it had been so always."""
    path = shard_path(root, name)
    is_step, raw = read_arrow(path).is_step, read_raw(path)
    specs = read_arrow(path).header.columns
    changed = raw._replace(
        header={**raw.header, **(header or {})},
        columns={**{n: np.array(column) for n, column in raw.columns.items()}, **(columns or {})},
    )
    temporary = temporary_beside(path)
    with hashed_file(temporary) as file:
        write_raw(changed, {n: is_step for n, spec in specs.items() if spec.per_step}, file)
    manifest = read_manifest(root)
    shards = [
        replace(shard, sha256=file.sha256, num_bytes=file.num_bytes) if shard.name == name else shard
        for shard in manifest.shards
    ]
    temporary.replace(path)
    told = {**next(s for s in shards if s.name == name).to_json(), "header": changed.header}
    sidecar_path(root, name).write_text(json.dumps(told))
    write_manifest(root, replace(manifest, shards=tuple(shards)))
