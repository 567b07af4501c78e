"""metrics.jsonl: every line is JSON, and a broken end costs one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from env_core.errors import RunError
from env_core.run import MetricsLog, read_metrics


def test_lines_hold_step_time_and_plain_numbers(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    log.write(np.int64(7), {"a/int": 3, "a/f32": np.float32(0.5), "a/array": np.array(2.0), "a/flag": True})
    log.write(8, {"a/nan": float("nan"), "a/inf": np.float32("-inf")})
    log.close()
    first, second = [json.loads(line) for line in (tmp_path / "m").read_text().splitlines()]
    assert first.pop("time") <= second.pop("time")
    assert first == {"step": 7, "a/int": 3, "a/f32": 0.5, "a/array": 2.0, "a/flag": 1}
    assert second == {"step": 8, "a/nan": None, "a/inf": None}


def test_what_is_written_can_be_read_at_once(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    for step in (1, 2):
        log.write(step, {"x": step})
        assert [line["x"] for line in read_metrics(tmp_path / "m")][-1] == step
    log.close()


@pytest.mark.parametrize("end", ['{"step": 3', "{", '{"step": 3, "x": 1}'])
def test_a_broken_end_is_left_out_and_then_cut_off(tmp_path: Path, end: str) -> None:
    path = tmp_path / "m"
    path.write_text('{"step": 1, "x": 1}\n{"step": 2, "x": 2}\n' + end)
    assert [line["step"] for line in read_metrics(path)] == [1, 2]
    log = MetricsLog(path)
    log.write(3, {"x": 3})
    log.close()
    assert [line["x"] for line in read_metrics(path)] == [1, 2, 3]


@pytest.mark.parametrize("broken", ["nonsense", "[1]", '{"x": 1}', '{"step": "1"}', ""])
def test_a_broken_line_elsewhere_is_named(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "m"
    path.write_text('{"step": 1}\n' + broken + '\n{"step": 2}\n')
    with pytest.raises(RunError, match="line 2 is not a JSON object"):
        list(read_metrics(path))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not there"):
        list(read_metrics(tmp_path / "m"))


def test_truncation_keeps_the_lines_up_to_the_step_as_they_were(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m")
    for step in (1, 2, 3, 4):
        log.write(step, {"x": 0.1 * step, "y": float("nan")})
    before = (tmp_path / "m").read_bytes().splitlines()
    assert log.truncate(2) == 2
    assert (tmp_path / "m").read_bytes().splitlines() == before[:2]
    log.write(3, {"x": 9})
    log.close()
    assert [line["step"] for line in read_metrics(tmp_path / "m")] == [1, 2, 3]
