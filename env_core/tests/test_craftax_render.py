import jax.numpy as jnp
import numpy as np
import pytest

from env_core.craftax import render
from env_core.errors import ConfigError
from env_core.observation import CLASSIC, CRAFTAX, game_layouts


def test_a_picture_is_drawn_for_every_environment_of_a_game(monkeypatch) -> None:
    asked = []

    def painter(*arguments):
        asked.append(arguments)
        return lambda state: state + jnp.zeros((2, 3, 3), jnp.uint8)

    monkeypatch.setattr(render, "painter", painter)
    for name in game_layouts:
        picture = np.asarray(render.frame(name, "status")(jnp.uint8(7)))
        assert (picture == np.full((2, 3, 3), 7, np.uint8)).all()
    assert asked == [(game, 16, "status") for game in (CRAFTAX, CLASSIC) * 2]


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown environment 'Craftax'\. .*Known: Craftax-Classic-Pixels-v1, "):
        render.frame("Craftax")
