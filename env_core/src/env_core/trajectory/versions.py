"""Which files this reader reads: versions compared, older ones migrated, newer ones refused with the reason.

Versions are `major.minor`, two whole numbers. A newer minor version only adds columns that may be ignored. An older
major version goes through the steps in `MIGRATIONS`, one per major version, that are kept for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from env_core.errors import VersionError
from env_core.trajectory.schema import FEATURES, SCHEMA_VERSION


class RawShard(NamedTuple):
    """A shard as a codec found it, before anything is made of it: JSON header, columns, columnar segment table."""

    header: dict[str, Any]
    columns: dict[str, np.ndarray]
    segments: dict[str, list[Any]]


Migration = Callable[[RawShard], RawShard]

MIGRATIONS: Mapping[int, Migration] = {}
"""By major version: the step from it to the next one. A header alone passes through with no columns and segments."""


def parse_version(text: object) -> tuple[int, int]:
    """`"1.0"` → `(1, 0)`. Raises `VersionError` for anything else than two whole numbers."""
    parts = text.split(".") if isinstance(text, str) else []
    if len(parts) != 2 or not all(part.isdecimal() for part in parts):
        raise VersionError(f"{text!r} is no schema version; expected major.minor, for example {SCHEMA_VERSION!r}.")
    return int(parts[0]), int(parts[1])


def is_newer_minor(version: object) -> bool:
    """Whether a readable file may hold columns that this reader does not know."""
    return parse_version(version) > parse_version(SCHEMA_VERSION)


def check_readable(header: Mapping[str, Any], where: str) -> None:
    """Raises `VersionError`, naming `where`, if a header's version is newer or it requires an unknown feature."""
    version = header.get("schema_version")
    if parse_version(version)[0] > parse_version(SCHEMA_VERSION)[0]:
        raise VersionError(
            f"{where} has schema {version}, this reader knows {SCHEMA_VERSION}. "
            f"Install a craftax-env-core that reads schema {version}."
        )
    unknown = sorted(set(header.get("required_features", ())) - FEATURES)
    if unknown:
        raise VersionError(
            f"{where} (schema {version}) requires {unknown}, which this reader (schema {SCHEMA_VERSION}) lacks. "
            "Install a newer craftax-env-core."
        )


def migrate(raw: RawShard, where: str, migrations: Mapping[int, Migration] = MIGRATIONS) -> RawShard:
    """`raw` as this major version writes it. Raises `VersionError` if it is newer or no step leads here."""
    check_readable(raw.header, where)
    current = parse_version(SCHEMA_VERSION)[0]
    while (major := parse_version(raw.header["schema_version"])[0]) < current:
        if major not in migrations:
            raise VersionError(f"{where} has schema major {major} and no migration leads from it to {current}.")
        raw = migrations[major](raw)
        assert parse_version(raw.header["schema_version"])[0] == major + 1, f"migration {major} did not advance"
    return raw
