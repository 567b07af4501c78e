"""Four devices learn and record what one does, up to rounding, and each does its part of the work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from small_runs import arrays_of, metrics_of, rows_by_slot

from env_core.errors import ConfigError
from env_core.trajectory.inspection import verify_store
from env_core.trajectory.store import Store
from online_jax import devices
from online_jax.devices import Placement, place

RECORDED_BYTES = 4 * 22 * 4
"""Of the scalars of the four recorded environments' observations; the keys of all 64 environments' worlds take 512."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `train_on_devices.py` filled."""
    folder = tmp_path_factory.mktemp("devices")
    program = Path(__file__).with_name("train_on_devices.py")
    ended = subprocess.run([sys.executable, program, folder], capture_output=True, text=True, timeout=1800)
    assert ended.returncode == 0, ended.stderr
    return folder


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Numbers up to rounding, everything else exactly."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def numbers(line: dict[str, Any]) -> dict[str, Any]:
    return {name: np.nan if value is None else value for name, value in line.items()}


@pytest.mark.parametrize("found", ["plain-4", "plain-4-on-1", "plain-1-on-4", "curious-4"])
def test_the_same_is_learnt(runs: Path, found: str) -> None:
    expected = runs / f"{found.split('-')[0]}-1"
    assert_close(arrays_of(runs / found), arrays_of(expected))
    lines, wanted = metrics_of(runs / found), metrics_of(expected)
    assert [line["step"] for line in lines] == [64 * update for update in range(1, 9)]
    for line, other in zip(lines, wanted, strict=True):
        assert_close(numbers(line), numbers(other))


@pytest.mark.parametrize("found", ["plain-4", "plain-4-on-1", "plain-1-on-4", "curious-4/seeds/0", "curious-4/seeds/1"])
def test_the_same_is_recorded(runs: Path, found: str) -> None:
    expected = found.replace(found.split("/")[0], found.split("-")[0] + "-1")
    rows, wanted = rows_by_slot(runs / found), rows_by_slot(runs / expected)
    assert rows.keys() == wanted.keys() and len(rows) > 0
    for slot, columns in wanted.items():
        assert_close(rows[slot], columns)
    assert verify_store(Store.open(runs / found / "trajectories")).ok


def test_each_device_does_its_share_and_no_game_state_travels(runs: Path) -> None:
    plan = json.loads((runs / "plan.json").read_text())
    for program in ("collect", "learn"):
        alone, shared = plan["1"][program], plan["4"][program]
        assert shared["flops"] < 0.35 * alone["flops"], program
        assert alone["exchanged"] == [] and shared["exchanged"] != []
    assert plan["4"]["collect"]["within_steps"] and max(plan["4"]["collect"]["within_steps"]) <= RECORDED_BYTES


def test_the_environments_are_spread_and_the_rest_is_everywhere() -> None:
    tree = {"spread": jax.ShapeDtypeStruct((6, 2), np.float32), "count": jax.ShapeDtypeStruct((), np.int32)}
    mesh = jax.sharding.Mesh(np.array(jax.local_devices()[:1]), (devices.AXIS,))
    placed = Placement(mesh, 6).spread(tree, 0)
    spec = jax.sharding.PartitionSpec
    assert placed["spread"].sharding.spec == spec(devices.AXIS) and placed["count"].sharding.spec == spec()
    assert Placement(mesh, 2).spread(tree, 1)["spread"].sharding.spec == spec(None, devices.AXIS)


def test_too_many_devices_and_uneven_shares_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"--devices 9, but this machine shows 1 \(cpu\)"):
        place(128, 9)
    four = [jax.local_devices()[0]] * 4
    monkeypatch.setattr(jax, "local_devices", lambda: four)
    with pytest.raises(ConfigError, match=r"128 cannot be shared evenly among 3 devices\. Nearest that can: 126, 129"):
        place(128, 3)
    monkeypatch.setattr(devices, "Mesh", lambda known, axes: list(known))
    assert len(place(128, 0).mesh) == 4 and len(place(126, 0).mesh) == 3
    assert place(7, 0).mesh is None


def test_several_processes_use_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "local_device_count", lambda: 2)
    monkeypatch.setattr(jax, "device_count", lambda: 4)
    with pytest.raises(ConfigError, match="--devices 1: a run of several processes uses all 4 devices"):
        place(128, 1)
    with pytest.raises(ConfigError, match=r"6 cannot be shared evenly among 4 devices\. Nearest that can: 4, 8"):
        place(6)
