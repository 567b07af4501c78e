"""What workspace.toml says, read at run time: where data goes and what cluster jobs ask for.

The file is the one that `$CRAFTAX_WORKSPACE` names, else the nearest workspace.toml from the current folder upward;
without one, data goes to `./runs`. An environment variable overrides a single value: `CRAFTAX_` + table + key, in
capitals, with `_` for `-` and `.`. So `CRAFTAX_PATHS_RUNS=/scratch/runs` and `CRAFTAX_JOBS_ONLINE_TRAIN_HOURS=48`.

    python -m env_core.workspace                       what is in force, and where each value comes from
    python -m env_core.workspace sbatch online-train   a job's resources, as options of sbatch
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from env_core.errors import ConfigError, nearest, reported

FILE_NAME = "workspace.toml"
_TABLES = ("members", "python", "constraints", "environments", "paths", "jobs")  # the first four are read by hatch


@dataclass(frozen=True)
class Paths:
    """Folders for data, absolute. A relative one in workspace.toml starts at that file's folder, in an environment
    variable at the current folder."""

    runs: Path = field(default_factory=lambda: Path.cwd() / "runs")


@dataclass(frozen=True)
class Job:
    """What one cluster job asks for."""

    cpus: int
    gpus: int
    memory_gb: int
    hours: int

    def sbatch_options(self) -> str:
        gpus = [f"--gpus={self.gpus}"] if self.gpus else []
        options = [f"--cpus-per-task={self.cpus}", f"--mem={self.memory_gb}G", f"--time={self.hours}:00:00", *gpus]
        return " ".join(options)


@dataclass(frozen=True)
class Workspace:
    """The settings in force. `source` is the file that they come from (None: built-in defaults); `overridden` maps
    a setting such as `paths.runs` to the environment variable that decided it."""

    source: Path | None
    paths: Paths
    jobs: Mapping[str, Job]
    overridden: Mapping[str, str]


def load() -> Workspace:
    """Reads the settings anew. Raises `ConfigError` for an unknown key, a malformed value or a missing file."""
    source = _find()
    overrides = _Overrides(os.environ)
    tables = {} if source is None else _read(source)
    where = "built-in defaults" if source is None else str(source)
    paths = _paths(tables.get("paths", {}), source, overrides, where)
    jobs = {name: _job(name, table, overrides, where) for name, table in _table(tables, "jobs", where).items()}
    overrides.refuse_unknown(where)
    return Workspace(source, paths, MappingProxyType(jobs), MappingProxyType(overrides.used))


def cache_directory(kind: str) -> Path:
    """The folder for what can be made again, such as `jax` for compiled programs; created if absent.

    It is `$CRAFTAX_CACHE/<kind>`, else `craftax-workspace/<kind>` in `$XDG_CACHE_HOME` or `~/.cache`.
    """
    if chosen := os.environ.get("CRAFTAX_CACHE"):
        base = Path(chosen).expanduser()
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "craftax-workspace"
    folder = base.absolute() / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The cache folder {folder} cannot be created ({error.strerror}). Set CRAFTAX_CACHE to a writable folder."
        ) from None
    return folder


def _find() -> Path | None:
    if named := os.environ.get("CRAFTAX_WORKSPACE"):
        source = Path(named).expanduser().absolute()
        source = source / FILE_NAME if source.is_dir() else source
        if not source.is_file():
            raise ConfigError(
                f"CRAFTAX_WORKSPACE names {source}, which is not a file. Unset it, or name a {FILE_NAME}."
            )
        return source
    here = Path.cwd()
    return next((folder / FILE_NAME for folder in (here, *here.parents) if (folder / FILE_NAME).is_file()), None)


def _read(source: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source} is not valid TOML: {error}.") from None
    except OSError as error:
        raise ConfigError(f"{source} cannot be read: {error.strerror}.") from None
    _refuse_unknown(tables, _TABLES, f"{source}: key")
    return tables


class _Overrides:
    """Values from environment variables, and which of them were used."""

    def __init__(self, environment: Mapping[str, str]):
        self.environment = environment
        self.used: dict[str, str] = {}
        self.known: set[str] = set()

    def take(self, setting: str) -> str | None:
        variable = "CRAFTAX_" + setting.replace(".", "_").replace("-", "_").upper()
        self.known.add(variable)
        value = self.environment.get(variable)
        if value is not None:
            self.used[setting] = variable
        return value

    def refuse_unknown(self, where: str) -> None:
        """Only our own tables: other programs, craftax among them, have `CRAFTAX_` variables too."""
        for variable in self.environment:
            if variable.startswith(("CRAFTAX_PATHS_", "CRAFTAX_JOBS_")) and variable not in self.known:
                known = nearest(variable, self.known)
                raise ConfigError(f"The environment variable {variable} overrides no setting of {where}. {known}")


def _paths(table: Any, source: Path | None, overrides: _Overrides, where: str) -> Paths:
    table = _table({"paths": table}, "paths", where)
    names = [entry.name for entry in fields(Paths)]
    _refuse_unknown(table, names, f"{where}, [paths]: key")
    folders: dict[str, Path] = {}
    for name in names:
        override = overrides.take(f"paths.{name}")
        value, base = (override, Path.cwd()) if override is not None else (table.get(name), source and source.parent)
        if value is None or base is None:
            continue
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{where}, [paths] {name} is {value!r}; expected the name of a folder, in quotes.")
        folders[name] = base / Path(value).expanduser()
    return Paths(**folders)


def _job(name: str, table: Any, overrides: _Overrides, where: str) -> Job:
    table = _table({name: table}, name, where)
    keys = [entry.name for entry in fields(Job)]
    _refuse_unknown(table, keys, f"{where}, [jobs.{name}]: key")
    return Job(**{key: _count(f"jobs.{name}.{key}", table.get(key), overrides, where) for key in keys})


def _count(setting: str, value: Any, overrides: _Overrides, where: str) -> int:
    override = overrides.take(setting)
    if override is not None:
        where, value = f"environment variable {overrides.used[setting]}", override
        value = int(override) if override.isdecimal() else override
    lowest = 0 if setting.endswith(".gpus") else 1
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        found = "is missing" if value is None else f"is {value!r}"
        raise ConfigError(f"{where}: {setting} {found}; expected a whole number, at least {lowest}.")
    return value


def _table(tables: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {name} is {table!r}; expected a table, as in [{name}].")
    return table


def _refuse_unknown(table: Mapping[str, Any], known: list[str] | tuple[str, ...], what: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"{what} {key!r} is unknown. {nearest(key, known)}")


def _in_force(workspace: Workspace) -> Iterator[str]:
    yield f"workspace file: {workspace.source or 'none found; built-in defaults'}"
    settings = {f"paths.{entry.name}": getattr(workspace.paths, entry.name) for entry in fields(Paths)}
    for name, job in workspace.jobs.items():
        settings |= {f"jobs.{name}.{entry.name}": getattr(job, entry.name) for entry in fields(Job)}
    for setting, value in settings.items():
        origin = workspace.overridden.get(setting)
        yield f"{setting} = {value}" + (f"    (from {origin})" if origin else "")
    yield f"cache of compiled programs: {cache_directory('jax')}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="workspace", description="Shows the workspace's settings.")
    commands = parser.add_subparsers(dest="command")
    sbatch = commands.add_parser("sbatch", help="print a job's resources as options of sbatch")
    sbatch.add_argument("job", help="a name under [jobs] in workspace.toml")
    arguments = parser.parse_args()
    with reported():
        workspace = load()
        if arguments.command == "sbatch":
            if arguments.job not in workspace.jobs:
                raise ConfigError(f"No job {arguments.job!r} in {FILE_NAME}. {nearest(arguments.job, workspace.jobs)}")
            lines = iter([workspace.jobs[arguments.job].sbatch_options()])
        else:
            lines = _in_force(workspace)
        sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
