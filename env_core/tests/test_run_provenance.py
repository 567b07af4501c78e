"""Provenance: equal configurations have equal hashes; a revision is told only where there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from env_core.run import config_sha256, git_revision


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    finished = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return finished.stdout.strip()


def test_the_hash_is_of_the_values_not_of_their_order() -> None:
    # printf '{"a":[1,2],"b":{"c":"é","d":null}}' | sha256sum
    known = "ddb9c7c712aa13d3b2ea6c3a90509c2b140dc33c16059337de8fc6d7b4237100"
    one = config_sha256({"b": {"d": None, "c": "é"}, "a": [1, 2]})
    assert one == config_sha256({"a": [1, 2], "b": {"c": "é", "d": None}}) == known
    assert one != config_sha256({"a": [2, 1], "b": {"c": "é", "d": None}})


def test_numbers_without_a_json_form_are_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        config_sha256({"x": float("inf")})


def test_the_revision_of_a_repository_and_whether_it_was_changed(tmp_path: Path) -> None:
    assert git_revision(tmp_path) is None
    _git(tmp_path, "init", "--quiet")
    assert git_revision(tmp_path) is None
    (tmp_path / "file").write_text("1")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "--quiet", "-m", "x")
    commit = _git(tmp_path, "rev-parse", "HEAD")
    assert git_revision(tmp_path) == commit
    (tmp_path / "untracked").touch()
    assert git_revision(tmp_path) == commit
    (tmp_path / "file").write_text("2")
    assert git_revision(tmp_path) == f"{commit}+dirty"


def test_without_git_there_is_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_revision() is None


def test_the_command_is_as_a_user_types_it() -> None:
    code = "import json, sys; from env_core.run import provenance; sys.stdout.write(provenance()['command'])"
    finished = subprocess.run([sys.executable, "-c", code, "--seed", "a b"], capture_output=True, text=True, check=True)
    assert finished.stdout == "-c --seed 'a b'"
