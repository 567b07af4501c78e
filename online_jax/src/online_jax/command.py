"""The command line of `hatch run online:train`: flags to settings, without loading JAX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro

from env_core.errors import ConfigError, ResumeError, nearest
from env_core.run import Run
from online_jax.config import Invocation, TrainConfig, from_json, replaced
from online_jax.presets import PRESETS

PRESET_NAMES = tuple(PRESETS)
PROGRAM = "hatch run online:train"
DESCRIPTION = f"""Train an agent on Craftax and record what it does.

The preset comes first, if it is named: {PROGRAM} {PRESET_NAMES[0]} --seed 3. Presets: {", ".join(PRESET_NAMES)}.

Results go to a new directory under the workspace's runs (or --run-dir): config.json, metrics.jsonl, checkpoints/,
trajectories/ and curves.png. Continue a run that was stopped or killed with --resume <run>.
"""


def parse(argv: Sequence[str]) -> tuple[str, Invocation]:
    """(preset, invocation) of the command line. With --resume, the saved settings are the defaults.

    Raises `ConfigError` for an unknown preset and `ResumeError` if the run to resume is not one. Unknown flags end the
    program with the nearest known one.
    """
    preset, rest = PRESET_NAMES[0], list(argv)
    if rest and not rest[0].startswith("-"):
        preset = rest.pop(0)
        if preset not in PRESETS:
            raise ConfigError(f"Unknown preset {preset!r}. {nearest(preset, PRESETS)}")
    default = replaced(Invocation(), PRESETS[preset])
    if run := _resumed(rest):
        preset, default = saved(run)
    return preset, tyro.cli(Invocation, args=rest, default=default, prog=PROGRAM, description=DESCRIPTION)


def _resumed(argv: Sequence[str]) -> Path | None:
    for position, argument in enumerate(argv):
        following = argv[position + 1 : position + 2]
        if argument == "--resume" and following and not following[0].startswith("--"):
            return Path(following[0])
        if argument.startswith("--resume="):
            return Path(argument.removeprefix("--resume="))
    return None


def saved(run: Path) -> tuple[str, Invocation]:
    """The preset and settings that a run was started with."""
    config = dict(Run.read_config(run))
    preset = config.pop("preset", None)
    if preset not in PRESETS:
        raise ResumeError(f"{run} was made by the preset {preset!r}, which this version does not have.")
    settings: TrainConfig = from_json(config)
    return preset, Invocation(**{name: getattr(settings, name) for name in TrainConfig.__dataclass_fields__})
