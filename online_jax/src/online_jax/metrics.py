"""Metrics: what each is called and means, and the totals over episodes that a rollout adds up on the device.

The table is the documentation (docs/metrics.md is made from it by `python -m online_jax.metrics`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import jax

METRICS: dict[str, str] = {
    "episode/return": "Mean return (the environment's own reward, undiscounted) of the episodes that ended.",
    "episode/length": "Mean length of those episodes, in steps.",
    "episode/achievements": "Mean number of achievements that they unlocked.",
    "episode/count": "Episodes that ended. Where none did, the other episode metrics are null.",
    "episode/deepest_floor": "Mean deepest floor that they reached; 0 is the surface (Classic: always 0).",
    "episode/deepest_floor_max": "Deepest floor that any of them reached.",
    "achievement/<name>": "Share of those episodes that unlocked the achievement, 0 to 1.",
    "ppo/policy_loss": "Clipped surrogate loss, mean over all gradient steps of the update (so are the next five).",
    "ppo/value_loss": "Clipped squared error of the value, halved, summed over reward streams; before its weight.",
    "ppo/entropy": "Entropy of the policy, in nats; ln(number of actions) for a uniform one.",
    "ppo/approx_kl": "KL divergence from the rollout's policy to the learnt one, estimated by (r - 1) - ln r, in nats.",
    "ppo/clip_fraction": "Share of steps whose probability ratio r lies outside 1 ± clip.",
    "ppo/gradient_norm": "Global norm of the gradient, before clipping.",
    "ppo/explained_variance": "1 - Var(target - value) / Var(target) on the rollout; 1: perfect, 0: a constant.",
    "ppo/learning_rate": "Adam's step size in the update.",
    "ppo/entropy_weight": "Weight of the entropy bonus in the update.",
    "ppo/stopped": "Share of the update's gradient steps left out (with --ppo.target-kl).",
    "intrinsic/reward": "Mean exploration bonus per step, weighted, before it joins a reward stream (with --bonus).",
    "intrinsic/reward_std": "Its standard deviation over the rollout.",
    "rnd/loss": "The predictor's loss, weighted, mean over its gradient steps (with --bonus rnd).",
    "icm/inverse_loss": "Cross-entropy of the action as the inverse model predicts it, in nats (--bonus icm, e3b).",
    "icm/forward_loss": "Squared error of the latent as the forward model predicts it (likewise).",
    "time/sps": "Environment steps per second since the last line, learning included, all seeds together.",
    "time/compile_seconds": "Time spent compiling since the last line.",
}


class EpisodeTotals(NamedTuple):
    """Sums over the episodes that ended in a rollout."""

    num_episodes: jax.Array
    """int32"""
    episode_return: jax.Array
    """float32"""
    length: jax.Array
    """float32"""
    deepest_floor: jax.Array
    """float32"""
    deepest_floor_max: jax.Array
    """int32"""
    achievements: jax.Array
    """float32 [A]: how many of them unlocked each"""


def no_episodes(env: Any) -> EpisodeTotals:
    import jax.numpy as jnp

    zero = jnp.float32(0)
    return EpisodeTotals(jnp.int32(0), zero, zero, zero, jnp.int32(0), jnp.zeros(len(env.achievement_names)))


def add_episodes(totals: EpisodeTotals, timestep: Any) -> EpisodeTotals:
    """Adds the episodes that ended at this `Timestep` [N, ...]."""
    import jax.numpy as jnp

    ended = timestep.terminated | timestep.truncated
    episode = timestep.episode
    return EpisodeTotals(
        num_episodes=totals.num_episodes + ended.sum(dtype=jnp.int32),
        episode_return=totals.episode_return + (ended * episode.episode_return).sum(),
        length=totals.length + (ended * episode.length).sum(dtype=jnp.float32),
        deepest_floor=totals.deepest_floor + (ended * episode.deepest_floor).sum(dtype=jnp.float32),
        deepest_floor_max=jnp.maximum(totals.deepest_floor_max, (ended * episode.deepest_floor).max()),
        achievements=totals.achievements + (ended[:, None] & timestep.achievements).sum(0, dtype=jnp.float32),
    )


def explained_variance(values: jax.Array, targets: jax.Array) -> jax.Array:
    """1 - Var(target - value) / Var(target) over all steps, mean over streams; arrays [..., K] of one size."""
    import jax.numpy as jnp

    values, targets = (x.reshape(-1, x.shape[-1]) for x in (values, targets))
    return (1 - (targets - values).var(0) / jnp.maximum(targets.var(0), 1e-8)).mean()


def episode_metrics(totals: list[EpisodeTotals], achievement_names: tuple[str, ...]) -> dict[str, float]:
    """Metrics of the episodes of several rollouts, from totals on the host; NaN where no episode ended."""
    count = sum(int(one.num_episodes) for one in totals)

    def mean(name: str) -> Any:
        total = np.sum([np.asarray(getattr(one, name), np.float64) for one in totals], axis=0)
        return total / count if count else np.full_like(total, np.nan)

    rates = mean("achievements")
    return {
        "episode/return": float(mean("episode_return")),
        "episode/length": float(mean("length")),
        "episode/achievements": float(rates.sum()) if len(rates) else float("nan"),
        "episode/count": count,
        "episode/deepest_floor": float(mean("deepest_floor")),
        "episode/deepest_floor_max": max(int(one.deepest_floor_max) for one in totals) if count else float("nan"),
        **{f"achievement/{name}": float(rate) for name, rate in zip(achievement_names, rates, strict=True)},
    }


def markdown(table: Mapping[str, str] = METRICS) -> str:
    rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in table.items())
    return f"| metric | meaning |\n|---|---|\n{rows}\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
