"""What we observe is what the game observes, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from env_core import observation
from env_core.craftax import decode, observer
from env_core.craftax.scenes import crowded, put_on_floor, scrambled
from env_core.errors import LayoutError
from env_core.observation import CLASSIC, CRAFTAX, EMPTY_MOB, Layout, Packed


def assert_same(packed: Packed, obs: jax.Array, layout: Layout) -> None:
    """`packed` decodes to `obs`, in JAX and in numpy, and numpy packs `obs` to the same."""
    theirs = np.asarray(obs)
    on_host = Packed(*map(np.asarray, packed))
    for ours in (np.asarray(decode(packed, layout)), observation.decode(on_host, layout)):
        different = np.argwhere(ours.view(np.uint32) != theirs.view(np.uint32))
        assert not len(different), f"differs at (observation, value) {different[:5].tolist()}"
    for ours, again in zip(observation.encode(theirs, layout), on_host, strict=True):
        assert ours.dtype == again.dtype and np.array_equal(ours, again)


def play_and_compare(setup, state, steps: int) -> list:
    """Random play from `state`; every observation, before and after resets, is compared. Returns the timesteps."""
    key = jax.random.PRNGKey(7)
    worlds = setup.env.worlds(key)
    timesteps = []
    for _ in range(steps):
        key, key_action, key_step = jax.random.split(key, 3)
        action = jax.random.randint(key_action, (setup.num_envs,), 0, setup.env.num_actions)
        state, timestep = setup.env.step(key_step, state, worlds, action)
        assert_same(timestep.obs, setup.get_obs(state.inner), setup.env.layout)
        timesteps.append(timestep)
    return timesteps


def test_random_play_of_classic(classic) -> None:
    state, obs = classic.env.reset(jax.random.PRNGKey(0), classic.num_envs)
    assert_same(obs, classic.get_obs(state.inner), CLASSIC)
    timesteps = play_and_compare(classic, state, steps=60)
    assert sum(int(t.truncated.sum()) for t in timesteps) >= classic.num_envs  # fresh worlds were compared too


def test_random_play_on_every_floor(full) -> None:
    state, obs = full.env.reset(jax.random.PRNGKey(0), full.num_envs)
    assert_same(obs, full.get_obs(state.inner), CRAFTAX)
    floors = jnp.arange(full.num_envs) % 9
    state = state._replace(inner=jax.vmap(put_on_floor)(state.inner, floors))
    assert_same(full.observe(state.inner), full.get_obs(state.inner), CRAFTAX)
    timesteps = play_and_compare(full, state, steps=24)
    assert np.array_equal(timesteps[0].episode.deepest_floor, floors)
    assert {9} == {len(set(np.asarray(t.next_obs.scalar)[:, 48].tolist())) for t in timesteps[:3]}
    last = play_and_compare(full, state, steps=30)[-1]
    assert (np.asarray(last.episode.index) > 0).all()  # all were cut short at 25 steps, and play on in fresh worlds
    assert (np.asarray(last.episode.deepest_floor) == 0).all()


@pytest.fixture(scope="module")
def worlds_of(classic, full):
    return {s.env.layout: s.env.reset(jax.random.PRNGKey(3), s.num_envs)[0].inner for s in (classic, full)}


@pytest.mark.parametrize("layout", [CLASSIC, CRAFTAX], ids=lambda layout: layout.name)
def test_crowds_at_the_edges_on_every_floor(layout, worlds_of, classic, full) -> None:
    setup = {CLASSIC: classic, CRAFTAX: full}[layout]
    crowd, scramble = (jax.jit(jax.vmap(make(layout))) for make in (crowded, scrambled))
    inner, shown = worlds_of[layout], 0
    if layout is CRAFTAX:
        inner = jax.vmap(put_on_floor)(inner, jnp.arange(setup.num_envs) % 9)
    for seed in range(12):
        keys = jax.random.split(jax.random.PRNGKey(seed), setup.num_envs)
        scene = crowd(keys, inner)
        for state in (scene, scramble(keys, scene)):
            packed = setup.observe(state)
            assert_same(packed, setup.get_obs(state), layout)
            shown += int((packed.mob != EMPTY_MOB).sum())
    assert shown > 12 * setup.num_envs  # crowds, not deserts


def test_one_state_alone_gives_what_it_gives_among_many(worlds_of, classic, full) -> None:
    for setup in (classic, full):
        layout = setup.env.layout
        keys = jax.random.split(jax.random.PRNGKey(5), setup.num_envs)
        many = jax.jit(jax.vmap(crowded(layout)))(keys, worlds_of[layout])
        one = jax.tree.map(lambda leaf: leaf[4], many)
        alone = jax.jit(observer(layout))(one)
        for a, b in zip(alone, setup.observe(many), strict=True):
            assert np.array_equal(a, b[4])


@pytest.mark.parametrize("layout", [CLASSIC, CRAFTAX], ids=lambda layout: layout.name)
def test_a_state_known_to_the_compiler_gives_what_an_unknown_one_gives(layout, worlds_of) -> None:
    """Folded at compile time, a division is exact; at run time XLA multiplies by the reciprocal."""
    world = jax.tree.map(lambda leaf: leaf[0], worlds_of[layout])
    world = world.replace(player_food=7, player_drink=9)  # Python numbers: literals in the program
    known = jax.jit(lambda: observer(layout)(world))()
    unknown = jax.jit(observer(layout))(world)
    assert np.asarray(known.scalar).tobytes() == np.asarray(unknown.scalar).tobytes()


# Mobs of Craftax-Classic by hand: (kind, row and column on the screen of 7 x 9, present), in the order of writing,
# and the (tile, channel) pairs that remain visible.
ZOMBIES, COWS = "zombies", "cows"
BY_HAND = {
    "one in each corner": ([(ZOMBIES, 0, 0, 1), (ZOMBIES, 6, 8, 1)], [(0, 0), (62, 0)]),
    "one behind each edge": ([(ZOMBIES, -1, 4, 1), (ZOMBIES, 7, 4, 1), (ZOMBIES, 3, 9, 1), (COWS, 3, -1, 1)], []),
    "two of a kind in one cell": ([(ZOMBIES, 2, 2, 1), (ZOMBIES, 2, 2, 1)], [(20, 0)]),
    "two kinds in one cell": ([(ZOMBIES, 2, 2, 1), (COWS, 2, 2, 1)], [(20, 0), (20, 1)]),
    "an absent one erases": ([(COWS, 2, 2, 1), (COWS, 2, 2, 0)], []),
    "a later one writes again": ([(COWS, 2, 2, 0), (COWS, 2, 2, 1)], [(20, 1)]),
    "wrapped from the left, it erases": ([(COWS, 2, 8, 1), (COWS, 2, -1, 1)], []),
    "wrapped from above, it erases": ([(COWS, 6, 3, 1), (COWS, -1, 3, 1)], []),
    "wrapped from the corner, it erases": ([(COWS, 6, 8, 1), (COWS, -1, -1, 1)], []),
    "wrapped but written before": ([(COWS, 2, -1, 1), (COWS, 2, 8, 1)], [(26, 1)]),
    "wrapped but of another kind": ([(ZOMBIES, 2, 8, 1), (COWS, 2, -1, 1)], [(26, 0)]),
    "too far left to wrap onto the screen": ([(COWS, 2, 8, 1), (COWS, 2, -10, 1)], [(26, 1)]),
    "to the right nothing wraps": ([(COWS, 2, 0, 1), (COWS, 2, 9, 1)], [(18, 1)]),
}


def placed(state, mobs):
    """`state` with these mobs and no others."""
    for kind in (ZOMBIES, COWS, "skeletons", "arrows"):
        wanted = [m[1:] for m in mobs if m[0] == kind]
        slots = getattr(state, kind).mask.shape[0]
        padded = np.array(wanted + [(50, 50, 0)] * (slots - len(wanted)))
        position = state.player_position + padded[:, :2] - np.array([3, 4])
        present = jnp.asarray(padded[:, 2] == 1)
        state = state.replace(**{kind: getattr(state, kind).replace(position=position, mask=present)})
    return state


def test_mobs_by_hand(classic) -> None:
    world = classic.env.world(jax.random.PRNGKey(0))
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(placed(world, mobs) for mobs, _ in BY_HAND.values()))
    packed = classic.observe(states)
    for (name, (_, visible)), seen in zip(BY_HAND.items(), np.asarray(packed.mob), strict=True):
        assert seen[seen != EMPTY_MOB].tolist() == [tile * 4 + channel for tile, channel in visible], name
    assert_same(packed, classic.get_obs(states), CLASSIC)


def test_the_dark_hides_tiles_and_mobs(full) -> None:
    """A zombie stands beside the player: in the light it shows, in the dark nothing does."""
    world = full.env.world(jax.random.PRNGKey(0))
    mobs = world.melee_mobs
    beside = world.player_position + jnp.array([0, 1])
    mobs = mobs.replace(
        position=mobs.position.at[0, 0].set(beside),
        mask=jnp.zeros_like(mobs.mask).at[0, 0].set(True),
        type_id=jnp.zeros_like(mobs.type_id),
    )
    world = world.replace(
        melee_mobs=mobs, passive_mobs=world.passive_mobs.replace(mask=world.passive_mobs.mask & False)
    )
    tile = 4 * 11 + 6
    for light, codes in ((1.0, [tile * 40]), (0.05, [])):
        state = jax.tree.map(lambda leaf: leaf[None], world.replace(light_map=jnp.full_like(world.light_map, light)))
        packed = full.observe(state)
        seen = np.asarray(packed.mob[0])
        assert seen[seen != EMPTY_MOB].tolist() == codes
        assert bool(packed.tile[0, tile]) == bool(codes)
        assert_same(packed, full.get_obs(state), CRAFTAX)


def test_the_edge_of_the_world(classic, full) -> None:
    """In the top left corner, Classic shows out-of-bounds blocks beyond the edge, and Craftax darkness."""
    for setup, beyond, rows, cols in ((classic, 2, 3, 4), (full, 0, 4, 5)):
        world = setup.env.world(jax.random.PRNGKey(0)).replace(player_position=jnp.zeros(2, jnp.int32))
        state = jax.tree.map(lambda leaf: leaf[None], world)
        packed = setup.observe(state)
        tile = np.asarray(packed.tile[0]).reshape(setup.env.layout.rows, setup.env.layout.cols)
        assert (tile[:rows] == beyond).all() and (tile[:, :cols] == beyond).all()
        assert (tile[rows:, cols:] != beyond).all()
        assert_same(packed, setup.get_obs(state), setup.env.layout)


def test_an_unknown_layout_is_refused() -> None:
    from dataclasses import replace

    with pytest.raises(LayoutError, match=r"no game shows 'other/1'.*craftax_symbolic/1"):
        observer(replace(CRAFTAX, name="other/1"))
