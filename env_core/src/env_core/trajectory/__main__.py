"""`craftax-trajectories`: look into, check, export and archive a trajectory store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from env_core.errors import StoreError, reported
from env_core.trajectory.archive import ARCHIVE_READS, RESTORE_READS
from env_core.trajectory.checksums import Checker
from env_core.trajectory.groups import list_groups
from env_core.trajectory.inspection import complete_returns, verify_store
from env_core.trajectory.manifest import ShardInfo
from env_core.trajectory.store import Store

MEGABYTE = 1e6
INFO = "Prints what a store holds. Exit status 1 if a shard cannot be read: the rest is told all the same."


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Exit status 0; 1 if `verify` or `info` finds a defect; 2 if it cannot do what it is told."""
    parser = _parser()
    options = parser.parse_args(arguments)
    with reported():
        status = options.run(options)
    raise SystemExit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trajectories", description="Look after a store of recorded trajectories.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    info = commands.add_parser("info", help="what was recorded", description=INFO)
    info.add_argument("--json", action="store_true", help="as one JSON object")
    info.set_defaults(run=_info)

    verify = commands.add_parser(
        "verify",
        help="read everything and check it",
        description="Reads every byte of a store and checks checksums, the rules of the schema, sidecars, the order of "
        "segments and column groups. Exit status 1 if anything is wrong.",
    )
    verify.set_defaults(run=_verify)

    export = commands.add_parser("export", help="copy shards to another format", description="Copies shards.")
    export.add_argument("--format", choices=["npz"], default="npz", help="of the files (default: npz)")
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    export.add_argument("--shards", nargs="+", metavar="SHARD", help="names, as shard-000000 (default: all)")
    export.set_defaults(run=_export)

    archive = commands.add_parser(
        "archive",
        help="compress for keeping",
        description="Replaces every shard by a zstd-compressed form of the same bytes. Reading a shard brings it back.",
    )
    archive.add_argument("--restore", action="store_true", help="bring all shards back and remove the compressed forms")
    archive.set_defaults(run=_archive)
    for command in (info, verify, export, archive):
        command.add_argument("store", type=Path, help="folder of the store")
    return parser


def _info(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    with _Progress(store.shards) as progress:
        summary = _summary(_watched(store, progress), progress)
    if options.json:
        sys.stdout.write(json.dumps(summary, indent=2) + "\n")
    else:
        rows = _rows(summary)
        width = max(len(name) for name in rows)
        sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in rows.items())
        sys.stdout.writelines(f"defect: {defect}\n" for defect in summary["defects"])
    return 1 if summary["defects"] else 0


def _rows(summary: dict[str, Any]) -> dict[str, str]:
    """A summary as lines to read: what is told, and what there is to tell."""
    mean = summary["mean_return"]
    finished = f"{summary['episodes_finished']:,}"
    if mean is not None:
        finished += f"; mean return {mean:.3f} over {summary['complete_episodes']:,} recorded from their first step"
    rows = {
        "environment": f"{summary['environment']} (craftax {summary['craftax_version']})",
        "encoding": f"{summary['encoding']}, schema {summary['schema_version']}",
        "shards": f"{summary['shards']:,} ({summary['megabytes']:,.1f} MB)",
        "steps": f"{summary['steps']:,} in {summary['rows']:,} rows",
        "episodes finished": finished,
        "segments": ", ".join(f"{count:,} {ending}" for ending, count in summary["endings"].items()),
    }
    for writer, told in summary["writers"].items():
        rows[f"writer {writer}"] = f"{told['shards']:,} shards, {told['steps']:,} steps"
        for name, value in told["provenance"].items():
            rows[f"  {name}"] = ", ".join(value) if isinstance(value, tuple) else str(value)
    for group in summary["column_groups"]:
        rows[f"columns {group['group']}/{group['key']}"] = f"{group['shards']:,} of {summary['shards']:,} shards"
    return rows


def _summary(store: Store, progress: _Progress) -> dict[str, Any]:
    """What `info` tells, as a JSON object. Counts are those of the sidecars, returns those of the rows."""
    totals, returns = store.totals, complete_returns(store, skip_corrupt=True, on_shard=progress.shard)
    defects = list(returns.defects)
    return {
        "store": str(store.path),
        "environment": store.header.provenance.env_id,
        "craftax_version": store.header.provenance.craftax_version,
        "encoding": store.header.encoding,
        "schema_version": store.header.schema_version,
        "num_streams": store.header.num_streams,
        "shards": totals.num_shards,
        "rows": totals.num_rows,
        "steps": totals.num_steps,
        "megabytes": totals.num_bytes / MEGABYTE,
        "episodes_finished": totals.episodes_finished,
        "complete_episodes": returns.num_complete,
        "mean_return": returns.mean,
        "endings": totals.endings,
        "writers": _writers(store, defects),
        "column_groups": [{"group": g.group, "key": g.key, "shards": len(g.shards)} for g in list_groups(store)],
        "defects": defects,
    }


def _writers(store: Store, defects: list[str]) -> dict[str, Any]:
    """By writer: how much it wrote, and the provenance of its newest shard. Adds to `defects` where that is damaged."""
    writers = {}
    for name in sorted({shard.writer for shard in store.shards}):
        own = [shard for shard in store.shards if shard.writer == name]
        provenance = {}
        try:
            provenance = asdict(store.shard_header(own[-1].name).provenance)
        except StoreError as error:
            defects.append(f"{own[-1].name}: {error}")
        steps = sum(shard.num_steps for shard in own)
        writers[name] = {"shards": len(own), "steps": steps, "provenance": provenance}
    return writers


def _verify(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    with _Progress(store.shards) as progress:
        report = verify_store(store, progress.read, progress.shard)
    for path in report.leftovers:
        sys.stdout.write(f"note: {path.relative_to(store.path)} is a leftover or being written; readers ignore it\n")
    for defect in report.defects:
        sys.stdout.write(f"defect: {defect}\n")
    verdict = "all good" if report.ok else f"{len(report.defects)} defects"
    sys.stdout.write(f"{store.path}: {report.num_shards:,} shards, {report.num_rows:,} rows read, {verdict}\n")
    return 0 if report.ok else 1


def _export(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    shards = store.shards if options.shards is None else [store.info(name) for name in options.shards]
    with _Progress(shards) as progress:
        paths = _watched(store, progress).export(options.out, [shard.name for shard in shards], progress.shard)
    sys.stdout.write(f"{len(paths)} {options.format} files in {options.out}\n")
    return 0


def _archive(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    if options.restore:
        with _Progress(store.shards, RESTORE_READS) as progress:
            store.restore(progress.read, progress.shard)
        sys.stdout.write(f"{len(store.shards)} shards restored\n")
        return 0
    with _Progress(store.shards, ARCHIVE_READS) as progress:
        store.archive(progress.read, progress.shard)
    size = sum(path.stat().st_size for path in (store.path / "shards").glob("*.zst"))
    sys.stdout.write(
        f"{len(store.shards)} shards archived: {store.totals.num_bytes / MEGABYTE:,.1f} MB are now "
        f"{size / MEGABYTE:,.1f} MB\n"
    )
    return 0


def _watched(store: Store, progress: _Progress) -> Store:
    """The same store, whose checksums show while they are verified."""
    return Store(store.path, store.header, store.shards, Checker(progress=progress.read))


class _Progress:
    """One line on a terminal, rewritten for every shard and megabyte, and taken away at the end; nothing elsewhere.

    `reads` is how often the bytes of each shard are read.
    """

    def __init__(self, shards: Sequence[ShardInfo], reads: int = 1) -> None:
        self._reads = reads
        self._num_shards = len(shards)
        self._num_bytes = sum(shard.num_bytes for shard in shards)
        self._begun: list[ShardInfo] = []
        self._read = 0  # bytes of the last one
        self._shown = sys.stderr.isatty()

    def shard(self, info: ShardInfo) -> None:
        self._begun.append(info)
        self._read = 0
        self._show()

    def read(self, num_bytes: int) -> None:
        self._read += num_bytes
        self._show()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")

    def _show(self) -> None:
        if not self._shown:
            return
        *before, current = self._begun
        # No more than the shard has: `verify` goes on to the columns of all shards.
        done = sum(shard.num_bytes for shard in before) + min(self._read / self._reads, current.num_bytes)
        sys.stderr.write(
            f"\r\033[K{current.name} ({len(self._begun)} of {self._num_shards})  {done / MEGABYTE:,.0f} of "
            f"{self._num_bytes / MEGABYTE:,.0f} MB ({done / max(self._num_bytes, 1):.0%})"
        )


if __name__ == "__main__":
    main()
