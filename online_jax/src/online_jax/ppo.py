"""PPO. Read top to bottom: collect → gae → segments → minibatches → ppo_loss → learn.

One loop for every variant: a `Variant` fills its slots (environment, policy, exploration bonus, reward streams,
optimiser), and nothing here asks which one it is. Everything is pure and jittable; files and screens belong to the host
(`train.py`).

Axes: T steps of a rollout, N environments, K reward streams, L x M segments (M sequences of L steps), A actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from online_jax import keeping, metrics
from online_jax.config import PPOConfig
from online_jax.intrinsic import Experience, IntrinsicReward
from online_jax.keeping import Endings, Kept
from online_jax.metrics import EpisodeTotals
from online_jax.narrowing import Part
from online_jax.policies import Policy, act, entropy, log_prob


class Streams(NamedTuple):
    """K streams of reward, each with a value of its own. `mix` [K][2] weighs (extrinsic, intrinsic) into streams."""

    mix: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    gamma: tuple[float, ...] = (0.99,)
    """discount per step"""
    episodic: tuple[bool, ...] = (True,)
    """whether the stream's return ends with the episode"""
    weight: tuple[float, ...] = (1.0,)
    """of each stream's advantage in the policy's"""


class Variant(NamedTuple):
    """What a preset puts together."""

    env: Any
    """`env_core.craftax.make.Environment`, or anything with its reset, worlds, step and layout"""
    policy: Policy
    intrinsic: IntrinsicReward
    streams: Streams
    optimiser: optax.GradientTransformation
    schedule: optax.Schedule
    """gradient steps taken → learning rate, for the metrics"""
    config: PPOConfig
    num_envs: int
    num_steps: int
    kept_envs: int
    """environments whose steps are handed to the recorder"""


class ActorState(NamedTuple):
    """Where acting stands between two rollouts; leaves [N, ...]."""

    env_state: Any
    obs: Any
    is_first: jax.Array
    memory: Any
    intrinsic_memory: Any


class TrainState(NamedTuple):
    """All that training carries from update to update; a checkpoint is this, no more and no less."""

    params: Any
    opt_state: Any
    learned: Any
    """what the exploration bonus has learnt"""
    actor: ActorState
    key: jax.Array
    update: jax.Array
    """int32: updates done"""


class Transition(NamedTuple):
    """One step of all environments; stacked over a rollout the leaves are [T, N, ...]."""

    obs: Any
    is_first: jax.Array
    action: jax.Array
    log_prob: jax.Array
    values: jax.Array
    """[.., K], of `obs`"""
    rewards: jax.Array
    """[.., K], by stream"""
    terminated: jax.Array
    truncated: jax.Array
    truncated_values: jax.Array
    """[.., K], of the observation at which a truncated episode stopped; 0 elsewhere"""


class Rollout(NamedTuple):
    steps: Transition
    memory: Any
    """the policy's, before the first step"""
    last_values: jax.Array
    """[N, K], of the observation after the last step"""
    episodes: EpisodeTotals


def init(variant: Variant, key: jax.Array) -> TrainState:
    """The state before the first update."""
    key, k_env, k_policy, k_intrinsic = jax.random.split(key, 4)
    env_state, obs = variant.env.reset(k_env, variant.num_envs)
    params = variant.policy.init(k_policy)
    learned, intrinsic_memory = variant.intrinsic.init(k_intrinsic, obs)
    memory = variant.policy.initial_memory(variant.num_envs)
    actor = ActorState(env_state, obs, jnp.ones(variant.num_envs, bool), memory, intrinsic_memory)
    return TrainState(params, variant.optimiser.init(params), learned, actor, key, jnp.int32(0))


def collect(
    variant: Variant, params: Any, learned: Any, actor: ActorState, key: jax.Array
) -> tuple[ActorState, Rollout, Kept]:
    """Acts for `num_steps`. Nothing stacks an environment state or a one-hot observation; worlds are made once."""
    k_worlds, k_steps = jax.random.split(key)
    worlds = variant.env.worlds(k_worlds)
    kept = variant.kept_envs

    def step(carry: Any, key: jax.Array) -> Any:
        actor, episodes, endings = carry
        k_act, k_env = jax.random.split(key)
        memory, output = act(variant.policy, params, actor.memory, actor.obs, actor.is_first)
        action = jax.random.categorical(k_act, output.logits)
        env_state, timestep = variant.env.step(k_env, actor.env_state, worlds, action)
        ended = timestep.terminated | timestep.truncated
        experience = Experience(actor.obs, action, timestep.next_obs, timestep.terminated, timestep.truncated)
        intrinsic_memory, bonus = variant.intrinsic.reward(learned, actor.intrinsic_memory, experience)
        transition = Transition(
            obs=actor.obs,
            is_first=actor.is_first,
            action=action,
            log_prob=log_prob(output.logits, action),
            values=output.values,
            rewards=_weighted(jnp.stack([timestep.reward, bonus], -1)[..., None, :], variant.streams.mix),
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            truncated_values=_values_where(timestep.truncated, variant.policy, params, memory, timestep.next_obs),
        )
        episodes = metrics.add_episodes(episodes, timestep)
        endings = keeping.add_endings(
            endings, *keeping.first(kept, (ended, timestep.next_obs, env_state.statistics.world_key))
        )
        after = ActorState(env_state, timestep.obs, ended, memory, intrinsic_memory)
        return (after, episodes, endings), (transition, timestep.reward, bonus)

    endings = keeping.no_endings(variant.env, actor.obs, kept, variant.num_steps)
    start = (actor, metrics.no_episodes(variant.env), endings)
    (after, episodes, endings), (steps, reward, bonus) = jax.lax.scan(
        step, start, jax.random.split(k_steps, variant.num_steps)
    )
    _, last = act(variant.policy, params, after.memory, after.obs, after.is_first)
    rollout = Rollout(steps, actor.memory, last.values, episodes)
    return after, rollout, _keep(kept, actor, after, steps, (reward, bonus), endings)


def _keep(kept: int, before: ActorState, after: ActorState, steps: Transition, rewards: Any, endings: Endings) -> Kept:
    """The kept environments' part of a rollout."""
    reward, bonus = keeping.first(kept, rewards, axis=1)
    steps = keeping.first(kept, steps, axis=1)
    statistics = keeping.first(kept, before.env_state.statistics)
    return Kept(
        obs=steps.obs,
        action=steps.action,
        log_prob=steps.log_prob,
        values=steps.values,
        reward=reward,
        bonus=bonus,
        terminated=steps.terminated,
        truncated=steps.truncated,
        endings=endings,
        is_first=before.is_first[:kept],
        episode=statistics.index,
        world_key=statistics.world_key,
        final_obs=keeping.first(kept, after.obs),
    )


def _weighted(x: jax.Array, weights: Any) -> jax.Array:
    """Sum over the last axis of x times `weights`; not a matrix product, which accelerators round."""
    return (x * jnp.asarray(weights)).sum(-1)


def _values_where(here: jax.Array, policy: Policy, params: Any, memory: Any, obs: Any) -> jax.Array:
    """Values [N, K] of `obs` where `here` bool [N], 0 elsewhere; computed only if it is true anywhere."""

    def values() -> jax.Array:
        _, output = act(policy, params, memory, obs, jnp.zeros_like(here))
        return jnp.where(here[:, None], output.values, 0.0)

    return jax.lax.cond(here.any(), values, lambda: jnp.zeros_like(jax.eval_shape(values)))


def gae(steps: Transition, last_values: jax.Array, streams: Streams, trace_decay: float) -> jax.Array:
    """Generalised advantage estimates [T, N, K] (Schulman et al. 2016, eq. 16), one column per reward stream.

    A terminated episode is worth 0 from there on; a truncated one is worth the value of the observation at which it
    stopped. Neither passes anything back from the episode after it, unless the stream is not episodic.
    """
    episodic = jnp.asarray(streams.episodic)
    gamma = jnp.asarray(streams.gamma)
    terminated = steps.terminated[..., None] & episodic
    truncated = steps.truncated[..., None] & episodic
    next_values = jnp.concatenate([steps.values[1:], last_values[None]])
    next_values = jnp.where(truncated, steps.truncated_values, jnp.where(terminated, 0.0, next_values))
    delta = steps.rewards + gamma * next_values - steps.values
    trace = gamma * trace_decay * ~(terminated | truncated)

    def back(advantage: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, trace = step
        advantage = delta + trace * advantage
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(last_values), (delta, trace), reverse=True, unroll=16)[1]


def segments(tree: Any, recurrent: bool) -> Any:
    """[T, N, ...] → [L, M, ...]: whole sequences for a recurrent policy, single steps for a feed-forward one."""
    return tree if recurrent else jax.tree.map(lambda x: x.reshape(1, -1, *x.shape[2:]), tree)


def minibatches(key: jax.Array, tree: Any, count: int) -> Any:
    """Shuffles the M sequences and deals them out: [L, M, ...] → [count, L, M / count, ...]."""
    order = jax.random.permutation(key, jax.tree.leaves(tree)[0].shape[1])

    def deal(x: jax.Array) -> jax.Array:
        return jnp.moveaxis(x[:, order].reshape(x.shape[0], count, -1, *x.shape[2:]), 1, 0)

    return jax.tree.map(deal, tree)


class Batch(NamedTuple):
    """What a gradient step learns from; leaves [L, M, ...], but `memory` [1, M, ...]."""

    memory: Any
    steps: Transition
    advantages: jax.Array
    """[L, M, K]"""
    targets: jax.Array
    """[L, M, K], of the values"""


def ppo_loss(
    params: Any, unroll: Any, batch: Batch, streams: Streams, config: PPOConfig
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Clipped surrogate, clipped value loss and entropy bonus (Schulman et al. 2017, eqs. 7 and 9).

    As is usual, advantages are normalised over the minibatch, and a value's change is clipped like the ratio.
    """
    memory = jax.tree.map(lambda x: x[0], batch.memory)
    _, output = unroll(params, memory, batch.steps.obs, batch.steps.is_first)
    advantage = _weighted(batch.advantages, streams.weight)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_ratio = log_prob(output.logits, batch.steps.action) - batch.steps.log_prob
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    policy_loss = -jnp.minimum(ratio * advantage, clipped * advantage).mean()

    near = batch.steps.values + jnp.clip(output.values - batch.steps.values, -config.clip, config.clip)
    squared = jnp.maximum((output.values - batch.targets) ** 2, (near - batch.targets) ** 2)
    value_loss = 0.5 * squared.mean((0, 1)).sum()
    nats = entropy(output.logits).mean()
    return policy_loss + config.value * value_loss - config.entropy * nats, {
        "ppo/policy_loss": policy_loss,
        "ppo/value_loss": value_loss,
        "ppo/entropy": nats,
        "ppo/approx_kl": (ratio - 1 - log_ratio).mean(),
        "ppo/clip_fraction": (jnp.abs(ratio - 1) > config.clip).mean(),
    }


def learn(variant: Variant, state: TrainState, rollout: Rollout, size: int) -> tuple[TrainState, dict[str, jax.Array]]:
    """Learns from a rollout, wherever it came from: `epochs` passes in `minibatches` gradient steps each.

    `size` is one of `policy.narrowing.sizes`, and holds all live channels of this rollout.
    """
    key, k_epochs, k_intrinsic = jax.random.split(state.key, 3)
    policy, config = variant.policy, variant.config
    advantages = gae(rollout.steps, rollout.last_values, variant.streams, config.gae_lambda)
    data = Batch(
        jax.tree.map(lambda x: x[None], rollout.memory),
        *segments((rollout.steps, advantages, advantages + rollout.steps.values), policy.recurrent),
    )
    whole = (state.params, state.opt_state)
    part = policy.narrowing.part(policy.narrowing.live(state.opt_state, rollout.steps.obs), size)
    narrow, losses = _descend(variant, part, part.cut(whole), data, k_epochs)
    params, opt_state = part.paste(whole, narrow)
    learned, bonus_metrics = variant.intrinsic.update(state.learned, rollout, k_intrinsic)
    after = TrainState(params, opt_state, learned, state.actor, key, state.update + 1)
    gradient_steps = state.update * config.epochs * config.minibatches
    return after, {
        **jax.tree.map(jnp.mean, losses),
        **bonus_metrics,
        "ppo/explained_variance": metrics.explained_variance(rollout.steps.values, data.targets),
        "ppo/learning_rate": jnp.asarray(variant.schedule(gradient_steps), jnp.float32),
    }


def _descend(variant: Variant, part: Part, start: Any, data: Batch, key: jax.Array) -> tuple[Any, Any]:
    """The gradient steps on (params, opt_state); metrics are [epochs, minibatches]."""

    def minibatch(carry: Any, batch: Batch) -> Any:
        params, opt_state = carry
        gradients, losses = jax.grad(ppo_loss, has_aux=True)(
            params, part.unroll, batch, variant.streams, variant.config
        )
        updates, opt_state = variant.optimiser.update(gradients, opt_state, params)
        losses["ppo/gradient_norm"] = optax.tree.norm(gradients)
        return (optax.apply_updates(params, updates), opt_state), losses

    def epoch(carry: Any, key: jax.Array) -> Any:
        return jax.lax.scan(minibatch, carry, minibatches(key, data, variant.config.minibatches))

    return jax.lax.scan(epoch, start, jax.random.split(key, variant.config.epochs))


def iterate(variant: Variant, state: TrainState) -> tuple[TrainState, dict[str, jax.Array], Rollout]:
    """One whole update as one pure function, on all channels; for tests, and for many seeds at once under vmap."""
    key, k_collect = jax.random.split(state.key)
    actor, rollout, _ = collect(variant, state.params, state.learned, state.actor, k_collect)
    state = state._replace(actor=actor, key=key)
    state, losses = learn(variant, state, rollout, variant.policy.narrowing.sizes[-1])
    return state, losses, rollout
