"""workspace.toml at run time: where it is found, what it may say, what overrides it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from env_core import workspace
from env_core.errors import ConfigError

JOB = "[jobs.label-shards]\ncpus = 4\ngpus = 0\nmemory_gb = 16\nhours = 2\n"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No settings but the test's own, in an empty folder."""
    for variable in [name for name in os.environ if name.startswith("CRAFTAX_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "workspace.toml"
    file.write_text(text)
    return file


def test_without_a_file_data_goes_below_the_current_folder(alone: Path) -> None:
    settings = workspace.load()
    assert (settings.source, settings.paths.runs, dict(settings.jobs)) == (None, alone / "runs", {})


def test_the_nearest_file_upward_wins_and_its_paths_start_at_its_folder(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(alone, '[paths]\nruns = "far"\n')
    near = _write(alone / "a", '[paths]\nruns = "near"\n')
    (alone / "a" / "b").mkdir()
    monkeypatch.chdir(alone / "a" / "b")
    settings = workspace.load()
    assert (settings.source, settings.paths.runs) == (near, alone / "a" / "near")


@pytest.mark.parametrize("named", ["elsewhere", "elsewhere/workspace.toml"])
def test_the_environment_names_the_file_or_its_folder(alone: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    _write(alone, '[paths]\nruns = "here"\n')
    _write(alone / "elsewhere", '[paths]\nruns = "/data/runs"\n')
    monkeypatch.setenv("CRAFTAX_WORKSPACE", named)
    assert workspace.load().paths.runs == Path("/data/runs")


def test_naming_a_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAFTAX_WORKSPACE", "nowhere.toml")
    with pytest.raises(ConfigError, match=r"CRAFTAX_WORKSPACE names .*nowhere\.toml"):
        workspace.load()


def test_single_values_are_overridden_and_it_is_known_by_what(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(alone / "w", '[paths]\nruns = "runs"\n' + JOB)
    monkeypatch.setenv("CRAFTAX_WORKSPACE", "w")
    monkeypatch.setenv("CRAFTAX_PATHS_RUNS", "mine")  # from the current folder, as a user who types it means
    monkeypatch.setenv("CRAFTAX_JOBS_LABEL_SHARDS_HOURS", "48")
    settings = workspace.load()
    assert settings.paths.runs == alone / "mine"
    assert settings.jobs["label-shards"] == workspace.Job(cpus=4, gpus=0, memory_gb=16, hours=48)
    assert settings.overridden == {
        "paths.runs": "CRAFTAX_PATHS_RUNS",
        "jobs.label-shards.hours": "CRAFTAX_JOBS_LABEL_SHARDS_HOURS",
    }


def test_overrides_work_without_a_file(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAFTAX_PATHS_RUNS", "/scratch/runs")
    assert workspace.load().paths.runs == Path("/scratch/runs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[paths", "not valid TOML"),
        ('[path]\nruns = "x"', "'path' is unknown. Did you mean 'paths'"),
        ('[paths]\nrun = "x"', r"\[paths\]: key 'run' is unknown. Did you mean 'runs'"),
        ("[paths]\nruns = 3", "runs is 3; expected the name of a folder"),
        ('[paths]\nruns = ""', "expected the name of a folder"),
        ('paths = "x"', "expected a table"),
        (JOB.replace("hours = 2", "hours = 0"), "jobs.label-shards.hours is 0; expected a whole number, at least 1"),
        (JOB.replace("cpus = 4", "cpus = 4.5"), "cpus is 4.5"),
        (JOB.replace("cpus = 4", "cpus = true"), "cpus is True"),
        (JOB.replace("cpus = 4", ""), "cpus is missing"),
        (JOB + "queue = 'long'", "'queue' is unknown"),
    ],
)
def test_mistakes_in_the_file_are_named(alone: Path, text: str, message: str) -> None:
    _write(alone, text)
    with pytest.raises(ConfigError, match=message):
        workspace.load()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("CRAFTAX_PATHS_RUN", "x", "CRAFTAX_PATHS_RUN overrides no setting .*Did you mean 'CRAFTAX_PATHS_RUNS'"),
        ("CRAFTAX_PATHS_RUNS", "", "expected the name of a folder"),
        ("CRAFTAX_JOBS_LABEL_SHARDS_CPUS", "many", "CRAFTAX_JOBS_LABEL_SHARDS_CPUS: .* is 'many'"),
        ("CRAFTAX_JOBS_LABEL_SHARDS_CPUS", "-1", "is '-1'"),
    ],
)
def test_mistakes_in_the_environment_are_named(
    alone: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    _write(alone, JOB)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=message):
        workspace.load()


def test_other_programs_variables_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAFTAX_RELOAD_TEXTURES", "true")  # craftax's own
    assert workspace.load().source is None


def test_the_workspace_of_this_repository_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(root)
    settings = workspace.load()
    assert settings.source == root / "workspace.toml"
    assert settings.paths.runs == root / "runs"
    assert "online-train" in settings.jobs


def test_the_cache_folder_follows_the_environment(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(alone / "home"))
    assert workspace.cache_directory("jax") == alone / "home/.cache/craftax-workspace/jax"
    monkeypatch.setenv("XDG_CACHE_HOME", str(alone / "xdg"))
    assert workspace.cache_directory("jax") == alone / "xdg/craftax-workspace/jax"
    monkeypatch.setenv("CRAFTAX_CACHE", str(alone / "own"))
    assert workspace.cache_directory("jax") == alone / "own/jax"
    assert (alone / "own/jax").is_dir()


def test_a_cache_folder_that_cannot_be_is_an_error(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (alone / "file").touch()
    monkeypatch.setenv("CRAFTAX_CACHE", str(alone / "file"))
    with pytest.raises(ConfigError, match="Set CRAFTAX_CACHE to a writable folder"):
        workspace.cache_directory("jax")


def _program(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "env_core.workspace", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)


def test_the_program_says_where_each_value_comes_from(alone: Path) -> None:
    file = _write(alone, '[paths]\nruns = "runs"\n' + JOB)
    shown = _program(CRAFTAX_CACHE=str(alone / "cache"), CRAFTAX_JOBS_LABEL_SHARDS_GPUS="1").stdout.splitlines()
    assert shown[0] == f"workspace file: {file}"
    assert f"paths.runs = {alone / 'runs'}" in shown
    assert "jobs.label-shards.gpus = 1    (from CRAFTAX_JOBS_LABEL_SHARDS_GPUS)" in shown


def test_the_program_prints_a_jobs_resources_for_sbatch(alone: Path) -> None:
    _write(alone, JOB)
    assert _program("sbatch", "label-shards").stdout == "--cpus-per-task=4 --mem=16G --time=2:00:00\n"
    assert "--gpus=2" in _program("sbatch", "label-shards", CRAFTAX_JOBS_LABEL_SHARDS_GPUS="2").stdout
    unknown = _program("sbatch", "label-shard")
    assert unknown.returncode == 2
    assert "Did you mean 'label-shards'?" in unknown.stderr
    assert "Traceback" not in unknown.stderr
