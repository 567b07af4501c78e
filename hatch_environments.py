"""Makes hatch's environments out of workspace.toml, so that nothing is said twice."""

from __future__ import annotations

import os
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

from hatch.env.collectors.plugin.interface import EnvironmentCollectorInterface

SETTINGS = {"description", "members", "dependencies", "scripts"}


class WorkspaceEnvironments(EnvironmentCollectorInterface):
    def finalize_config(self, config: dict[str, Any]) -> None:
        root = Path(__file__).resolve().parent
        workspace = tomllib.loads((root / "workspace.toml").read_text(encoding="utf-8"))
        _prepare_installer(root / workspace["constraints"])
        for name, settings in workspace["environments"].items():
            if unknown := settings.keys() - SETTINGS:
                raise ValueError(
                    f"workspace.toml, [environments.{name}]: unknown {sorted(unknown)}; known: {sorted(SETTINGS)}"
                )
            config[name] = _environment(root, name, settings, workspace)


def _prepare_installer(constraints: Path) -> None:
    """Sets what uv and scripts inherit from this process, unless the user has set it."""
    os.environ.setdefault("UV_CONSTRAINT", str(constraints))
    if "PIP_FIND_LINKS" in os.environ:  # uv does not read pip's settings
        os.environ.setdefault("UV_FIND_LINKS", os.environ["PIP_FIND_LINKS"])
    # `hatch run test` calls hatch again for each member, also where hatch itself was called by its path.
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])


def _environment(root: Path, name: str, settings: dict[str, Any], workspace: dict[str, Any]) -> dict[str, Any]:
    return {
        "template": name,  # inherits nothing from the default environment
        "description": settings["description"],
        "python": workspace["python"],
        "path": str(root / ".hatch" / name),  # a place that job scripts and editors can name
        "skip-install": True,  # the root is no package
        "installer": "uv",
        # All members in one call of the installer, which is how they find one another.
        "workspace": {
            "members": [
                {"path": str(root / _pattern(member)), "features": extras}
                for member, extras in settings["members"].items()
            ]
        },
        "dependencies": settings["dependencies"],
        "scripts": {
            script: [
                line.replace("{root}", shlex.quote(str(root)))
                for line in ([lines] if isinstance(lines, str) else lines)
            ]
            for script, lines in settings["scripts"].items()
        },
    }


def _pattern(member: str) -> str:
    """The member's folder as a pattern, because hatch takes no plain path to the folder that it is called from."""
    return f"[{member[0]}]{member[1:]}"
