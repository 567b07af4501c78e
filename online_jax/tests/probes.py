"""Small environments whose answers are known, in the form of `env_core.craftax.make.Environment`.

`play` plays a Markov decision process written down by hand; the probes below isolate one ability each, after
https://andyljones.com/posts/rl-debugging.html. `scribble` shows observations of a real layout that mean nothing, but
follow from the world's key and the actions alone, so that a recording can be replayed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from env_core.craftax import wrappers
from env_core.craftax.make import Environment
from env_core.craftax.wrappers import Game, Resets
from env_core.observation import CLASSIC, CRAFTAX, EMPTY_MOB, Layout, Packed, Pixels
from online_jax import assemble
from online_jax.config import EnvConfig, NetworkConfig, PPOConfig, TrainConfig
from online_jax.intrinsic import Streams
from online_jax.ppo import Variant

END = -1


class Table(NamedTuple):
    """A Markov decision process of S states and A actions; `following` END ends the episode."""

    starts: tuple[int, ...]
    rewards: tuple[tuple[float, ...], ...]
    """[S][A]"""
    following: tuple[tuple[int, ...], ...]
    """[S][A]"""
    shows: tuple[int, ...] = ()
    """[S]: what is seen of each state; the state itself, if not given"""


BOTH_END = (END, END)
CONSTANT = Table((0,), ((1, 1),), (BOTH_END,))
"""One state, one step, reward 1: is a value learnt at all?"""
SIGNAL = Table((0, 1), ((-1, -1), (1, 1)), (BOTH_END, BOTH_END))
"""The observation says what the reward will be: does the value see it?"""
DELAY = Table((0,), ((0, 0), (1, 1)), ((1, 1), BOTH_END))
"""Reward after two steps: is it discounted?"""
CHOICE = Table((0,), ((-1, 1),), (BOTH_END,))
"""Action 1 is right: does the policy learn?"""
MATCH = Table((0, 1), ((1, -1), (-1, 1)), (BOTH_END, BOTH_END))
"""The right action is the one that the observation shows: do policy and observation meet?"""
FORK = Table((0,), ((0, 0), (-1, -1), (1, 1)), ((1, 2), BOTH_END, BOTH_END))
"""What the first action did shows one step later: is credit passed back?"""
ROUND = Table((0,), ((1, 1),), ((0, 0),))
"""Reward 1 for ever, stopped only by the time limit: is its value that of going on?"""
RECALL = Table(
    (0, 1),
    ((0, 0), (0, 0), (0, 0), (0, 0), (1, -1), (-1, 1)),
    ((2, 2), (3, 3), (4, 4), (5, 5), BOTH_END, BOTH_END),
    shows=(0, 1, 2, 2, 3, 3),
)
"""The right action at the third step is the one that the first step showed: is it remembered?"""
CHAIN = Table((0,), ((0, 1), (2, 3), (4, 5), (6, 7)), ((1, 1), (2, 3), (3, 1), BOTH_END))
"""Four states with rewards all different: for following a rollout by hand."""

STATES, SHOWN, ACTIONS = 6, 4, 2
TABLE_LAYOUT = Layout("table/1", 1, 1, ("a", "b", "c", "d"), (), ("nobody",), False, 1, ("one",))
"""One tile, whose block is what is shown of the state; nothing when the episode has ended."""


class TableArrays(NamedTuple):
    """A `Table` of at most `STATES` states, filled up to that number, so that one program plays them all."""

    starts: jax.Array
    """float32 [S]: probabilities"""
    rewards: jax.Array
    """float32 [S, A]"""
    following: jax.Array
    """int32 [S, A]"""
    shows: jax.Array
    """int32 [S]"""

    @classmethod
    def of(cls, table: Table) -> TableArrays:
        starts = jnp.zeros(STATES).at[jnp.array(table.starts)].set(1 / len(table.starts))
        padding = ((0, STATES - len(table.rewards)), (0, 0))
        rewards = jnp.pad(jnp.array(table.rewards, jnp.float32), padding)
        following = jnp.pad(jnp.array(table.following, jnp.int32), padding, constant_values=END)
        shows = jnp.array(table.shows or range(len(table.rewards)), jnp.int32)
        return cls(starts, rewards, following, jnp.pad(shows, padding[0]))


class TableState(NamedTuple):
    state: jax.Array
    """int32, END after the last step"""
    clock: jax.Array


def tile_of(shown: jax.Array) -> Packed:
    """The observation of what is shown of states, int32 [...]; END shows nothing."""
    lead = shown.shape
    tile, mob = (1 + shown).astype(jnp.uint8)[..., None], jnp.full((*lead, 1), EMPTY_MOB, jnp.uint16)
    return Packed(tile, mob, jnp.ones((*lead, 1)))


FRAMES = Pixels(27, 27)


def frame_of(shown: jax.Array) -> jax.Array:
    """The same as a frame of one colour, uint8 [..., 27, 27, 3]; END is black."""
    colours = jnp.array([[0, 0, 0], [255, 0, 0], [0, 0, 255], [0, 255, 0], [255, 255, 255]], jnp.uint8)
    return jnp.broadcast_to(colours[1 + shown][..., None, None, :], (*shown.shape, FRAMES.height, FRAMES.width, 3))


def play(table: TableArrays, max_timesteps: Any = 1000, *, in_frames: bool = False) -> Environment:
    """Plays `table`, truncating episodes after `max_timesteps`; both may be traced."""

    def endings(at: TableState) -> tuple[jax.Array, jax.Array]:
        terminated = at.state == END
        return terminated, (at.clock >= max_timesteps) & ~terminated

    show = frame_of if in_frames else tile_of
    game = Game(
        reset=lambda key: TableState(jax.random.choice(key, STATES, p=table.starts), jnp.int32(0)),
        step=lambda _, at, action: (
            TableState(table.following[at.state, action], at.clock + 1),
            table.rewards[at.state, action],
        ),
        endings=endings,
        observe=lambda at: show(jnp.where(at.state == END, END, table.shows[at.state])),
        floor=lambda _: jnp.int32(0),
        achievements=lambda at: (at.state == END)[None],
    )
    layout = FRAMES if in_frames else TABLE_LAYOUT
    return environment("table", layout, game, wrappers.plain(), ACTIONS, ("end",))


class ScribbleState(NamedTuple):
    world: jax.Array
    """uint32 [2], the key that made it"""
    trail: jax.Array
    """uint32: the actions so far, mixed up"""
    clock: jax.Array


def scribble_game(layout: Layout, max_timesteps: int, pace: float = 1.0, ending_rate: float = 0.06) -> Game:
    """The rules of `scribble`; nothing in them is random but what the world's key decides.

    At first it shows twelve blocks and four mobs, and then `pace` of both more every two steps of an episode. At each
    step, `ending_rate` of the trails end.
    """

    def step(_: jax.Array, at: ScribbleState, action: jax.Array) -> tuple[ScribbleState, jax.Array]:
        trail = at.trail * jnp.uint32(1664525) + action.astype(jnp.uint32) + jnp.uint32(1013904223)
        return ScribbleState(at.world, trail, at.clock + 1), ((trail >> 9) % 8).astype(jnp.float32) / 8

    def endings(at: ScribbleState) -> tuple[jax.Array, jax.Array]:
        terminated = ((at.trail >> 16) % 1000 < int(1000 * ending_rate)) & (at.clock > 0)
        return terminated, (at.clock >= max_timesteps) & ~terminated

    return Game(
        reset=lambda key: ScribbleState(key, key[1], jnp.int32(0)),
        step=step,
        endings=endings,
        observe=partial(_scribbled, layout, pace),
        floor=lambda at: at.clock // 4,
        achievements=lambda at: at.clock >= jnp.array([3, 6]),
    )


def scribble(
    env_name: str,
    reset: str = "plain",
    pool_size: int = 8,
    reset_ratio: int = 2,
    max_timesteps: int = 40,
    **rules: float,
) -> Environment:
    """An environment with the layout of the game called `env_name` and the arguments of `env_core.craftax.make`;
    `rules` are those of `scribble_game`."""
    layout = CLASSIC if "Classic" in env_name else CRAFTAX
    ways = {"pool": wrappers.pooled(pool_size), "optimistic": wrappers.optimistic(reset_ratio)}
    game = scribble_game(layout, max_timesteps, **rules)
    return environment(env_name, layout, game, ways.get(reset, wrappers.plain()), 5, ("three_steps", "six_steps"))


def _scribbled(layout: Layout, pace: float, at: ScribbleState) -> Packed:
    keys = jax.random.split(jax.random.fold_in(at.world, at.trail), 6)
    grown = (at.clock * pace / 2).astype(jnp.int32)
    block = jax.random.randint(keys[0], (layout.tiles,), 0, jnp.minimum(12 + grown, layout.num_blocks))
    dark = jax.random.bernoulli(keys[1], 0.1, (layout.tiles,)) & layout.has_light
    tile = jnp.where(dark, 0, 1 + block * max(1, layout.num_items))
    spread = layout.tiles // layout.mob_slots
    places = spread * jnp.arange(layout.mob_slots) + jax.random.randint(keys[2], (layout.mob_slots,), 0, spread)
    kinds = jax.random.randint(keys[3], (layout.mob_slots,), 0, jnp.minimum(4 + grown, layout.mob_channels))
    there = jax.random.bernoulli(keys[4], 0.5, (layout.mob_slots,))
    mob = jnp.sort(jnp.where(there, places * layout.mob_channels + kinds, EMPTY_MOB))
    scalar = jax.random.randint(keys[5], (layout.scalars,), 0, 16).astype(jnp.float32) / 16
    return Packed(tile.astype(jnp.uint8), mob.astype(jnp.uint16), scalar)


def environment(
    name: str, layout: Layout | Pixels, game: Game, resets: Resets, num_actions: int, achievements: tuple[str, ...]
) -> Environment:
    create = wrappers.create_worlds(game)
    return Environment(
        name=name,
        layout=layout,
        symbolic=layout if isinstance(layout, Layout) else TABLE_LAYOUT,
        num_actions=num_actions,
        action_names=tuple(f"action_{number}" for number in range(num_actions)),
        achievement_names=achievements,
        max_return=1.0,
        max_ending_rate=1.0,
        reset=jax.jit(partial(wrappers.first_state, game), static_argnums=1),
        worlds=jax.jit(lambda key: resets.prepare(create, wrappers.raw_key(key))),
        step=jax.jit(wrappers.with_resets(game, resets)),
        begin=jax.jit(partial(wrappers.begin, game)),
        play=jax.jit(partial(wrappers.play, game)),
        world=jax.jit(game.reset),
        observe=jax.jit(game.observe),
    )


def small_config(
    *,
    num_envs: int = 4,
    num_steps: int = 8,
    updates: int = 4,
    record_envs: int = 0,
    width: int = 8,
    network: dict[str, Any] | None = None,
    **ppo: Any,
) -> TrainConfig:
    """Settings of a run so small that it compiles and ends in seconds; without recording unless `record_envs` asks."""
    return TrainConfig(
        total_steps=num_envs * num_steps * updates,
        num_envs=num_envs,
        num_steps=num_steps,
        record=record_envs > 0,
        record_envs=max(1, record_envs),
        env=EnvConfig(),
        network=NetworkConfig(
            **{"width": width, "depth": 2, "first_layer": "gather", "narrow": "off", **(network or {})}
        ),
        ppo=PPOConfig(**{"epochs": 2, "minibatches": 2, **ppo}),
    )


def variant_on(env: Environment, config: TrainConfig, streams: Streams | None = None) -> Variant:
    """What the settings name, on any environment."""
    return assemble.variant_on(env, config, streams or None)


def silent(_: str) -> Any:
    """A `Learner`'s status that says nothing."""
    from contextlib import nullcontext

    return nullcontext()
