"""hatch's environments are those of workspace.toml, wherever hatch is called from."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
WORKSPACE: dict[str, Any] = tomllib.loads((ROOT / "workspace.toml").read_text())


def _hatch(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("hatch")
    assert program, "These tests need hatch on the PATH: run them by `hatch run test`."
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HATCH_ENV")}
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )


def _inherited(variable: str, **chosen: str) -> str:
    """What a command that hatch runs sees in `variable`."""
    program = shutil.which("hatch")
    assert program
    base = {name: value for name, value in os.environ.items() if name not in ("UV_CONSTRAINT", "UV_FIND_LINKS")}
    code = f"import os; print(os.environ.get({variable!r}))"
    command = [program, "run", "python", "-c", code]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env=base | chosen
    ).stdout.strip()


def _environments(folder: Path) -> dict[str, Any]:
    finished = _hatch("env", "show", "--json", folder=folder)
    assert finished.returncode == 0, finished.stderr
    shown: dict[str, Any] = json.loads(finished.stdout)
    return {name: shown[name] for name in WORKSPACE["environments"]}


def _member(pattern: str) -> str:
    (folder,) = ROOT.glob(Path(pattern).name)
    return folder.name


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for file in ("pyproject.toml", "workspace.toml", "hatch_environments.py"):
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


def test_each_environment_is_as_the_workspace_says() -> None:
    for name, made in _environments(ROOT).items():
        said = WORKSPACE["environments"][name]
        assert made["dependencies"] == said["dependencies"]
        members = {_member(member["path"]): member["features"] for member in made["workspace"]["members"]}
        assert members == said["members"]
        assert made["scripts"].keys() == said["scripts"].keys()
        assert made["python"] == WORKSPACE["python"]


def test_every_environment_installs_the_contract_and_members_that_exist() -> None:
    for said in WORKSPACE["environments"].values():
        assert "env_core" in said["members"]
        assert set(said["members"]) <= set(WORKSPACE["members"])
    for member in WORKSPACE["members"]:
        metadata = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
        assert metadata["name"] == f"craftax-{member.replace('_', '-')}"


def test_the_installer_keeps_to_the_tested_versions_unless_told_otherwise() -> None:
    assert _inherited("UV_CONSTRAINT") == str(ROOT / WORKSPACE["constraints"])
    assert _inherited("UV_CONSTRAINT", UV_CONSTRAINT="mine.txt") == "mine.txt"
    assert _inherited("UV_FIND_LINKS", PIP_FIND_LINKS="/wheels") == "/wheels"


@pytest.mark.parametrize("folder", ["docs", "tests", *WORKSPACE["members"]])
def test_a_subfolder_has_the_same_environments(folder: str) -> None:
    assert _environments(ROOT / folder) == _environments(ROOT)


def test_scripts_name_the_root_so_that_they_run_from_anywhere() -> None:
    scripts = _environments(ROOT / "docs")["default"]["scripts"]
    assert scripts["test"][0].endswith(f" {shlex.quote(str(ROOT))}/env_core/tests")
    assert "{root}" not in json.dumps(scripts)


def test_the_tests_of_every_member_are_part_of_all_tests() -> None:
    script = "\n".join(WORKSPACE["environments"]["default"]["scripts"]["test"])
    assert "env_core/tests" in script
    for name, said in WORKSPACE["environments"].items():
        if name != "default" and "test" in said["scripts"]:
            assert f"hatch run {name}:test" in script


def test_an_edit_of_the_workspace_is_an_edit_of_the_environments(copy: Path) -> None:
    with (copy / "workspace.toml").open("a") as file:
        file.write('[environments.mine]\ndescription = "x"\nmembers = { env_core = ["plots"] }\n')
        file.write('dependencies = []\n[environments.mine.scripts]\nhello = "python {root}/hello.py"\n')
    finished = _hatch("env", "show", "--json", folder=copy)
    made = json.loads(finished.stdout)["mine"]
    assert made["scripts"]["hello"] == [f"python {copy}/hello.py"]
    assert made["path"] == str(copy / ".hatch/mine")


def test_an_unknown_key_is_refused(copy: Path) -> None:
    text = (copy / "workspace.toml").read_text().replace("description =", "descripton =", 1)
    (copy / "workspace.toml").write_text(text)
    finished = _hatch("env", "show", "--json", folder=copy)
    assert finished.returncode != 0
    assert "[environments.default]: unknown ['descripton']" in finished.stdout + finished.stderr


def test_the_versions_installed_here_are_the_tested_ones() -> None:
    lines = (ROOT / WORKSPACE["constraints"]).read_text().splitlines()
    tested = {line for line in lines if not line.startswith("#")}
    command = ["uv", "pip", "freeze", "--exclude-editable", "--python", sys.executable]
    installed = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert installed <= tested, "Resolve the tested versions anew by `hatch run constraints`, or `hatch env prune`."
