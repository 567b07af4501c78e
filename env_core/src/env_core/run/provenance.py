"""Where an artefact comes from: configuration, code revision, package versions, command."""

from __future__ import annotations

import hashlib
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = (
    "craftax-env-core",
    "craftax-online-jax",
    "craftax",
    "jax",
    "jaxlib",
    "jax-cuda12-plugin",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "pyarrow",
)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces, so that equal values give equal text. Raises `ValueError` for NaN, infinity
    and `TypeError` for what JSON cannot hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def config_sha256(config: Mapping[str, Any]) -> str:
    """The sha256 of a configuration, 64 hexadecimal digits, whatever the order of its keys."""
    return hashlib.sha256(canonical_json(config).encode()).hexdigest()


def git_revision(path: Path | None = None) -> str | None:
    """The commit that `path` (default: this package's source) is at, with `+dirty` if tracked files differ from it.

    None where there is no git or no repository, as in an installed wheel.
    """
    folder = Path(__file__).parent if path is None else path
    revision = _git(folder, "rev-parse", "HEAD")
    # A package installed below somebody's repository is not that repository's code.
    if revision is None or (path is None and _git(folder, "ls-files", "--error-unmatch", __file__) is None):
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return revision + ("+dirty" if changed else "")


def provenance() -> dict[str, Any]:
    """What made a run: time, revision, command, Python and package versions. No host, user or absolute path."""
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "git_revision": git_revision(),
        "command": _command(),
        "python": platform.python_version(),
        "packages": _versions(),
    }


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        finished = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip()


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue  # not every node installs everything
    return versions


def _command() -> str:
    """The command line as a user would type it again."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    program = ["python", "-m", spec.name.removesuffix(".__main__")] if spec else [Path(sys.argv[0]).name]
    return shlex.join([*program, *sys.argv[1:]])
