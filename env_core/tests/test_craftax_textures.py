from contextlib import contextmanager

import numpy as np
import pytest

from env_core.craftax import prepare_textures, textures, textures_ready
from env_core.craftax.textures import load_textures, observed_tile
from env_core.errors import ConfigError
from env_core.observation import CLASSIC, CRAFTAX

NAME = "Craftax-Classic-Pixels-v1"


@pytest.fixture
def made(monkeypatch, tmp_path) -> list[int]:
    """The sizes that craftax was asked for, in an empty cache folder; its own textures take seconds."""
    from craftax.craftax_classic import constants

    def load_all_textures_given_size(size: int):
        sizes.append(size)
        return {"grass": np.full((size, size, 3), 3), "player_textures": [np.zeros((size, size, 4))] * 5}

    sizes: list[int] = []
    monkeypatch.setattr(constants, "load_all_textures_given_size", load_all_textures_given_size)
    monkeypatch.setenv("CRAFTAX_CACHE", str(tmp_path))
    return sizes


def _files(tmp_path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "textures").iterdir())


def test_textures_are_made_once_and_said_once(made, tmp_path, capsys) -> None:
    said = []

    @contextmanager
    def status(text: str):
        said.append(text)
        yield

    assert not textures_ready(NAME)
    prepare_textures(NAME, status=status)
    assert textures_ready(NAME) and textures_ready("Craftax-Classic-Symbolic-v1") and not textures_ready(NAME, 16)
    prepare_textures(NAME, status=status)
    assert made == [7] and len(said) == 1 and "craftax_classic_symbolic/1 to 7 pixels" in said[0]
    prepare_textures(NAME, 16, status)
    assert made == [7, 16] and len(_files(tmp_path)) == 2
    assert capsys.readouterr() == ("", "")


def test_what_is_kept_is_what_was_made(made) -> None:
    fresh, kept = load_textures(CLASSIC, 7), load_textures(CLASSIC, 7)
    assert made == [7] and fresh.keys() == kept.keys() == {"grass", "player_textures"}
    for name, shape in (("grass", (7, 7, 3)), ("player_textures", (5, 7, 7, 4))):
        assert kept[name].shape == shape and np.array_equal(fresh[name], kept[name])


def test_without_a_status_it_is_said_on_stderr(made, capsys) -> None:
    prepare_textures(NAME)
    first = capsys.readouterr()
    prepare_textures(NAME)
    assert first.out == "" and first.err.count("scaling the textures") == 2 and capsys.readouterr() == ("", "")


def test_a_damaged_file_is_made_again(made, tmp_path) -> None:
    load_textures(CLASSIC, 7)
    (name,) = _files(tmp_path)
    path = tmp_path / "textures" / name
    whole = path.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", b"PK", whole[:200] + bytes(50) + whole[250:]):
        path.write_bytes(damage)
        assert (load_textures(CLASSIC, 7)["grass"] == 3).all()
    assert made == [7] * 5 and path.read_bytes() == whole


def test_what_stops_half_way_leaves_nothing(made, monkeypatch, tmp_path) -> None:
    def stop(file, **_):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(textures.np, "savez_compressed", stop)
    with pytest.raises(KeyboardInterrupt):
        prepare_textures(NAME)
    assert _files(tmp_path) == [] and not textures_ready(NAME)


def test_another_craftax_finds_other_files(made, monkeypatch, tmp_path) -> None:
    load_textures(CLASSIC, 7)
    monkeypatch.setattr(textures, "_digest", lambda package: f"{package}-of-tomorrow")
    assert not textures_ready(NAME)
    load_textures(CLASSIC, 7)
    assert made == [7, 7] and len(_files(tmp_path)) == 2


def test_sizes_and_names() -> None:
    assert (observed_tile(CRAFTAX), observed_tile(CLASSIC)) == (10, 7)
    with pytest.raises(ConfigError, match=r"unknown environment 'Craftax-Pixel-v1'\. Did you mean 'Craftax-Pixels-v1'"):
        textures_ready("Craftax-Pixel-v1")
