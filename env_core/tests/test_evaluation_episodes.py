"""Episodes: what does not fit together is refused, and what was saved is what is loaded."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluated import many_episodes, three_episodes
from hypothesis import given, settings
from hypothesis import strategies as st

from env_core.errors import ConfigError, RunError
from env_core.evaluation import Episodes

ARRAYS = ("returns", "lengths", "deepest_floor", "achievements", "terminated", "seeds")


def _assert_equal(one: Episodes, other: Episodes) -> None:
    for name in ARRAYS:
        before, after = getattr(one, name), getattr(other, name)
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)
    for name in ("env_name", "achievement_names", "max_return", "provenance"):
        assert getattr(one, name) == getattr(other, name)


@settings(max_examples=20, deadline=None)
@given(num_episodes=st.integers(1, 20), num_achievements=st.integers(0, 9), seed=st.integers(0, 99))
def test_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, num_episodes: int, num_achievements: int, seed: int
) -> None:
    path = tmp_path_factory.mktemp("episodes") / "new folder" / "episodes.npz"
    episodes = many_episodes(num_episodes, num_achievements, seed)
    episodes.save(path)
    _assert_equal(Episodes.load(path), episodes)
    assert [file.name for file in path.parent.iterdir()] == ["episodes.npz"]


def test_types_and_provenance_survive(tmp_path: Path) -> None:
    three_episodes().save(tmp_path / "a.npz")
    loaded = Episodes.load(tmp_path / "a.npz")
    _assert_equal(loaded, three_episodes())
    assert {name: str(getattr(loaded, name).dtype) for name in ARRAYS} == {
        "returns": "float32",
        "lengths": "int32",
        "deepest_floor": "int32",
        "achievements": "bool",
        "terminated": "bool",
        "seeds": "uint64",
    }
    assert int(loaded.seeds[-1]) == 2**64 - 1
    assert len(loaded) == 3


def test_the_arrays_are_copies_that_nobody_changes() -> None:
    returns = np.ones(3, np.float32)
    episodes = three_episodes(returns=returns)
    returns[0] = 9
    assert episodes.returns[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        episodes.returns[0] = 9


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"returns": []}, "no episodes"),
        ({"lengths": [10, 20]}, r"lengths has shape \[2\]. Expected \[3\]"),
        ({"achievements": np.ones((3, 2), bool)}, r"achievements has shape \[3, 2\]. Expected \[3, 3\]"),
        ({"achievements": np.ones((3, 3), np.float32)}, "achievements is float32. Expected bool"),
        ({"seeds": np.array([1, 2, 3], np.int64)}, "seeds is int64. Expected uint64"),
        ({"terminated": [1, 0, 1]}, "terminated is int64. Expected bool"),
        ({"returns": [1.0, np.nan, 2.0]}, "returns holds nan"),
        ({"lengths": [10, 0, 3]}, "lengths goes down to 0. Expected 1 or more"),
        ({"deepest_floor": [0, -1, 3]}, "deepest_floor goes down to -1"),
        ({"achievement_names": ("a", "b", "a")}, "named twice"),
        ({"max_return": 0.0}, "max_return is 0.0"),
        ({"provenance": {"file": Path("x")}}, "not plain JSON"),
        ({"provenance": {"loss": float("nan")}}, "not plain JSON"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        three_episodes(**changed)


def _archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _header(**header: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(header).encode(), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"PK\x03\x04 no archive", "cannot be read"),
        (_archive(returns=np.ones(3)), "cannot be read"),
        (_archive(header_json=_header(format="craftax-episodes", version=2)), "up to version 1"),
        (_archive(header_json=_header(format="something else", version=1)), "is not craftax-episodes"),
        (_archive(header_json=_header(format="craftax-episodes", version=1)), "holds no valid episodes"),
        (_archive(header_json=np.array(["a pickle"], object)), "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(RunError, match=message):
        Episodes.load(tmp_path / "a.npz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not there"):
        Episodes.load(tmp_path / "a.npz")
