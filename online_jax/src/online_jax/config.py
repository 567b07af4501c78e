"""Settings. The flags of `hatch run online:train` are made from these fields; a slot owns its settings.

Nothing here imports JAX, so that `--help` and a wrong flag answer at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from env_core.errors import ConfigError, nearest
from env_core.observation import game_layouts
from online_jax.presets import BONUSES


@dataclass(frozen=True)
class EnvConfig:
    """What happens when an episode ends."""

    reset: Literal["pool", "optimistic", "plain"] = "pool"
    """Where the next episode's world comes from: `pool` makes `pool_size` worlds once per rollout and hands them out \
(fastest); `optimistic` makes one per `reset_ratio` environments at every step; `plain` one per environment and \
step (slowest, every world its own)."""
    pool_size: int = 0
    """Worlds made per rollout under `pool`; they repeat only when more episodes end in one rollout. 0: one for every \
256 steps of the rollout, at least 16."""
    reset_ratio: int = 16
    """Environments per new world and step under `optimistic`; must divide --num-envs."""
    max_timesteps: int = 0
    """Steps after which an episode is truncated. 0: the game's own limit (100,000; Classic 10,000)."""


@dataclass(frozen=True)
class NetworkConfig:
    """Actor and critic: two towers, on an encoder of their own (symbolic observations) or a shared one."""

    memory: Literal["none", "gru"] = "none"
    """What is remembered from step to step: nothing, or the state of a GRU between encoder and towers, which then \
share the encoder."""
    width: int = 512
    """Units per layer, and of the GRU."""
    depth: int = 3
    """Hidden layers per tower, the encoder's included (symbolic observations). On pixels, the layers above the \
convolutions are one fewer."""
    activation: Literal["auto", "tanh", "relu"] = "auto"
    """`auto`: tanh for two separate towers, relu on a shared encoder (GRU, pixels), as in the peer."""
    first_layer: Literal["auto", "gather", "product"] = "auto"
    """How the first layer multiplies packed observations: `gather` adds up the rows that the codes name, `product` \
multiplies a multi-hot map. The function is the same. `auto` measures both on this device, once."""
    narrow: Literal["auto", "on", "off"] = "auto"
    """Learn on the map channels seen so far only (`on`): same result, less time and memory. `auto`: on, but not on a \
GPU or TPU, where the host would have to wait for the count."""


@dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017)."""

    learning_rate: float = 2e-4
    """Adam's step size at the start."""
    anneal: bool = True
    """Lower the learning rate linearly to 0 over the run, once per update."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.8
    """Trace decay of generalised advantage estimation."""
    clip: float = 0.2
    """Clip range of the probability ratio and of the value's change."""
    entropy: float = 0.01
    """Weight of the entropy bonus (nats), at the start."""
    entropy_final: float | None = None
    """Weight at the end of the run, reached linearly, update by update. Not given: constant."""
    value: float = 0.5
    """Weight of the value loss."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 8
    """Gradient steps per pass; must divide num_envs * num_steps."""
    max_grad_norm: float = 1.0
    """Global gradient norm above which the gradient is scaled down."""
    target_kl: float = 0.0
    """Once a minibatch's KL divergence from the rollout's policy is more than 1.5 times this (nats), the update's \
further gradient steps are left out. 0: never."""
    adam_eps: float = 1e-5
    """Adam's epsilon."""


@dataclass(frozen=True)
class RNDConfig:
    """Random network distillation (Burda et al. 2018); with --bonus rnd."""

    learning_rate: float = 3e-4
    """Adam's step size for the predictor."""
    width: int = 256
    """Units per layer of predictor and target."""
    outputs: int = 512
    """Numbers to predict."""
    epochs: int = 1
    """Passes over each rollout, in --ppo.minibatches steps each."""
    reward: float = 1.0
    """Weight of the bonus in its own reward stream."""
    loss: float = 0.01
    """Weight of the predictor's loss; with Adam, it matters only against its epsilon and the clipping of gradients."""
    advantage: float = 0.01
    """Weight of the intrinsic advantage beside the extrinsic one."""
    gamma: float = 0.99
    """Discount per step of the intrinsic stream."""
    episodic: bool = False
    """End the intrinsic return with the episode, as the extrinsic one."""
    normalise_obs: bool = False
    """Shift and scale what predictor and target see to mean 0 and deviation 1, cut off at 5, as in the paper (the \
peer does not)."""
    normalise_reward: bool = False
    """Divide the bonus by the deviation of its discounted sums, as in the paper (the peer does not)."""


@dataclass(frozen=True)
class ICMConfig:
    """Intrinsic curiosity module (Pathak et al. 2017); with --bonus icm, and its encoder with --bonus e3b."""

    learning_rate: float = 3e-4
    """Adam's step size for encoder, forward and inverse model."""
    width: int = 256
    """Units per layer of each."""
    latent: int = 32
    """Numbers that the encoder keeps of an observation."""
    epochs: int = 4
    """Passes over each rollout, in --ppo.minibatches steps each."""
    reward: float = 1.0
    """Weight of the bonus (not with --bonus e3b)."""
    forward_loss: float = 1.0
    """Weight of the forward model's loss."""
    inverse_loss: float = 1.0
    """Weight of the inverse model's loss."""


@dataclass(frozen=True)
class E3BConfig:
    """Exploration via elliptical episodic bonuses (Henaff et al. 2022); with --bonus e3b."""

    reward: float = 1.0
    """Weight of the bonus."""
    ridge: float = 0.1
    """λ: what an episode's covariance starts at, times the identity."""


@dataclass(frozen=True)
class CheckpointConfig:
    """When the whole training state is saved. It also is at the end, and on SIGTERM, SIGUSR1 and Ctrl-C."""

    minutes: float = 10.0
    """Time between checkpoints; 0 turns the clock off."""
    updates: int = 0
    """Updates between checkpoints, besides the clock; 0 turns this off."""
    keep: int = 2
    """Newest checkpoints kept."""


@dataclass(frozen=True)
class TrainConfig:
    """Train an agent on Craftax and record what it does."""

    env_name: str = "Craftax-Symbolic-v1"
    """Craftax-Symbolic-v1, Craftax-Classic-Symbolic-v1, Craftax-Pixels-v1 or Craftax-Classic-Pixels-v1."""
    bonus: str = "none"
    """Exploration bonus, with any environment and memory: none, rnd, icm or e3b."""
    total_steps: int = 1_000_000
    """Environment steps of the whole run, rounded up to whole updates of num_envs * num_steps."""
    num_envs: int = 128
    """Environments stepped in parallel."""
    num_steps: int = 64
    """Steps of each environment per update."""
    seed: int = 0
    """Seed of everything random: same seed and settings, same parameters and same recorded rows."""
    num_seeds: int = 1
    """Agents trained side by side in one program, with the seeds `seed`, `seed` + 1, …. What belongs to one goes to \
seeds/<seed>/."""
    devices: int = 0
    """Devices of this machine to spread the environments over; 0: all that --num-envs can be divided among."""
    init_from: str | None = None
    """Start with the policy of this run (its best checkpoint) or of this checkpoint, not with a random one: \
fine-tuning."""
    record: bool = True
    """Record trajectories to <run>/trajectories."""
    record_every: int = 1
    """Record one rollout in this many. Above 1, episodes are recorded in pieces with gaps between."""
    record_envs: int = 16
    """Environments recorded, the first ones (all, if there are no more); -1 records all. The others' steps never \
leave the device."""
    record_shard_mb: int = 96
    """Size of a shard of the trajectory store, in MB."""
    dump_new_floors: bool = False
    """Keep the observation, and its text, at which each floor was first reached: <run>/floors."""
    log_every: int = 1
    """Updates per line of metrics.jsonl (and of the screen); a checkpoint ends a line early."""
    env: EnvConfig = field(default_factory=EnvConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    rnd: RNDConfig = field(default_factory=RNDConfig)
    icm: ICMConfig = field(default_factory=ICMConfig)
    e3b: E3BConfig = field(default_factory=E3BConfig)
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)

    @property
    def steps_per_update(self) -> int:
        return self.num_envs * self.num_steps

    @property
    def num_updates(self) -> int:
        return math.ceil(self.total_steps / self.steps_per_update)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.num_seeds))

    @property
    def pool_size(self) -> int:
        return self.env.pool_size or max(16, self.steps_per_update // 256)

    @property
    def recorded_envs(self) -> int:
        """Environments whose steps are kept: 0 without recording."""
        kept = self.num_envs if self.record_envs < 0 else min(self.record_envs, self.num_envs)
        return kept if self.record else 0


@dataclass(frozen=True)
class Invocation(TrainConfig):
    """Train an agent on Craftax and record what it does. \
 \
Results go to a new directory under `runs/` (or --run-dir): config.json, metrics.jsonl, checkpoints/, \
trajectories/ and curves.png. \
"""

    run_dir: Path | None = None
    """Where results go. Default: a new directory under the workspace's runs."""
    resume: Path | None = None
    """Continue this run from its newest checkpoint, with the settings that it was started with."""
    quiet: bool = False
    """Print nothing but errors."""
    wandb: bool = False
    """Log to Weights & Biases as well (also on when WANDB_API_KEY is set); metrics.jsonl is always written."""

    def settings(self) -> TrainConfig:
        """What decides the result, without where and how it is shown."""
        return TrainConfig(**{f.name: getattr(self, f.name) for f in fields(TrainConfig)})


def to_json(config: TrainConfig) -> dict[str, Any]:
    return asdict(config)


def from_json(values: Mapping[str, Any]) -> TrainConfig:
    """The inverse of `to_json`; a key that this version does not know is a `ConfigError`."""
    return _build(TrainConfig, values, "")


def replaced(config: Any, settings: Mapping[str, Any]) -> Any:
    """`config` with the settings of these dotted names, such as `ppo.gae_lambda`."""
    for name, value in settings.items():
        slot, _, below = name.partition(".")
        config = replace(config, **{slot: replaced(getattr(config, slot), {below: value}) if below else value})
    return config


def _build(kind: Any, values: Mapping[str, Any], prefix: str) -> Any:
    known = {f.name: f for f in fields(kind)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ConfigError(
            f"The saved configuration has the setting {prefix}{unknown[0]}, which this version does not know. "
            "Resume with the version that wrote it (config.json names its revision)."
        )
    defaults = kind()
    built = {
        name: _build(type(getattr(defaults, name)), value, f"{prefix}{name}.")
        if is_dataclass(getattr(defaults, name))
        else value
        for name, value in values.items()
    }
    return kind(**built)


def validate(config: TrainConfig) -> None:
    """Raises `ConfigError` for settings that contradict each other, saying which and what would do."""
    if config.env_name not in game_layouts:
        raise ConfigError(f"Unknown environment {config.env_name!r}. {nearest(config.env_name, game_layouts)}")
    _at_least(1, config, ("total_steps", "num_envs", "num_steps", "record_every", "record_shard_mb", "log_every"))
    _at_least(1, config, ("num_seeds",))
    _at_least(0, config, ("devices",))
    _at_least(0, config.env, ("pool_size", "max_timesteps"), "env.")
    _at_least(1, config.env, ("reset_ratio",), "env.")
    _at_least(1, config.network, ("width", "depth"), "network.")
    _at_least(1, config.ppo, ("epochs", "minibatches"), "ppo.")
    _at_least(0, config.ppo, ("learning_rate", "clip", "entropy", "value", "max_grad_norm", "adam_eps"), "ppo.")
    _at_least(0, config.ppo, ("target_kl",), "ppo.")
    if config.ppo.entropy_final is not None:
        _at_least(0, config.ppo, ("entropy_final",), "ppo.")
    _validate_bonus(config)
    _at_least(0, config.checkpoint, ("minutes", "updates"), "checkpoint.")
    _at_least(1, config.checkpoint, ("keep",), "checkpoint.")
    _validate_minibatches(config)
    if config.record_envs < -1 or config.record_envs == 0:
        raise ConfigError(
            f"--record-envs {config.record_envs} must be at least 1, or -1 for all. To record nothing, say --no-record."
        )
    if config.env.reset == "optimistic" and config.num_envs % config.env.reset_ratio:
        raise ConfigError(
            f"--env.reset-ratio {config.env.reset_ratio} must divide --num-envs {config.num_envs} "
            "for --env.reset optimistic."
        )
    if not 0 < config.ppo.gamma <= 1 or not 0 <= config.ppo.gae_lambda <= 1:
        raise ConfigError(
            f"--ppo.gamma {config.ppo.gamma} must lie in (0, 1] and --ppo.gae-lambda {config.ppo.gae_lambda} in [0, 1]."
        )


def _validate_minibatches(config: TrainConfig) -> None:
    batch, count = config.steps_per_update, config.ppo.minibatches
    steps = f"--num-envs {config.num_envs} x --num-steps {config.num_steps} = {batch} steps"
    if config.network.memory != "none":  # which learns from whole sequences
        batch = config.num_envs
        steps = f"--num-envs {batch} sequences (--network.memory {config.network.memory} learns from whole ones)"
    needed = [("ppo.minibatches", batch, steps)]
    if config.bonus != "none":
        needed.append(("ppo.minibatches", config.steps_per_update, f"{config.steps_per_update} steps"))
    for flag, whole, what in needed:
        if whole % count:
            near = sorted((n for n in range(1, whole + 1) if whole % n == 0), key=lambda n: abs(n - count))[:3]
            raise ConfigError(
                f"{what} cannot be split into --{flag} {count} equal parts. Nearest that divide: "
                f"{', '.join(map(str, sorted(near)))}."
            )


def _validate_bonus(config: TrainConfig) -> None:
    if config.bonus not in BONUSES:
        raise ConfigError(f"Unknown bonus {config.bonus!r}. {nearest(config.bonus, BONUSES)}")
    used = {"rnd": ("rnd",), "icm": ("icm",), "e3b": ("icm", "e3b")}.get(config.bonus, ())
    for slot in ("rnd", "icm", "e3b"):
        settings = getattr(config, slot)
        if slot not in used and settings != type(settings)():
            raise ConfigError(
                f"--{slot}.* is set, but --bonus {config.bonus} does not use it. Say --bonus {slot}, or leave it out."
            )
    _at_least(1, config.rnd, ("width", "outputs", "epochs"), "rnd.")
    _at_least(0, config.rnd, ("learning_rate", "reward", "loss", "advantage"), "rnd.")
    _at_least(1, config.icm, ("width", "latent", "epochs"), "icm.")
    _at_least(0, config.icm, ("learning_rate", "reward", "forward_loss", "inverse_loss"), "icm.")
    _at_least(0, config.e3b, ("reward",), "e3b.")
    if not config.e3b.ridge > 0:
        raise ConfigError(
            f"--e3b.ridge is {config.e3b.ridge}; it must be more than 0, or the covariance has no inverse."
        )
    if not 0 < config.rnd.gamma <= 1:
        raise ConfigError(f"--rnd.gamma {config.rnd.gamma} must lie in (0, 1].")


def _at_least(lowest: int, config: Any, names: tuple[str, ...], prefix: str = "") -> None:
    for name in names:
        value = getattr(config, name)
        if not lowest <= value < math.inf:  # NaN is refused too
            flag = f"--{prefix}{name}".replace("_", "-")
            raise ConfigError(f"{flag} is {value}; it must be at least {lowest}.")
