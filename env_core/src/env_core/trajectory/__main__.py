"""`craftax-trajectories`: look into, check, export and archive a trajectory store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from env_core.errors import reported
from env_core.trajectory.groups import list_groups
from env_core.trajectory.inspection import complete_returns, verify_store
from env_core.trajectory.manifest import ShardInfo
from env_core.trajectory.store import Store

MEGABYTE = 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Exit status 0, 1 if `verify` finds a defect, 2 if a command cannot do what it is told."""
    parser = _parser()
    options = parser.parse_args(arguments)
    with reported():
        status = options.run(options)
    raise SystemExit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trajectories", description="Look after a store of recorded trajectories.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    info = commands.add_parser("info", help="what was recorded", description="Prints what a store holds.")
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
    summary = _summary(Store.open(options.store))
    if options.json:
        sys.stdout.write(json.dumps(summary, indent=2) + "\n")
        return 0
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
    width = max(len(name) for name in rows)
    sys.stdout.writelines(f"{name:<{width}}  {value}\n" for name, value in rows.items())
    return 0


def _summary(store: Store) -> dict[str, Any]:
    """What `info` tells, as a JSON object."""
    totals, returns = store.totals, complete_returns(store)
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
        "writers": _writers(store),
        "column_groups": [{"group": g.group, "key": g.key, "shards": len(g.shards)} for g in list_groups(store)],
    }


def _writers(store: Store) -> dict[str, Any]:
    """By writer: how much it wrote, and the provenance of its newest shard."""
    writers = {}
    for name in sorted({shard.writer for shard in store.shards}):
        own = [shard for shard in store.shards if shard.writer == name]
        writers[name] = {
            "shards": len(own),
            "steps": sum(shard.num_steps for shard in own),
            "provenance": asdict(store.shard_header(own[-1].name).provenance),
        }
    return writers


def _verify(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    progress = _Progress(store)
    report = verify_store(store, progress.read, progress.shard)
    progress.clear()
    for path in report.leftovers:
        sys.stdout.write(f"note: {path.relative_to(store.path)} is a leftover or being written; readers ignore it\n")
    for defect in report.defects:
        sys.stdout.write(f"defect: {defect}\n")
    verdict = "all good" if report.ok else f"{len(report.defects)} defects"
    sys.stdout.write(f"{store.path}: {report.num_shards:,} shards, {report.num_rows:,} rows read, {verdict}\n")
    return 0 if report.ok else 1


def _export(options: argparse.Namespace) -> int:
    paths = Store.open(options.store).export(options.out, options.shards)
    sys.stdout.write(f"{len(paths)} {options.format} files in {options.out}\n")
    return 0


def _archive(options: argparse.Namespace) -> int:
    store = Store.open(options.store)
    if options.restore:
        store.restore()
        sys.stdout.write(f"{len(store.shards)} shards restored\n")
        return 0
    store.archive()
    size = sum(path.stat().st_size for path in (store.path / "shards").glob("*.zst"))
    sys.stdout.write(
        f"{len(store.shards)} shards archived: {store.totals.num_bytes / MEGABYTE:,.1f} MB are now "
        f"{size / MEGABYTE:,.1f} MB\n"
    )
    return 0


class _Progress:
    """One line on a terminal, rewritten for every shard and megabyte; nothing elsewhere."""

    def __init__(self, store: Store) -> None:
        self._total = store.totals.num_bytes
        self._read = 0
        self._name = ""
        self._shown = sys.stderr.isatty()

    def shard(self, info: ShardInfo) -> None:
        self._name = info.name
        self._show()

    def read(self, num_bytes: int) -> None:
        self._read += num_bytes
        self._show()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")

    def _show(self) -> None:
        if self._shown:
            sys.stderr.write(
                f"\r\033[K{self._name}  {self._read / MEGABYTE:,.0f} of {self._total / MEGABYTE:,.0f} MB "
                f"({self._read / max(self._total, 1):.0%})"
            )


if __name__ == "__main__":
    main()
