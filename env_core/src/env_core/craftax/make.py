"""`make(name)`: an environment of Craftax or Craftax-Classic, ready to be stepped many at a time under `jax.jit`.

    env = make("Craftax-Classic-Symbolic-v1")
    state, obs = env.reset(key, 128)
    worlds = env.worlds(key)                              # once per rollout
    state, timestep = env.step(key, state, worlds, action)

The game's own observation is never built. Symbolic observations are `Packed`, which a policy may decode
(`env_core.craftax.observe.decode`); those of pixel environments are frames uint8 [N, H, W, 3]
(`env_core.craftax.pixels`). What is observed changes nothing of what happens: one key and the same actions give the
same game with either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from craftax.craftax_env import make_craftax_env_from_name
from jax import Array

from env_core.craftax import wrappers
from env_core.craftax.observe import observer
from env_core.craftax.pixels import painter
from env_core.craftax.textures import observed_tile
from env_core.craftax.wrappers import EnvState, Game, GameState, Obs, Outcome, Resets, StepFunction
from env_core.errors import ConfigError, LayoutError, nearest
from env_core.observation.layout import (
    CLASSIC,
    CRAFTAX,
    Layout,
    Pixels,
    environment_layouts,
    game_layouts,
    pixel_layouts,
)
from env_core.observation.packed import Packed

RESETS = ("pool", "optimistic", "plain")

_NO_LIMIT = 2**31 - 1  # more steps than the game's int32 clock can count


@dataclass(frozen=True)
class Environment:
    """A game, vectorised. The functions are pure and jitted; use them inside a larger `jit` or as they are."""

    name: str
    layout: Layout | Pixels
    """What its observations look like."""
    symbolic: Layout
    """What `observe` gives; the same as `layout` where that is symbolic."""
    num_actions: int
    action_names: tuple[str, ...]
    achievement_names: tuple[str, ...]
    max_return: float
    """What all achievements together pay."""
    max_ending_rate: float
    """At most this share of a rollout's steps (8 or more per environment) end an episode; for sizing buffers.

    Assumed, not proved: that episodes last 8 steps on average, or half of `max_timesteps` where that is less. A buffer
    sized by it must notice when it overflows.
    """
    reset: Callable[[Array, int], tuple[EnvState, Obs]]
    """key, num_envs -> the state and first observations of `num_envs` new worlds."""
    worlds: Callable[[Array], Any]
    """key -> the worlds to hand to `step`; made once per rollout. () where resets need none."""
    step: StepFunction
    """key, state, worlds, action int32 [N] -> state, timestep. Ended episodes continue in fresh worlds."""
    begin: Callable[[Array], tuple[EnvState, Obs]]
    """world keys uint32 [N, 2] -> the state and first observations of those very worlds."""
    play: Callable[[Array, EnvState, Array], Outcome]
    """keys uint32 [N, 2], state, action int32 [N] -> what a step leads to, each by its own key. Nothing is reset."""
    world: Callable[[Array], GameState]
    """world_key uint32 [2] -> the game state of that world: replays an episode from its statistics' `world_key`."""
    observe: Callable[[GameState], Packed]
    """one game state -> its symbolic observation, whatever the environment's own is: for text, floors, replays."""


class _Installed(NamedTuple):
    """What the installed game says of itself."""

    blocks: Iterable[Enum]
    items: Iterable[Enum]
    mobs: tuple[str, ...]
    actions: type[Enum]
    achievements: type[Enum]
    view: tuple[int, int]
    frame: tuple[int, int, int]
    mob_slots: int
    max_return: float
    floor: Callable[[GameState], Array]


def make(
    env_name: str,
    reset: str = "pool",
    pool_size: int = 64,
    reset_ratio: int = 16,
    **params: Any,
) -> Environment:
    """An environment by its Craftax name (`ENVIRONMENTS`).

    reset: where the worlds of new episodes come from: "pool" (`pool_size` worlds per rollout), "optimistic" (one world
    per `reset_ratio` environments and step) or "plain" (a world per environment and step).
    params: the game's own parameters by name, such as `max_timesteps`.

    The first pixel environment makes its textures, which takes seconds and is said on stderr; call
    `env_core.craftax.prepare_textures` before to show it otherwise.

    Raises `ConfigError` for an unknown name or a size below one, `LayoutError` where the installed game is not the one
    that the layout describes, `WriteError` where the textures cannot be kept.
    """
    _check_choice("environment", env_name, ENVIRONMENTS)
    _check_choice("reset", reset, RESETS)
    _check_at_least_one(pool_size=pool_size, reset_ratio=reset_ratio)
    symbolic = game_layouts[env_name]
    env = make_craftax_env_from_name(_SYMBOLIC_NAMES[symbolic], auto_reset=False)
    installed = _INSTALLED[symbolic.name](env)
    check_layout(symbolic, installed, env)
    settings = _game_params(env, params)
    observe: Callable[[GameState], Obs] = observer(symbolic)
    if env_name in pixel_layouts:
        check_pixels(pixel_layouts[env_name], installed)
        observe = painter(symbolic, observed_tile(symbolic))
    game = _game(env, settings, observe, installed)
    resets = {
        "pool": wrappers.pooled(pool_size),
        "optimistic": wrappers.optimistic(reset_ratio),
        "plain": wrappers.plain(),
    }[reset]
    return _environment(env_name, installed, game, resets, int(settings.max_timesteps))


def _environment(name: str, installed: _Installed, game: Game, resets: Resets, max_timesteps: int) -> Environment:
    create = wrappers.create_worlds(game)
    symbolic = game_layouts[name]
    return Environment(
        name=name,
        layout=pixel_layouts.get(name, symbolic),
        symbolic=symbolic,
        num_actions=len(installed.actions),
        action_names=_names(installed.actions),
        achievement_names=_names(installed.achievements),
        max_return=installed.max_return,
        max_ending_rate=min(1.0, max(1 / 8, 2 / max_timesteps)),
        reset=jax.jit(partial(wrappers.first_state, game), static_argnums=1),
        worlds=jax.jit(lambda key: resets.prepare(create, wrappers.raw_key(key))),
        step=jax.jit(wrappers.with_resets(game, resets)),
        begin=jax.jit(partial(wrappers.begin, game)),
        play=jax.jit(partial(wrappers.play, game)),
        world=jax.jit(lambda key: jax.tree.map(lambda leaf: leaf[0], create(wrappers.raw_key(key)[None]).inner)),
        observe=jax.jit(observer(symbolic)),
    )


def _game(env: Any, params: Any, observe: Callable[[GameState], Obs], installed: _Installed) -> Game:
    unlimited = params.replace(max_timesteps=_NO_LIMIT)

    def reset(key: Array) -> GameState:
        return env.reset_env(key, params)[1]

    def step(key: Array, state: GameState, action: Array) -> tuple[GameState, Array]:
        _, state, reward, _, _ = env.step_env(key, state, action, params)  # what is not used is not computed
        return state, reward

    def endings(state: GameState) -> tuple[Array, Array]:
        terminated = env.is_terminal(state, unlimited)
        return terminated, env.is_terminal(state, params) & ~terminated

    return Game(reset, step, endings, observe, installed.floor, lambda state: state.achievements)


def check_layout(layout: Layout, installed: _Installed, env: Any) -> None:
    """Raises `LayoutError` naming the first thing that the installed game shows differently from `layout`."""
    said: dict[str, tuple[Any, Any]] = {
        "blocks": (layout.blocks, _names(installed.blocks)),
        "items": (layout.items, _names(installed.items)),
        "mobs": (layout.mobs, installed.mobs),
        "view": ((layout.rows, layout.cols), installed.view),
        "mob slots": (layout.mob_slots, installed.mob_slots),
        "observation size": ((layout.size,), env.observation_space(env.default_params).shape),
    }
    for what, (ours, theirs) in said.items():
        if ours != theirs:
            raise LayoutError(
                f"{what} of {layout.name}: the layout says {ours}, the installed craftax says {theirs}."
                " Install the craftax version that this package asks for; recordings of another game need a new layout."
            )


def check_pixels(layout: Pixels, installed: _Installed) -> None:
    """Raises `LayoutError` where the installed game's frames have another size."""
    if layout.shape != installed.frame:
        raise LayoutError(
            f"frames of {layout.name}: the layout says {layout.shape}, the installed craftax says {installed.frame}."
            " Install the craftax version that this package asks for."
        )


def _frame(game: Any) -> tuple[int, int, int]:
    """Height, width and colours of a frame as an agent sees it, from the game's constants."""
    (rows, cols), pixels = game.OBS_DIM, game.BLOCK_PIXEL_SIZE_AGENT
    return ((rows + game.INVENTORY_OBS_HEIGHT) * pixels, cols * pixels, 3)


def _names(enum: Iterable[Enum]) -> tuple[str, ...]:
    """Lower-case names by value, which the game uses as indices."""
    return tuple(member.name.lower() for member in sorted(enum, key=lambda member: int(member.value)))


def _game_params(env: Any, overrides: dict[str, Any]) -> Any:
    known = env.default_params.__dataclass_fields__
    for name in overrides:
        if name not in known:
            raise ConfigError(f"unknown parameter {name!r} of {env.name}. {nearest(name, known)}")
    _check_at_least_one(**{name: overrides[name] for name in ("max_timesteps",) if name in overrides})
    return env.default_params.replace(**overrides)


def _check_choice(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ConfigError(f"unknown {what} {name!r}. {nearest(name, known)}")


def _check_at_least_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name} is {size}: it must be at least 1")


def _installed_craftax(env: Any) -> _Installed:
    from craftax.craftax import constants as game

    static = env.static_env_params
    kinds = ("melee", "passive", "ranged")
    rows = {"passive": 0, "melee": 1, "ranged": 2}  # of the game's table of achievements
    mobs = [_mob_names(game, kind, rows[kind]) for kind in kinds]
    projectiles = _names(game.ProjectileType)
    return _Installed(
        blocks=game.BlockType,
        items=game.ItemType,
        mobs=(*mobs[0], *mobs[1], *mobs[2], *projectiles, *(f"player_{name}" for name in projectiles)),
        actions=game.Action,
        achievements=game.Achievement,
        view=tuple(game.OBS_DIM),
        frame=_frame(game),
        mob_slots=static.max_melee_mobs
        + static.max_passive_mobs
        + static.max_ranged_mobs
        + static.max_mob_projectiles
        + static.max_player_projectiles,
        max_return=float(game.ACHIEVEMENT_REWARD_MAP.sum()),
        floor=lambda state: state.player_level,
    )


def _mob_names(game: Any, kind: str, row: int) -> tuple[str, ...]:
    """The mobs of one kind. The game names none of them; it says which achievement defeating (or eating) each is."""
    members = {member.value: member.name.lower() for member in game.Achievement}
    names = []
    for index, value in enumerate(game.MOB_ACHIEVEMENT_MAP[row].tolist()):
        verb, _, mob = members[value].partition("_")
        known = verb in ("defeat", "eat")  # the table is padded with achievement 0, to collect wood
        names.append(mob.replace("solider", "soldier") if known else f"{kind}_{index}")
    return tuple(names)


def _installed_classic(env: Any) -> _Installed:
    from craftax.craftax_classic import constants as game

    static = env.static_env_params
    return _Installed(
        blocks=game.BlockType,
        items=(),
        mobs=("zombie", "cow", "skeleton", "arrow"),  # in the order of the game's renderer, which names them in code
        actions=game.Action,
        achievements=game.Achievement,
        view=tuple(game.OBS_DIM),
        frame=_frame(game),
        mob_slots=static.max_zombies + static.max_cows + static.max_skeletons + static.max_arrows,
        max_return=float(len(game.Achievement)),
        floor=lambda _: jnp.int32(0),
    )


_INSTALLED: dict[str, Callable[[Any], _Installed]] = {
    CRAFTAX.name: _installed_craftax,
    CLASSIC.name: _installed_classic,
}
ENVIRONMENTS = tuple(game_layouts)

_SYMBOLIC_NAMES = {layout: name for name, layout in environment_layouts.items()}
"""What craftax calls the environment of each game that needs no textures: the game itself is the same in both."""
