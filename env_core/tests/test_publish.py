"""Files appear whole or not at all, and whatever the disk refuses is one kind of error."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from env_core.errors import WriteError
from env_core.publish import locked, make_folder, publish, publish_new, write_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def broken(file: BinaryIO) -> None:
    file.write(b"half")
    raise OSError("disk full")


def test_publishing_replaces_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "file"
    publish(target, lambda file: file.write(b"old"))
    with pytest.raises(WriteError, match=r"Writing .*file.* failed: disk full\. .* intact; make room"):
        publish(target, broken)
    assert target.read_bytes() == b"old"
    publish(target, lambda file: file.write(b"new"))
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["file"]


def test_publishing_as_new_overwrites_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    assert publish_new(target, lambda file: file.write(b"first"))
    assert not publish_new(target, lambda file: file.write(b"second"))
    with pytest.raises(WriteError):
        publish_new(tmp_path / "other", broken)
    assert target.read_bytes() == b"first" and names(tmp_path) == ["file"]


def test_an_error_of_the_writers_own_passes_and_leaves_nothing(tmp_path: Path) -> None:
    def wrong(file: BinaryIO) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        publish(tmp_path / "file", wrong)
    assert names(tmp_path) == []


def test_json_is_replaced_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    assert write_json(path, {"a": 1}, replace=False)
    assert not write_json(path, {"a": 2}, replace=False)
    assert path.read_text() == '{\n "a": 1\n}\n'
    assert write_json(path, {"a": 3}, replace=True)
    assert path.read_text() == '{\n "a": 3\n}\n'


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        publish(tmp_path / "file", lambda file: file.write(b""))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_every_refusal_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "below"
    for action in (
        lambda: publish(below, lambda file: file.write(b"")),
        lambda: make_folder(below),
        lambda: locked(below / "lock").__enter__(),
    ):
        with pytest.raises(WriteError, match=r"Writing .*below.* failed: (Not a directory|File exists)"):
            action()


def test_a_lock_is_exclusive_while_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "lock"
    with locked(path), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    with locked(path, wait=False):
        assert path.exists()
