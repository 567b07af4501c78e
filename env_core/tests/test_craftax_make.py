from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from env_core.craftax import ENVIRONMENTS, make
from env_core.craftax.make import _INSTALLED, check_layout
from env_core.errors import ConfigError, LayoutError
from env_core.observation import CLASSIC, CRAFTAX, environment_layouts, game_layouts, pixel_layouts


def test_what_an_environment_says_of_itself(classic, full) -> None:
    assert ENVIRONMENTS == tuple(game_layouts) == (*environment_layouts, *pixel_layouts)
    for setup, layout, actions, achievements, best in ((full, CRAFTAX, 43, 67, 226), (classic, CLASSIC, 17, 22, 22)):
        env = setup.env
        assert (env.layout, env.symbolic, env.num_actions, env.max_return) == (layout, layout, actions, best)
        assert len(env.action_names) == actions and env.action_names[5] == "do"
        assert len(env.achievement_names) == achievements
        assert (env.achievement_names[0], env.achievement_names[21]) == ("collect_wood", "make_iron_sword")
    assert full.env.achievement_names[65] == "defeat_knight"
    assert full.env.action_names[42] == "enchant_bow"


def test_the_ending_rate_follows_the_step_limit(classic) -> None:
    assert classic.env.max_ending_rate == 1 / 8
    assert make(classic.env.name, max_timesteps=4).max_ending_rate == 1 / 2
    assert make(classic.env.name, max_timesteps=1).max_ending_rate == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"env_name": "Craftax-Symbolic"},
            r"unknown environment 'Craftax-Symbolic'\. Did you mean 'Craftax-Symbolic-v1'",
        ),
        ({"reset": "pooled"}, r"unknown reset 'pooled'\. Did you mean 'pool'\? Known: optimistic, plain, pool"),
        ({"max_timestep": 5}, r"unknown parameter 'max_timestep' of .*Did you mean 'max_timesteps'"),
        ({"max_timesteps": 0}, "max_timesteps is 0: it must be at least 1"),
        ({"pool_size": 0}, "pool_size is 0"),
        ({"reset_ratio": -1}, "reset_ratio is -1"),
    ],
)
def test_what_cannot_be_made_is_said(arguments: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**{"env_name": "Craftax-Classic-Symbolic-v1", **arguments})


@pytest.mark.parametrize("name", environment_layouts)
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda lay: {"blocks": lay.blocks[::-1]}, "blocks"),
        (lambda lay: {"items": (*lay.items, "rope")}, "items"),
        (lambda lay: {"mobs": ("ghost", *lay.mobs[1:])}, "mobs"),
        (lambda lay: {"rows": lay.rows + 2}, "view"),
        (lambda lay: {"mob_slots": lay.mob_slots + 1}, "mob slots"),
        (lambda lay: {"scalar_names": lay.scalar_names[1:]}, "observation size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_game_than_the_layout_is_noticed(name, change, what) -> None:
    from craftax.craftax_env import make_craftax_env_from_name

    game = make_craftax_env_from_name(name, auto_reset=False)
    layout = environment_layouts[name]
    describe = _INSTALLED[layout.name]
    check_layout(layout, describe(game), game)
    with pytest.raises(LayoutError, match=f"^{what} of {layout.name}: the layout says"):
        check_layout(replace(layout, **change(layout)), describe(game), game)


def test_the_game_ends_by_death_or_by_time(classic) -> None:
    """Of the real game: one at the step limit, one dead, one both, one neither."""
    env, key = classic.env, jax.random.PRNGKey(0)
    state, _ = env.reset(key, classic.num_envs)
    dead = jnp.arange(classic.num_envs) % 4 >= 2
    late = jnp.arange(classic.num_envs) % 2 == 1
    inner = state.inner.replace(
        player_health=jnp.where(dead, -5, state.inner.player_health),
        timestep=jnp.where(late, classic.max_timesteps - 1, 0),
        achievements=state.inner.achievements.at[:, 3].set(True),
    )
    worlds = env.worlds(key)
    after, timestep = env.step(key, state._replace(inner=inner), worlds, jnp.zeros(classic.num_envs, jnp.int32))
    assert timestep.terminated.tolist() == [False, False, True, True] * 4
    assert timestep.truncated.tolist() == [False, True, False, False] * 4
    assert (
        timestep.achievements[:, 3].all() and after.inner.achievements[:, 3].tolist() == [True, False, False, False] * 4
    )
    assert int(after.used) == 12
    ended = np.flatnonzero(timestep.terminated | timestep.truncated)
    which = np.arange(12) % 8  # of the pool
    assert np.array_equal(after.statistics.world_key[ended], worlds.key[which])
    assert np.array_equal(timestep.obs.tile[ended], worlds.obs.tile[which])
    assert not np.array_equal(timestep.next_obs.tile[ended], timestep.obs.tile[ended])


def test_world_key_makes_the_world_again(classic) -> None:
    state, _ = classic.env.reset(jax.random.PRNGKey(4), classic.num_envs)
    again = classic.env.world(state.statistics.world_key[3])
    for ours, theirs in zip(jax.tree.leaves(again), jax.tree.leaves(state.inner), strict=True):
        assert ours.dtype == theirs.dtype and np.array_equal(ours, theirs[3])


def test_rewards_and_keys_are_the_games_own(classic) -> None:
    """A step is the game's own step with a key of its own for each environment: a recording can be replayed."""
    from craftax.craftax_env import make_craftax_env_from_name

    game = make_craftax_env_from_name(classic.env.name, auto_reset=False)
    params = game.default_params.replace(max_timesteps=classic.max_timesteps)
    state, _ = classic.env.reset(jax.random.PRNGKey(5), classic.num_envs)
    key, action = jax.random.PRNGKey(6), jnp.arange(classic.num_envs, dtype=jnp.int32)
    worlds = classic.env.worlds(key)
    keys = jax.random.split(jax.random.split(key)[0], classic.num_envs)
    obs, _, reward, _, _ = jax.jit(jax.vmap(game.step, (0, 0, 0, None)))(keys, state.inner, action, params)
    after, timestep = classic.env.step(key, state, worlds, action)
    assert np.array_equal(timestep.reward, reward) and np.array_equal(classic.get_obs(after.inner), obs)
