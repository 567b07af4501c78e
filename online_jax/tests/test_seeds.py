"""Several agents in one program are the agents that each seed gives alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_runs import Train, metrics_of, rows_by_slot

SEEDS = (5, 6)


@pytest.fixture(scope="module")
def together(scribbled: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scribbled(tmp_path_factory.mktemp("together") / "run", "--num-seeds", "2", "--seed", "5")


@pytest.fixture(scope="module")
def alone(scribbled: Train, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("alone")
    return {seed: scribbled(folder / str(seed), "--seed", str(seed)) for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_each_records_what_it_records_alone(together: Path, alone: dict[int, Path], seed: int) -> None:
    """The same worlds and actions; numbers to the rounding of another program."""
    found, expected = rows_by_slot(together / "seeds" / str(seed)), rows_by_slot(alone[seed])
    assert found.keys() == expected.keys()
    for slot, columns in expected.items():
        for name, column in columns.items():
            if column.dtype.kind == "f":
                np.testing.assert_allclose(found[slot][name], column, atol=1e-4, err_msg=name)
            else:
                assert np.array_equal(found[slot][name], column), name


@pytest.mark.parametrize("seed", SEEDS)
def test_each_has_its_own_metrics(together: Path, alone: dict[int, Path], seed: int) -> None:
    found, expected = metrics_of(together / "seeds" / str(seed)), metrics_of(alone[seed])
    assert [line["step"] for line in found] == [line["step"] for line in expected]
    for line, other in zip(found, expected, strict=True):
        assert line["episode/count"] == other["episode/count"]
        for name in ("episode/return", "episode/length", "ppo/entropy", "ppo/value_loss"):
            assert line[name] == (None if other[name] is None else pytest.approx(other[name], abs=1e-3)), name


def test_the_runs_metrics_are_over_all(together: Path) -> None:
    """Episodes are pooled; what was learnt is the mean over seeds."""
    own = [metrics_of(together / "seeds" / str(seed)) for seed in SEEDS]
    assert own[0] != own[1]
    for line, *each in zip(metrics_of(together), *own, strict=True):
        counts = [one["episode/count"] for one in each]
        assert line["episode/count"] == sum(counts)
        returns = [one["episode/return"] for one in each]
        if all(counts):
            assert line["episode/return"] == pytest.approx(np.average(returns, weights=counts), rel=1e-5)
        assert line["ppo/entropy"] == pytest.approx(np.mean([one["ppo/entropy"] for one in each]), rel=1e-5)
