"""PPO. Read top to bottom: collect → gae → segments → minibatches → ppo_loss → learn.

One loop for every variant: a `Variant` fills its slots (environment, policy, exploration bonus, reward streams,
optimiser), and nothing here asks which one it is. Everything is pure and jittable; files and screens belong to the host
(`train.py`).

Axes: T steps of a rollout, N environments, K reward streams, L x M segments (M sequences of L steps), A actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from online_jax import floors, keeping, metrics, narrowing
from online_jax.config import PPOConfig
from online_jax.floors import Reached
from online_jax.intrinsic import Experience, IntrinsicReward, Streams
from online_jax.keeping import Endings, Kept
from online_jax.metrics import EpisodeTotals
from online_jax.narrowing import Narrowing
from online_jax.policies import Policy, act, entropy, log_prob


class Coefficients(NamedTuple):
    """What changes over a run, per update; float32."""

    learning_rate: jax.Array
    entropy: jax.Array
    """weight of the entropy bonus"""


Schedule = Callable[[jax.Array], Coefficients]
"""Updates done → coefficients of the next one."""


class Variant(NamedTuple):
    """What a preset puts together."""

    env: Any
    """`env_core.craftax.make.Environment`, or anything with its reset, worlds, step and layout"""
    policy: Policy
    intrinsic: IntrinsicReward
    streams: Streams
    narrowing: Narrowing
    """which part of the first layers a rollout can change"""
    optimiser: optax.GradientTransformation
    """gradient → step of size 1; the learning rate comes on top"""
    schedule: Schedule
    config: PPOConfig
    num_envs: int
    num_steps: int
    kept_envs: int
    """environments whose steps are handed to the recorder"""
    num_floors: int
    """floors whose first observation is handed over; 0: none is looked for"""
    share: Callable[[Any], Any] = lambda dealt: dealt
    """minibatches [count, L, M / count, ...] → the same, divided among the devices (`devices.Placement.share`)"""


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
    seen: jax.Array
    """bool [channels]: the map channels that any observation has lit so far"""
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
    last_obs: Any
    """[N, ...]: the observation after the last step"""
    last_values: jax.Array
    """[N, K], of it"""
    bonus: jax.Array
    """[T, N], intrinsic, before it is mixed into `steps.rewards`"""
    episodes: EpisodeTotals
    reached: Reached

    def experience(self) -> Experience:
        steps = self.steps
        return Experience(steps.obs, steps.action, steps.terminated | steps.truncated, self.last_obs)


def init(variant: Variant, key: jax.Array) -> TrainState:
    """The state before the first update."""
    key, k_env, k_policy, k_intrinsic = jax.random.split(key, 4)
    env_state, obs = variant.env.reset(k_env, variant.num_envs)
    params = variant.policy.init(k_policy)
    learned, intrinsic_memory = variant.intrinsic.init(k_intrinsic, obs)
    memory = variant.policy.initial_memory(variant.num_envs)
    actor = ActorState(env_state, obs, jnp.ones(variant.num_envs, bool), memory, intrinsic_memory)
    seen = jnp.zeros(variant.narrowing.channels, bool)
    return TrainState(params, variant.optimiser.init(params), learned, seen, actor, key, jnp.int32(0))


def collect(
    variant: Variant, params: Any, learned: Any, actor: ActorState, key: jax.Array
) -> tuple[ActorState, Any, Rollout, Kept]:
    """Acts for `num_steps`, then works out the bonus of every step; returns what the bonus has `learned` by that, too.

    Nothing stacks an environment state or a one-hot observation; worlds are made once.
    """
    k_worlds, k_steps = jax.random.split(key)
    worlds = variant.env.worlds(k_worlds)
    kept = variant.kept_envs

    def step(carry: Any, inputs: Any) -> Any:
        (actor, episodes, endings, reached), (number, key) = carry, inputs
        k_act, k_env = jax.random.split(key)
        memory, output = act(variant.policy, params, actor.memory, actor.obs, actor.is_first)
        action = jax.random.categorical(k_act, output.logits)
        env_state, timestep = variant.env.step(k_env, actor.env_state, worlds, action)
        ended = timestep.terminated | timestep.truncated
        transition = Transition(
            obs=actor.obs,
            is_first=actor.is_first,
            action=action,
            log_prob=log_prob(output.logits, action),
            values=output.values,
            rewards=timestep.reward[:, None],  # the bonus joins it below
            terminated=timestep.terminated,
            truncated=timestep.truncated,
            truncated_values=_values_where(timestep.truncated, variant.policy, params, memory, timestep.next_obs),
        )
        episodes = metrics.add_episodes(episodes, timestep)
        endings = keeping.add_endings(
            endings, *keeping.first(kept, (ended, timestep.next_obs, env_state.statistics.world_key))
        )
        after = actor._replace(env_state=env_state, obs=timestep.obs, is_first=ended, memory=memory)
        reached = floors.add(reached, variant.env, env_state, number)
        return (after, episodes, endings, reached), transition

    endings = keeping.no_endings(variant.env, actor.obs, kept, variant.num_steps)
    reached = floors.none_reached(variant.env, actor.env_state, variant.num_floors)
    start = (actor, metrics.no_episodes(variant.env), endings, reached)
    inputs = (jnp.arange(variant.num_steps, dtype=jnp.int32), jax.random.split(k_steps, variant.num_steps))
    (after, episodes, endings, reached), steps = jax.lax.scan(step, start, inputs)
    _, last = act(variant.policy, params, after.memory, after.obs, after.is_first)
    experience = Experience(steps.obs, steps.action, steps.terminated | steps.truncated, after.obs)
    learned, intrinsic_memory, bonus = variant.intrinsic.reward(learned, actor.intrinsic_memory, experience)
    reward = steps.rewards[..., 0]
    rewards = _weighted(jnp.stack([reward, bonus], -1)[..., None, :], variant.streams.mix)
    rollout = Rollout(steps._replace(rewards=rewards), actor.memory, after.obs, last.values, bonus, episodes, reached)
    kept_part = _keep(kept, actor, after, steps, (reward, bonus), endings)
    return after._replace(intrinsic_memory=intrinsic_memory), learned, rollout, kept_part


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
    order = jax.random.permutation(key, jax.tree.leaves(tree)[0].shape[1]).reshape(count, -1)
    return jax.tree.map(lambda x: jnp.moveaxis(x[:, order], 1, 0), tree)


class Batch(NamedTuple):
    """What a gradient step learns from; leaves [L, M, ...], but `memory` [1, M, ...]."""

    memory: Any
    steps: Transition
    advantages: jax.Array
    """[L, M, K]"""
    targets: jax.Array
    """[L, M, K], of the values"""


def ppo_loss(
    params: Any, unroll: Any, batch: Batch, streams: Streams, config: PPOConfig, entropy_weight: Any
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
    return policy_loss + config.value * value_loss - entropy_weight * nats, {
        "ppo/policy_loss": policy_loss,
        "ppo/value_loss": value_loss,
        "ppo/entropy": nats,
        "ppo/approx_kl": (ratio - 1 - log_ratio).mean(),
        "ppo/clip_fraction": (jnp.abs(ratio - 1) > config.clip).mean(),
    }


def learn(variant: Variant, state: TrainState, rollout: Rollout, size: int) -> tuple[TrainState, dict[str, jax.Array]]:
    """Learns from a rollout, wherever it came from: `epochs` passes in `minibatches` gradient steps each.

    `size` is one of `variant.narrowing.sizes`, and holds all channels seen up to the end of this rollout.
    """
    key, k_epochs, k_intrinsic = jax.random.split(state.key, 3)
    policy, config = variant.policy, variant.config
    now = variant.schedule(state.update)
    advantages = gae(rollout.steps, rollout.last_values, variant.streams, config.gae_lambda)
    data = Batch(
        jax.tree.map(lambda x: x[None], rollout.memory),
        *segments((rollout.steps, advantages, advantages + rollout.steps.values), policy.recurrent),
    )
    seen = seen_with(variant, state.seen, rollout)
    channels = variant.narrowing.choose(seen, size)
    whole = (state.params, state.opt_state, state.learned)
    params, opt_state, learned = narrowing.cut(whole, channels)
    (params, opt_state), losses = _descend(variant, (params, opt_state), data, channels, now, k_epochs)
    learned, bonus_losses = _explore(variant, learned, rollout.experience(), channels, k_intrinsic)
    params, opt_state, learned = narrowing.paste(whole, (params, opt_state, learned), channels)
    after = TrainState(params, opt_state, learned, seen, state.actor, key, state.update + 1)
    return after, {
        **losses,
        **variant.intrinsic.measure(rollout.bonus),
        **bonus_losses,
        "ppo/explained_variance": metrics.explained_variance(rollout.steps.values, data.targets),
        "ppo/learning_rate": now.learning_rate,
        "ppo/entropy_weight": now.entropy,
    }


def seen_with(variant: Variant, seen: jax.Array, rollout: Rollout) -> jax.Array:
    """bool [channels]: what was seen before or is in this rollout."""
    return seen | variant.narrowing.shown(rollout.steps.obs) | variant.narrowing.shown(rollout.last_obs)


def _descend(
    variant: Variant, start: Any, data: Batch, channels: jax.Array | None, now: Coefficients, key: jax.Array
) -> tuple[Any, dict[str, jax.Array]]:
    """The gradient steps on (params, opt_state), and the mean of their metrics."""
    config = variant.config

    def unroll(params: Any, memory: Any, obs: Any, is_first: jax.Array) -> Any:
        return variant.policy.unroll(params, memory, obs, is_first, channels)

    def minibatch(carry: Any, batch: Batch) -> Any:
        params, opt_state, stopped = carry
        gradients, losses = jax.grad(ppo_loss, has_aux=True)(
            params, unroll, batch, variant.streams, config, now.entropy
        )
        steps, opt_state_after = variant.optimiser.update(gradients, opt_state, params)
        params_after = jax.tree.map(lambda p, step: p - now.learning_rate * step, params, steps)
        losses["ppo/gradient_norm"] = optax.tree.norm(gradients)
        if not config.target_kl:
            return (params_after, opt_state_after, stopped), losses
        stopped |= losses["ppo/approx_kl"] > 1.5 * config.target_kl
        losses["ppo/stopped"] = stopped.astype(jnp.float32)
        params, opt_state = jax.tree.map(
            lambda old, new: jnp.where(stopped, old, new), (params, opt_state), (params_after, opt_state_after)
        )
        return (params, opt_state, stopped), losses

    def epoch(carry: Any, key: jax.Array) -> Any:
        return jax.lax.scan(minibatch, carry, variant.share(minibatches(key, data, config.minibatches)))

    (params, opt_state, _), losses = jax.lax.scan(
        epoch, (*start, jnp.bool_(False)), jax.random.split(key, config.epochs)
    )
    return (params, opt_state), jax.tree.map(jnp.mean, losses)


def _explore(
    variant: Variant, learned: Any, experience: Experience, channels: jax.Array | None, key: jax.Array
) -> tuple[Any, dict[str, jax.Array]]:
    """The gradient steps of the exploration bonus, and the mean of their metrics."""
    intrinsic = variant.intrinsic
    if not intrinsic.epochs:
        return learned, {}
    data = jax.tree.map(lambda x: x[None], experience.transitions())

    def minibatch(learned: Any, batch: Any) -> Any:
        return intrinsic.update(learned, jax.tree.map(lambda x: x[0], batch), channels)

    def epoch(learned: Any, key: jax.Array) -> Any:
        return jax.lax.scan(minibatch, learned, variant.share(minibatches(key, data, variant.config.minibatches)))

    learned, losses = jax.lax.scan(epoch, learned, jax.random.split(key, intrinsic.epochs))
    return learned, jax.tree.map(jnp.mean, losses)


def iterate(variant: Variant, state: TrainState) -> tuple[TrainState, dict[str, jax.Array], Rollout]:
    """One whole update as one pure function, on all channels; for tests, and for many seeds at once under vmap."""
    key, k_collect = jax.random.split(state.key)
    actor, learned, rollout, _ = collect(variant, state.params, state.learned, state.actor, k_collect)
    state = state._replace(actor=actor, learned=learned, key=key)
    state, losses = learn(variant, state, rollout, variant.narrowing.channels)
    return state, losses, rollout
