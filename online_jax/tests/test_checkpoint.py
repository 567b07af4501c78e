"""Checkpoints: what is saved comes back bit for bit, and what is not whole is not taken for whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from env_core.errors import ResumeError, RunError, VersionError
from online_jax import checkpoint
from online_jax.checkpoint import Checkpoint


class State(NamedTuple):
    """Every kind of leaf that a training state has."""

    params: Any
    key: jax.Array
    update: jax.Array
    obs: jax.Array
    flags: jax.Array
    empty: jax.Array
    nothing: Any = ()


def state(seed: int) -> State:
    key = jax.random.PRNGKey(seed)
    numbers = jax.random.normal(key, (3, 4)).at[0, 0].set(jnp.nan).at[0, 1].set(-0.0)
    tiles = jax.random.randint(key, (5,), 0, 255).astype(jnp.uint8)
    return State({"a": {"b": numbers}}, key, jnp.int32(seed), tiles, jnp.array([True, False]), jnp.zeros((0, 3)))


def about(step: int, score: float | None = None) -> Checkpoint:
    return Checkpoint(
        step=step,
        update=step // 10,
        config_sha256="0" * 64,
        choices={"first_layer": "gather"},
        recorders=[{"shards": ["shard-000000"]}],
        score=score,
        created_at="2026-11-21T00:00:00+00:00",
    )


def save(folder: Path, step: int, keep: int = 2) -> Path:
    return checkpoint.save(folder, state(step), about(step), keep)


def same(found: State, expected: State) -> bool:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(
        a.dtype == b.dtype and a.shape == b.shape and np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in pairs
    )


def test_what_is_saved_comes_back_exactly(tmp_path: Path) -> None:
    path = save(tmp_path, 30)
    abstract = jax.eval_shape(lambda: state(0))
    restored = checkpoint.restore(path, abstract)
    assert isinstance(restored, State) and same(restored, state(30))
    assert same(checkpoint.restore(path, state(0)), state(30))
    assert checkpoint.latest(tmp_path) == (path, about(30))


def test_beside_it_lies_readable_json(tmp_path: Path) -> None:
    path = save(tmp_path, 819_200)
    assert path.name == "step-000000819200"
    said = json.loads((path / "checkpoint.json").read_text())
    assert (said["step"], said["schema_version"], said["choices"]) == (819_200, "2.0", {"first_layer": "gather"})


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (9, 10, 100, 20_000):
        save(tmp_path, step)
    assert [path.name for path in checkpoint.finished(tmp_path)] == ["step-000000000100", "step-000000020000"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000100", "step-000000020000"]
    assert same(checkpoint.restore(checkpoint.finished(tmp_path)[0], state(0)), state(100))


def test_an_unfinished_one_is_ignored_and_cleared_away(tmp_path: Path) -> None:
    whole, unfinished = save(tmp_path, 10), tmp_path / "step-000000000020"
    shutil.copytree(whole, unfinished)
    (unfinished / "checkpoint.json").unlink()
    assert checkpoint.latest(tmp_path) == (whole, about(10))
    save(tmp_path, 30)
    assert not unfinished.exists() and whole.exists()


def test_an_unfinished_one_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    path = checkpoint.folder_of(tmp_path, 20)
    (path / "state").mkdir(parents=True)
    (path / "state/half").write_text("half")
    assert checkpoint.latest(tmp_path) is None
    assert same(checkpoint.restore(save(tmp_path, 20), state(0)), state(20))
    assert not (path / "state/half").exists()


def test_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "absent") is None


def test_another_major_version_is_refused_and_a_newer_minor_one_read(tmp_path: Path) -> None:
    path = save(tmp_path, 10)
    said = json.loads((path / "checkpoint.json").read_text())
    (path / "checkpoint.json").write_text(json.dumps({**said, "schema_version": "2.7", "more": 1}))
    assert checkpoint.describe(path).schema_version == "2.7"
    for other in ("1.0", "3.0"):
        (path / "checkpoint.json").write_text(json.dumps({**said, "schema_version": other}))
        with pytest.raises(VersionError, match=rf"schema {other}; this program reads 2\.0"):
            checkpoint.latest(tmp_path)


def test_the_best_is_kept_beside_the_newest(tmp_path: Path) -> None:
    for step, score in ((10, 1.0), (20, 3.0), (30, None), (40, 3.0), (50, 2.0), (60, 2.5)):
        checkpoint.save(tmp_path, state(step), about(step, score), keep=1)
    found = checkpoint.best(tmp_path)
    assert found is not None and found[1].step == 40  # the later one of equals
    assert [checkpoint.describe(path).step for path in checkpoint.finished(tmp_path)] == [40, 60]
    assert checkpoint.latest(tmp_path)[1].step == 60


def test_without_a_score_none_is_best(tmp_path: Path) -> None:
    save(tmp_path, 10)
    assert checkpoint.best(tmp_path) is None and checkpoint.best(tmp_path / "absent") is None


def test_parameters_come_back_without_the_rest(tmp_path: Path) -> None:
    path = save(tmp_path, 10)
    place = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), state(10).params)
    assert same(checkpoint.restore_params(path, wanted), state(10).params)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"schema_version": "2.0"}', '{"schema_version": 1}', "null"])
def test_malformed_json_is_named(tmp_path: Path, content: str) -> None:
    path = save(tmp_path, 10)
    (path / "checkpoint.json").write_text(content)
    with pytest.raises(ResumeError, match=r"checkpoint\.json is not as this program wrote it"):
        checkpoint.latest(tmp_path)


@pytest.mark.parametrize("damage", ["cut short", "flipped", "gone"])
def test_a_damaged_state_is_an_error_that_names_it(tmp_path: Path, damage: str) -> None:
    path = save(tmp_path, 10)
    files = [file for file in (path / "state").rglob("*") if file.is_file()]
    for file in files:
        content = file.read_bytes()
        if damage == "gone":
            file.unlink()
        elif damage == "flipped":
            file.write_bytes(bytes(byte ^ 0xFF for byte in content))
        else:
            file.write_bytes(content[: len(content) // 2])
    with pytest.raises(ResumeError, match="step-000000000010 cannot be read as the state of this run"):
        checkpoint.restore(path, state(0))


def test_a_state_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 10)
    with pytest.raises(ResumeError, match="cannot be read as the state of this run"):
        checkpoint.restore(path, state(0)._replace(obs=jnp.zeros(6, jnp.uint8)))
    with pytest.raises(ResumeError, match="cannot be read as the state of this run"):
        checkpoint.restore(path, state(0)._replace(params={"other": jnp.zeros(2)}))


def test_a_disk_that_refuses_leaves_the_ones_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = save(tmp_path, 10)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(RunError, match=r"step-000000000020 could not be written: .*No space left"):
        save(tmp_path, 20)
    assert checkpoint.latest(tmp_path) == (whole, about(10))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000010"]
