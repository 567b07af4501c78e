"""Learning on the live channels alone gives what learning on all of them gives.

The observations have Craftax's 83 channels, of which an episode shows few at first and more as it goes on, so that
learning changes its size.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from probes import scribble, silent, small_config, variant_on

from online_jax.config import replaced
from online_jax.learner import Learner

UPDATES = 6
LIMIT = 24
"""Three updates: the second half of the run starts anew with few channels."""


class Learnt:
    """A run of `UPDATES` updates, with what was live and what the parameters were, before each and at the end.

    `settings` are by dotted name.
    """

    def __init__(self, narrow: str, **settings: Any) -> None:
        config = small_config(updates=UPDATES, network={"narrow": narrow}, anneal=False, learning_rate=1e-3)
        config = replaced(config, settings)
        env = scribble("Craftax-Symbolic-v1", max_timesteps=LIMIT, ending_rate=0.0)
        variant = variant_on(env, config)
        learner = Learner(variant, self._note)
        self.sizes: list[str] = []
        self.live: list[np.ndarray] = []
        self.shown: list[np.ndarray] = []
        state = learner.init(0)
        self.maps = [_map(state.params)]
        for _ in range(UPDATES):
            self.shown.append(np.asarray(variant.narrowing.shown(state.actor.obs)))
            state = learner.update(state).state
            self.live.append(np.asarray(state.seen))
            self.maps.append(_map(state.params))
        self.params = jax.device_get(state.params)
        self.learned = jax.device_get(state.learned)
        self.opt_state = jax.device_get(state.opt_state)

    def _note(self, what: str) -> Any:
        self.sizes += [what] if "learning" in what else []
        return silent(what)


def _map(params: Any) -> np.ndarray:
    return np.array(params["encoder"]["map"])


@pytest.fixture(scope="module")
def narrow() -> Learnt:
    return Learnt("on")


@pytest.fixture(scope="module")
def wide() -> Learnt:
    return Learnt("off")


def test_parameters_are_those_of_learning_on_all_channels(narrow: Learnt, wide: Learnt) -> None:
    assert len(narrow.sizes) >= 2 and "83" not in "".join(narrow.sizes)
    assert len(wide.sizes) == 1 and "83" in wide.sizes[0]
    for found, expected in zip(jax.tree.leaves(narrow.params), jax.tree.leaves(wide.params), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)
    for found, expected in zip(jax.tree.leaves(narrow.opt_state), jax.tree.leaves(wide.opt_state), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-4)
    moved = np.abs(wide.maps[-1] - wide.maps[0]).max()
    assert moved > 1e-3  # there was something to learn


def test_channels_that_were_never_shown_keep_every_bit(narrow: Learnt, wide: Learnt) -> None:
    never = ~narrow.live[-1]
    assert 20 < never.sum() < 83
    for learnt in (narrow, wide):
        assert np.array_equal(learnt.maps[-1][never], learnt.maps[0][never])
        assert (learnt.maps[-1] != learnt.maps[0])[~never].any((1, 2)).all()


def test_what_is_live_stays_live(narrow: Learnt) -> None:
    """Though later episodes begin with few channels again: the optimiser still moves the others."""
    for before, after in zip(narrow.live, narrow.live[1:], strict=False):
        assert not (before & ~after).any()
    assert narrow.live[-1].sum() > narrow.live[0].sum()
    assert narrow.shown[3].sum() < narrow.live[2].sum()


def test_sizes_hold_what_is_live() -> None:
    variant = variant_on(scribble("Craftax-Symbolic-v1"), small_config(network={"narrow": "on"}))
    narrowing = variant.narrowing
    assert narrowing.sizes[-1] == 83 and list(narrowing.sizes) == sorted(set(narrowing.sizes))
    for live in range(84):
        size = narrowing.size(live)
        assert size >= live and all(other < live for other in narrowing.sizes if other < size)


ICM = {"icm.width": 8, "icm.latent": 4, "icm.epochs": 1}
RND = {"rnd.width": 8, "rnd.outputs": 4, "rnd.normalise_obs": True}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"bonus": "rnd", "network.memory": "gru", **RND}, id="rnd, normalised, with memory"),
        pytest.param({"bonus": "icm", **ICM}, id="icm"),
    ],
)
def test_bonuses_and_memory_learn_the_same_on_live_channels(settings: dict[str, Any]) -> None:
    """Whichever way the first layer is computed: `gather` on all channels, `product` on the live ones."""
    narrow = Learnt("on", **settings, **{"network.first_layer": "product"})
    wide = Learnt("off", **settings)
    assert len(narrow.sizes) >= 2 and "83" not in "".join(narrow.sizes)
    for part in ("params", "learned"):
        found, expected = (jax.tree.leaves(getattr(learnt, part)) for learnt in (narrow, wide))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-4)
