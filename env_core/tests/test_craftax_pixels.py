"""Frames, compared with those of craftax's own pixel environments, and games, compared with symbolic ones."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from env_core.craftax import make, painter
from env_core.craftax.make import _INSTALLED, check_pixels
from env_core.craftax.noise import uniform
from env_core.craftax.scenes import crowded, put_on_floor, scrambled
from env_core.craftax.textures import PACKAGES, load_textures, observed_tile
from env_core.errors import LayoutError
from env_core.observation import CLASSIC, CRAFTAX, Pixels, pixel_layouts

NEAR_A_TIE = 1e-3  # of one in 255: so near the middle between two numbers float32 may round either way
PIXEL_NAMES = {CRAFTAX: "Craftax-Pixels-v1", CLASSIC: "Craftax-Classic-Pixels-v1"}


@dataclass(frozen=True)
class Drawn:
    """Both ways to draw the states of a game; the functions take states with leaves [N, ...]."""

    setup: Any
    ours: Any
    theirs: Any
    """The observation of craftax's pixel environment, float32 [N, H, W, 3] in 0 to 1."""

    def assert_same(self, inner: Any) -> np.ndarray:
        frames = np.asarray(self.ours(inner))
        exact = 255 * np.asarray(self.theirs(inner), np.float64)
        assert frames.dtype == np.uint8 and frames.shape == exact.shape
        assert np.abs(frames - np.clip(exact, 0, 255)).max() <= 0.5 + NEAR_A_TIE
        return frames


def _drawn(setup: Any) -> Drawn:
    """Craftax's environment, given the textures that it would take minutes to make."""
    from importlib import import_module

    from craftax.craftax_env import make_craftax_env_from_name

    game = setup.env.symbolic
    size = observed_tile(game)
    textures = {name: jnp.asarray(texture) for name, texture in load_textures(game, size).items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module(f"{PACKAGES[game]}.renderer"), "load_all_textures", lambda: {size: textures})
        theirs = make_craftax_env_from_name(PIXEL_NAMES[game], auto_reset=False)
    assert theirs.observation_space(theirs.default_params).shape == pixel_layouts[PIXEL_NAMES[game]].shape
    return Drawn(setup, jax.jit(jax.vmap(painter(game, size))), jax.jit(jax.vmap(theirs.get_obs)))


@pytest.fixture(scope="module")
def drawn_classic(classic) -> Drawn:
    return _drawn(classic)


@pytest.fixture(scope="module")
def drawn_full(full) -> Drawn:
    return _drawn(full)


@pytest.fixture(scope="module", params=["drawn_classic", "drawn_full"])
def drawn(request) -> Drawn:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def worlds(drawn) -> Any:
    """Fresh worlds; of Craftax, two on each floor."""
    inner = drawn.setup.env.reset(jax.random.PRNGKey(3), drawn.setup.num_envs)[0].inner
    if drawn.setup.env.symbolic is CRAFTAX:
        inner = jax.jit(jax.vmap(put_on_floor))(inner, jnp.arange(drawn.setup.num_envs) % 9)
    return inner


def test_played_frames_are_craftax_own(drawn) -> None:
    env, num_envs = drawn.setup.env, drawn.setup.num_envs
    state, _ = env.reset(jax.random.PRNGKey(1), num_envs)
    pool = env.worlds(jax.random.PRNGKey(2))
    for key in jax.random.split(jax.random.PRNGKey(3), 12):
        state, _ = env.step(key, state, pool, jax.random.randint(key, (num_envs,), 0, env.num_actions))
        frames = drawn.assert_same(state.inner)
    assert len({frame.tobytes() for frame in frames}) == num_envs


def test_every_floor_at_every_hour_awake_and_asleep(drawn, worlds) -> None:
    num_envs = drawn.setup.num_envs
    for hour, light in enumerate((1.0, 0.7, 0.5, 0.31, 0.0)):
        asleep = jnp.arange(num_envs) // 9 % 2 == hour % 2
        drawn.assert_same(worlds.replace(light_level=jnp.full(num_envs, light), is_sleeping=asleep))


def test_crowds_on_all_blocks_with_all_possessions(drawn, worlds) -> None:
    num_envs, game = drawn.setup.num_envs, drawn.setup.env.symbolic
    crowd, scramble = jax.jit(jax.vmap(crowded(game))), jax.jit(jax.vmap(scrambled(game)))
    for key in jax.random.split(jax.random.PRNGKey(5), 6):
        keys = jax.random.split(key, num_envs)
        inner = _flying_everywhere(key, crowd(keys, scramble(keys, worlds)))
        drawn.assert_same(inner.replace(light_level=jax.random.uniform(key, (num_envs,))))


def _flying_everywhere(key: Any, inner: Any) -> Any:
    """What flies heads in all four directions."""
    headings = jnp.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
    flying = ("arrow_directions", "mob_projectile_directions", "player_projectile_directions")
    given = {name: getattr(inner, name) for name in flying if hasattr(inner, name)}
    return inner.replace(
        **{name: jax.random.choice(key, headings, old.shape[:-1]).astype(old.dtype) for name, old in given.items()}
    )


def test_many_and_few_possessions(drawn, worlds) -> None:
    """Numbers on both sides of every digit's end."""
    counts = jnp.array([0, 1, 9, 10, 11, 19, 20, 42, 90, 99, 100, 120, 7, 30, 2, 3, 4, 5])[: drawn.setup.num_envs]
    held = worlds.inventory.replace(wood=counts, sapling=counts[::-1], diamond=counts)
    inner = worlds.replace(inventory=held, player_food=counts)
    if drawn.setup.env.symbolic is CRAFTAX:
        inner = inner.replace(player_xp=counts, player_health=counts.astype(jnp.float32) - 3.5)
    else:
        inner = inner.replace(player_health=jnp.arange(drawn.setup.num_envs) - 7)  # the dead may have less than none
    drawn.assert_same(inner)


def test_the_noise_is_jax_own() -> None:
    for seed in (0, 7, 2**31 + 1):
        key = jax.random.PRNGKey(seed)
        assert np.array_equal(jax.jit(uniform, static_argnums=1)(key, (9, 11)), jax.random.uniform(key, (9, 11)))


def test_pixels_change_nothing_of_the_game(classic, drawn_classic) -> None:
    """One key and the same actions: the same rewards, endings, statistics and worlds, and frames of just these."""
    symbolic = classic.env
    pixels = make("Craftax-Classic-Pixels-v1", pool_size=8, max_timesteps=classic.max_timesteps)
    assert (pixels.layout, pixels.symbolic) == (Pixels(63, 63), CLASSIC)
    (ours, frames), (theirs, packed) = (
        env.reset(jax.random.PRNGKey(8), classic.num_envs) for env in (pixels, symbolic)
    )
    pools = [env.worlds(jax.random.PRNGKey(9)) for env in (pixels, symbolic)]
    endings = 0
    for key in jax.random.split(jax.random.PRNGKey(10), 28):
        action = jax.random.randint(key, (classic.num_envs,), 0, pixels.num_actions)
        ours, frame_step = pixels.step(key, ours, pools[0], action)
        theirs, packed_step = symbolic.step(key, theirs, pools[1], action)
        frames, packed = frame_step.obs, packed_step.obs
        without = [step._replace(obs=(), next_obs=()) for step in (frame_step, packed_step)]
        for mine, other in zip(jax.tree.leaves((ours, without[0])), jax.tree.leaves((theirs, without[1])), strict=True):
            assert mine.dtype == other.dtype and np.array_equal(mine, other)
        assert np.array_equal(frames, drawn_classic.ours(ours.inner))
        ended = np.asarray(frame_step.terminated | frame_step.truncated)
        assert np.array_equal(np.asarray(frames)[~ended], np.asarray(frame_step.next_obs)[~ended])
        endings += ended.sum()
    assert endings >= classic.num_envs
    last = jax.tree.map(lambda leaf: leaf[5], ours.inner)
    for mine, other in zip(pixels.observe(last), packed, strict=True):
        assert np.array_equal(mine, other[5])


def test_observe_is_what_a_symbolic_environment_shows(full) -> None:
    state, obs = full.env.reset(jax.random.PRNGKey(3), full.num_envs)
    one = full.env.observe(jax.tree.map(lambda leaf: leaf[2], state.inner))
    for mine, other in zip(one, obs, strict=True):
        assert mine.dtype == other.dtype and np.array_equal(mine, other[2])


def test_frames_of_another_size_are_noticed() -> None:
    from craftax.craftax_env import make_craftax_env_from_name

    for name, layout in pixel_layouts.items():
        symbolic = name.replace("Pixels", "Symbolic")
        game = CLASSIC if "Classic" in name else CRAFTAX
        installed = _INSTALLED[game.name](make_craftax_env_from_name(symbolic, auto_reset=False))
        check_pixels(layout, installed)
        with pytest.raises(LayoutError, match=rf"^frames of pixel/1: the layout says \({layout.height}, 5, 3\), the"):
            check_pixels(replace(layout, width=5), installed)


def test_provenance_can_say_it() -> None:
    assert Pixels(63, 63).name == "pixel/1" and Pixels(63, 63) == pixel_layouts["Craftax-Classic-Pixels-v1"]
    assert len({layout.sha256 for layout in (*pixel_layouts.values(), Pixels(63, 64), CRAFTAX, CLASSIC)}) == 5
    assert Pixels(63, 63).sha256 == Pixels(63, 63).sha256 and len(Pixels(63, 63).sha256) == 64
