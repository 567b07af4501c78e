"""A trained policy from a run directory or a checkpoint, without the flags that it was trained with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from env_core.craftax.make import Environment
from env_core.errors import ConfigError, ResumeError
from env_core.run import Run
from online_jax import assemble, checkpoint
from online_jax.checkpoint import Checkpoint
from online_jax.command import saved
from online_jax.config import TrainConfig
from online_jax.policies import Policy


@dataclass(frozen=True)
class Trained:
    """A policy as it was at a checkpoint."""

    preset: str
    settings: TrainConfig
    """with the run's measured choices in place of `auto`"""
    env: Environment
    policy: Policy
    params: Any
    """with several seeds, leaves [S, ...]"""
    checkpoint: Checkpoint
    path: Path
    """of the checkpoint"""

    def of_seed(self, index: int) -> Any:
        """The parameters of one seed."""
        return self.params if self.settings.num_seeds == 1 else jax.tree.map(lambda x: x[index], self.params)


def find(where: Path | str, which: str = "best") -> tuple[Path, Path]:
    """(run, checkpoint) of a run directory or of one of its checkpoints. `which` is "best", "last" or a step.

    "best" is the newest one where no checkpoint has a score. Raises `ResumeError` if there is none.
    """
    path = Path(where).expanduser().absolute()
    if (path / checkpoint.JSON).is_file():
        return path.parent.parent, path
    Run.read_config(path)
    folder = path / "checkpoints"
    found = checkpoint.finished(folder)
    if not found:
        raise ResumeError(f"{path} has no finished checkpoint yet.")
    if which in ("best", "last"):
        best = checkpoint.best(folder)
        return path, best[0] if best and which == "best" else found[-1]
    steps = {str(checkpoint.describe(one).step): one for one in found}
    if which not in steps:
        raise ResumeError(f"{path} has no checkpoint {which!r}. There are: best, last, {', '.join(steps)}.")
    return path, steps[which]


def load(where: Path | str, which: str = "best") -> Trained:
    """The policy at `where` (see `find`), with its environment.

    Raises `ResumeError` where there is none, or none that this version reads.
    """
    run, path = find(where, which)
    preset, invocation = saved(run)
    about = checkpoint.describe(path)
    settings = invocation.settings()
    settings = replace(settings, network=replace(settings.network, **about.choices))
    env = assemble.make_environment(settings)
    policy = assemble.policy(settings, env, assemble.num_streams(settings, env))
    params = checkpoint.restore_params(path, _abstract(policy, settings.num_seeds))
    return Trained(preset, settings, env, policy, params, about, path)


def params_for(where: Path | str, policy: Policy) -> Any:
    """The parameters of the policy at `where` (the first seed's), for another run of `policy`.

    Raises `ConfigError` naming what differs if the two policies are not of the same make.
    """
    trained = load(where)
    params = trained.of_seed(0)
    wanted = {jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree.leaves_with_path(_abstract(policy, 1))}
    given = {jax.tree_util.keystr(path): leaf.shape for path, leaf in jax.tree.leaves_with_path(params)}
    for name in sorted(wanted.keys() | given.keys()):
        if wanted.get(name) != given.get(name):
            raise ConfigError(
                f"--init-from {where}: its policy's {name} has shape {given.get(name)}, this run's {wanted.get(name)}. "
                "Train with its --env-name, --network.* and number of reward streams."
            )
    return params


def _abstract(policy: Policy, num_seeds: int) -> Any:
    """Shapes and dtypes of a policy's parameters."""
    place = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    lead = () if num_seeds == 1 else (num_seeds,)
    params = jax.eval_shape(policy.init, jax.random.PRNGKey(0))
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((*lead, *x.shape), x.dtype, sharding=place), params)
