"""The faster way of computing the first layer is measured once and remembered; both ways learn the same."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from probes import scribble, silent, small_config, variant_on

from env_core.observation import CLASSIC
from env_core.workspace import cache_directory
from online_jax import calibrate
from online_jax.config import TrainConfig
from online_jax.first_layer import FORWARDS
from online_jax.learner import Learner

AUTO = small_config(network={"first_layer": "auto", "narrow": "auto"})


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An empty cache, and the ways that were measured since; `product` is made the faster one."""
    monkeypatch.setenv("CRAFTAX_CACHE", str(tmp_path))
    ways: list[str] = []

    def measure(config: TrainConfig, layout: object, forward: str) -> float:
        ways.append(forward)
        return {"gather": 2.0, "product": 1.0}[forward]

    monkeypatch.setattr(calibrate, "measure", measure)
    return ways


def remembered() -> list[Path]:
    return sorted(cache_directory("calibration").iterdir())


def test_the_faster_way_is_chosen_and_remembered(measured: list[str]) -> None:
    assert calibrate.choose(AUTO, CLASSIC)["first_layer"] == "product"
    assert sorted(measured) == sorted(FORWARDS)
    assert calibrate.choose(AUTO, CLASSIC)["first_layer"] == "product"
    assert len(measured) == 2 and len(remembered()) == 1
    said = json.loads(remembered()[0].read_text())
    assert said["forward"] == "product" and said["seconds"] == {"gather": 2.0, "product": 1.0}


def test_what_is_remembered_decides(measured: list[str]) -> None:
    calibrate.choose(AUTO, CLASSIC)
    remembered()[0].write_text('{"forward": "gather"}')
    assert calibrate.choose(AUTO, CLASSIC)["first_layer"] == "gather"
    assert len(measured) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"forward": "guess"}', '{"forward": ["gather"]}'])
def test_a_damaged_memory_is_measured_again(measured: list[str], content: str) -> None:
    calibrate.choose(AUTO, CLASSIC)
    remembered()[0].write_text(content)
    assert calibrate.choose(AUTO, CLASSIC)["first_layer"] == "product"
    assert len(measured) == 4
    assert json.loads(remembered()[0].read_text())["forward"] == "product"


def test_other_sizes_are_measured_for_themselves(measured: list[str]) -> None:
    calibrate.choose(AUTO, CLASSIC)
    calibrate.choose(small_config(width=16, network={"first_layer": "auto"}), CLASSIC)
    calibrate.choose(small_config(num_steps=16, network={"first_layer": "auto"}), CLASSIC)
    assert len(measured) == 6 and len(remembered()) == 3


@pytest.mark.parametrize("way", FORWARDS)
def test_what_the_user_says_is_not_measured(measured: list[str], way: str) -> None:
    config = small_config(network={"first_layer": way, "narrow": "off"})
    assert calibrate.choose(config, CLASSIC) == {"first_layer": way, "narrow": "off"}
    assert measured == []


def test_a_measurement_takes_time() -> None:
    assert all(0 < calibrate.measure(AUTO, CLASSIC, forward) < 60 for forward in FORWARDS)


def test_both_ways_learn_the_same() -> None:
    """Losses of four updates, to a hundred-thousandth."""
    losses = []
    for way in FORWARDS:
        config = small_config(learning_rate=1e-3, network={"first_layer": way, "narrow": "on"})
        learner = Learner(variant_on(scribble("Craftax-Classic-Symbolic-v1", max_timesteps=9), config), silent)
        state, lines = learner.init(0), []
        for _ in range(config.num_updates):
            done = learner.update(state)
            state, lines = done.state, [*lines, jax.device_get(done.losses)]
        losses.append(lines)
    for gathered, multiplied in zip(*losses, strict=True):
        assert gathered.keys() == multiplied.keys()
        for name, value in gathered.items():
            np.testing.assert_allclose(value, multiplied[name], atol=1e-5, err_msg=name)
