import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from env_core.craftax import render
from env_core.errors import ConfigError

CLASSIC = "Craftax-Classic-Symbolic-v1"


def _craftax(cache: Path) -> dict[str, SimpleNamespace]:
    """A renderer in craftax's place: scaling the real textures takes minutes on a fresh installation."""

    def make_craftax_pixel_renderer(size: int):
        sys.stdout.write("Loading textures")
        return lambda state: jnp.full((2 * size, 3 * size, 3), state, jnp.float32)

    constants = SimpleNamespace(TEXTURE_CACHE_FILE=str(cache), BLOCK_PIXEL_SIZE_IMG=16)
    renderer = SimpleNamespace(make_craftax_pixel_renderer=make_craftax_pixel_renderer)
    return {"craftax.craftax_classic.constants": constants, "craftax.craftax_classic.renderer": renderer}


def test_a_frame_is_bytes(monkeypatch, tmp_path, capsys, caplog) -> None:
    cache = tmp_path / "textures"
    monkeypatch.setattr(render, "import_module", _craftax(cache).__getitem__)
    with caplog.at_level(logging.WARNING):
        draw = render.frame(CLASSIC)
    assert "once for this installation" in caplog.text and str(cache) in caplog.text
    for value, byte in ((100.7, 100), (300.0, 255), (-1.0, 0)):
        image = np.asarray(draw(value))
        assert image.shape == (32, 48, 3) and image.dtype == np.uint8 and (image == byte).all()
    assert capsys.readouterr().out == ""


def test_with_its_textures_ready_it_says_nothing(monkeypatch, tmp_path, caplog) -> None:
    (cache := tmp_path / "textures").touch()
    monkeypatch.setattr(render, "import_module", _craftax(cache).__getitem__)
    render.frame(CLASSIC)
    assert not caplog.records


def test_craftax_has_what_is_drawn_with() -> None:
    from importlib import import_module

    for package in render._PACKAGES.values():
        assert callable(import_module(f"{package}.renderer").make_craftax_pixel_renderer)
        constants = import_module(f"{package}.constants")
        assert Path(constants.TEXTURE_CACHE_FILE).parent.is_dir() and constants.BLOCK_PIXEL_SIZE_IMG == 16


def test_an_unknown_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown environment 'Craftax'"):
        render.frame("Craftax")
