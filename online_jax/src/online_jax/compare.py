"""`hatch run online:compare`: groups of runs side by side, from their metrics alone. Nothing here loads JAX.

Runs that were made with the same settings but for the seed are one group, named after what tells it from the others;
`--group` makes groups by hand. The statistics are `env_core.evaluation.compare`'s; docs/evaluation.md explains them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from env_core import workspace
from env_core.errors import ConfigError, reported
from env_core.evaluation import Group, compare, write_comparison
from env_core.evaluation.comparison_report import PICTURE_NAME, TEXT_NAME
from env_core.run import Run
from online_jax.train import shown

PROGRAM = "hatch run online:compare"
FOLDER = "comparison"

IGNORED = (
    *("seed", "num_seeds", "devices", "log_every"),
    *("record", "record_every", "record_envs", "record_shard_mb", "dump_new_floors"),
    *("checkpoint.minutes", "checkpoint.updates", "checkpoint.keep"),
)
"""Settings, by dotted name, that change nothing of how well a run learns; runs that differ in them may be a group."""


@dataclass(frozen=True)
class Options:
    """Groups of training runs side by side: curves with bands, final scores with 95 % intervals over runs, and how \
likely a run of one group is to beat one of another. \
 \
Runs that differ in nothing but their seed become one group by themselves. Results go to `comparison/` among the \
workspace's runs (or --out): comparison.json, comparison.txt and comparison.png. \
"""

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Run directories. One of several seeds counts as that many runs."""
    group: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A group by hand, name=run,run,…; may be given several times, and beside other runs."""
    metric: str = "episode/return"
    """What is compared, higher being better: a name in metrics.jsonl (docs/metrics.md)."""
    last: float = 0.1
    """The final score is the mean over this share of a run's steps, at its end."""
    out: Path | None = None
    """Where results go. Default: `comparison/` among the workspace's runs."""
    quiet: bool = False
    """Print nothing but errors."""


def main(argv: Sequence[str] | None = None) -> None:
    with reported():
        options = tyro.cli(Options, args=sys.argv[1:] if argv is None else argv, prog=PROGRAM)
        groups = [*by_hand(options.group), *by_settings(options.runs)]
        if not groups:
            raise ConfigError(f"There is nothing to compare. Name runs: {PROGRAM} runs/<run> runs/<run>.")
        comparison = compare(groups, options.metric, options.last)
        folder = options.out or workspace.load().paths.runs / FOLDER
        write_comparison(folder, comparison)
        if not options.quiet:
            sys.stdout.write((folder / TEXT_NAME).read_text())
            sys.stdout.write(f"\nPicture: {shown(folder / PICTURE_NAME)}\n")


def by_hand(given: Sequence[str]) -> list[Group]:
    """Groups from `name=run,run`. Raises `ConfigError` for another form."""
    groups = []
    for text in given:
        name, _, runs = text.partition("=")
        paths = [Path(run) for run in runs.split(",") if run]
        if not name or not paths:
            raise ConfigError(f"--group {text} is no group. Expected name=run,run, such as --group wide=runs/a,runs/b.")
        groups.append(Group(name, paths))
    return groups


def by_settings(runs: Sequence[Path]) -> list[Group]:
    """Runs with the same settings (but for `IGNORED`) together, in the order in which they were named."""
    found: dict[tuple[Any, ...], list[Path]] = {}
    settings: list[Mapping[str, Any]] = []
    for run in runs:
        flat = {name: value for name, value in _flat(Run.read_config(run)).items() if name not in IGNORED}
        key = tuple(sorted((name, repr(value)) for name, value in flat.items()))
        if key not in found:
            settings.append(flat)
        found.setdefault(key, []).append(run)
    return [Group(name, paths) for name, paths in zip(names(settings), found.values(), strict=True)]


def names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each group: its preset, and the settings that others with that preset have otherwise."""
    made = []
    for one in settings:
        alike = [other for other in settings if other.get("preset") == one.get("preset")]
        differing = sorted(name for name in {key for other in alike for key in other} if _differ(name, alike))
        told = [f"{name}={one.get(name)}" for name in differing]
        made.append(" ".join([str(one.get("preset", "run")), *told]))
    return made


def _differ(name: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    return len({repr(one.get(name)) for one in settings}) > 1


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


if __name__ == "__main__":
    main()
