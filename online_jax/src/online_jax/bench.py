"""`hatch run online:bench`: how fast training is on this machine, by number of environments, and where its time goes.

Leaves bench.json, bench.txt (the table that is printed) and bench.png in a new folder. `stopwatch.py` measures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from env_core import workspace
from env_core.errors import ConfigError, RunError, RunExistsError, reported
from env_core.publish import publish, write_json
from env_core.run import Progress
from env_core.run.provenance import provenance
from online_jax.command import parse
from online_jax.config import TrainConfig, to_json, validate
from online_jax.train import shown, use_compilation_cache

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROGRAM = "hatch run online:bench"
DESCRIPTION = f"""Steps per second by number of environments, and where the time goes.

{PROGRAM} ppo-rnn --num-envs 128 256 512 --updates 5 --env-name Craftax-Classic-Symbolic-v1

A preset and all settings of online:train may be given; `hatch run online:train --help` lists them. On a GPU, try
--num-envs 1024 2048 4096 8192.
"""
UPDATES = 5
COLUMNS = ("envs", "steps/s", "limit", "share", "env", "policy", "update", "record", "compile", "memory", "CPU")
COLORS = {"environment": "#4477aa", "policy": "#66ccee", "update": "#ee6677", "recording": "#ccbb44"}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--num-envs", type=int, nargs="+", help="numbers of environments (default: the preset's)")
    parser.add_argument("--updates", type=int, default=UPDATES, help=f"updates that are timed (default: {UPDATES})")
    parser.add_argument("--out", type=Path, help="where the results go (default: a new folder under the runs)")
    given, rest = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    with reported():
        preset, invocation = parse(rest)
        settings = invocation.settings()
        if given.updates < 1:
            raise ConfigError(f"--updates {given.updates} must be at least 1.")
        sizes = sorted(set(given.num_envs or [settings.num_envs]))
        bench(preset, settings, sizes, given.updates, given.out, invocation.quiet)


def bench(
    preset: str, settings: TrainConfig, sizes: Sequence[int], updates: int, out: Path | None, quiet: bool
) -> Path:
    """Measures each number of environments in `sizes`; returns the folder with the results.

    A size that the device has no memory for is left out and said so. Raises `ConfigError` for settings that contradict
    each other, `RunExistsError` if `out` holds anything, `RunError` if no size could be measured.
    """
    each = [replace(settings, num_envs=size, total_steps=10**9) for size in sizes]  # no end in sight: the rate stays up
    for one in each:
        validate(one)
    folder = _folder(preset, out)
    use_compilation_cache()
    with Progress(len(each), quiet=quiet) as progress:
        progress.message(f"{preset} on {settings.env_name}, {updates} updates for each size → {shown(folder)}")
        rows, failed = _measured(each, updates, folder, progress)
        if not rows:
            raise RunError(f"Nothing could be measured: {next(iter(failed.values()))}")
        result = {"preset": preset, "settings": to_json(settings), **_about(), "rows": rows, "failed": failed}
        text = table(result)
        write_json(folder / "bench.json", result, replace=True)
        publish(folder / "bench.txt", lambda file: file.write(text.encode()))
        draw(result, folder / "bench.png")
        progress.message(f"Done. Picture: {shown(folder / 'bench.png')}")
    if not quiet:
        sys.stdout.write(text)
    return folder


def _folder(preset: str, out: Path | None) -> Path:
    folder = out or workspace.load().paths.runs / f"bench-{preset}-{datetime.now():%Y%m%d-%H%M%S}"
    if folder.exists() and any(folder.iterdir()):
        raise RunExistsError(f"{folder} is not empty. Name another folder with --out.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _measured(
    each: Sequence[TrainConfig], updates: int, folder: Path, progress: Progress
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """A row for each size that could be measured, and why the others could not."""
    from online_jax.devices import enough_memory
    from online_jax.stopwatch import measure

    rows, failed = [], {}
    for one in each:
        name = f"{one.num_envs} environments"

        def status(what: str, name: str = name) -> AbstractContextManager[Any]:
            return progress.status(f"{name}: {what}")

        try:
            with enough_memory("Larger numbers would not fit either."):
                row = measure(one, updates, folder / f"recorded-{one.num_envs}", status).to_json()
        except RunError as error:
            failed[str(one.num_envs)] = str(error)
            progress.message(f"{name}: {error}")
            continue
        rows.append(row)
        progress.message(f"{name}: {row['steps_per_second']:,.0f} steps/s")
    return rows, failed


def _about() -> dict[str, Any]:
    import jax

    devices = jax.local_devices()
    return {"device": devices[0].device_kind, "platform": devices[0].platform, "provenance": provenance()}


def table(result: dict[str, Any]) -> str:
    """What bench.json says, as a table with its units explained."""
    rows = [_cells(row) for row in result["rows"]]
    widths = [max(len(cells[i]) for cells in (COLUMNS, *rows)) for i in range(len(COLUMNS))]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))

    first = result["rows"][0]
    settings = result["settings"]
    used = f"{first['devices']} x {result['device']} ({result['platform']})"
    memory = "fullest device's peak" if first["memory_of"] == "device" else "process's peak resident memory"
    return (
        f"{result['preset']} on {settings['env_name']}, {first['num_steps']} steps per update, on {used}\n\n"
        + "\n".join(map(line, (COLUMNS, *rows)))
        + "\n\nlimit: steps/s of the environment alone, random actions; share: steps/s of it\n"
        "env, policy, update, record: seconds per update; policy and record are differences\n"
        "compile: seconds, the cache helping where it can; "
        f"memory: MB, {memory}; CPU: seconds per 1,000 steps\n"
        + "".join(f"{size} environments: {why}\n" for size, why in result["failed"].items())
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    limit = row["environment_steps_per_second"]
    return (
        f"{row['num_envs']}",
        f"{row['steps_per_second']:,.0f}",
        f"{limit:,.0f}",
        f"{row['steps_per_second'] / limit:.0%}",
        *(f"{seconds:.4f}" for seconds in row["seconds"].values()),
        f"{row['compile_seconds']:.1f}",
        f"{row['peak_memory_mb']:,.0f}",
        f"{row['cpu_seconds_per_1000_steps']:.3f}",
    )


def draw(result: dict[str, Any], path: Path) -> None:
    """Left: seconds per update, by part. Right: steps per second, against the environment alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _draw_parts(left, result["rows"])
    _draw_speed(right, result["rows"])
    for axis in (left, right):
        axis.set_xlabel("environments", fontsize=9)
        axis.tick_params(labelsize=8.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xticks(range(len(result["rows"])), [f"{row['num_envs']:,}" for row in result["rows"]])
    used = f"{result['rows'][0]['devices']} x {result['device']}"
    figure.suptitle(f"{result['preset']} on {result['settings']['env_name']}, {used}", fontsize=11)
    publish(path, lambda file: figure.savefig(file, format="png", dpi=130))


def _draw_parts(axis: Axes, rows: Sequence[dict[str, Any]]) -> None:
    below = [0.0] * len(rows)
    for part, color in COLORS.items():
        heights = [row["seconds"][part] for row in rows]
        axis.bar(range(len(rows)), heights, 0.6, bottom=below, color=color, label=part)
        below = [one + height for one, height in zip(below, heights, strict=True)]
    axis.set_title("Seconds per update", fontsize=10, loc="left")
    axis.set_xlim(-0.75, len(rows) - 0.25)
    axis.set_ylim(0, 1.1 * max(below))
    axis.grid(axis="y", alpha=0.25, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.legend(fontsize=8, frameon=False, loc="upper left", reverse=True)


def _draw_speed(axis: Axes, rows: Sequence[dict[str, Any]]) -> None:
    from matplotlib.ticker import EngFormatter

    lines = {
        "environment alone (limit)": ("environment_steps_per_second", "--", COLORS["environment"]),
        "training": ("steps_per_second", "-", COLORS["update"]),
    }
    for label, (name, style, color) in lines.items():
        values = [row[name] for row in rows]
        axis.plot(range(len(rows)), values, style, marker="o", markersize=5, color=color, label=label)
        for place, value in enumerate(values):
            axis.annotate(
                f"{value:,.0f}", (place, value), (0, 6), textcoords="offset points", fontsize=7.5, ha="center"
            )
    axis.set_title("Environment steps per second", fontsize=10, loc="left")
    axis.set_xlim(-0.5, len(rows) - 0.5)
    axis.set_ylim(0, 1.2 * max(row["environment_steps_per_second"] for row in rows))
    axis.yaxis.set_major_formatter(EngFormatter(sep=""))
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.legend(fontsize=8, frameon=False, loc="center right")


if __name__ == "__main__":
    main()
