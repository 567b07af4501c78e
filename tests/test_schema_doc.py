"""The field tables in the documentation are those of the schema."""

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "trajectory_schema.md"
BEGIN, END = "<!-- fields: begin -->\n", "<!-- fields: end -->"


def test_the_page_shows_the_tables_of_the_schema() -> None:
    command = [sys.executable, "-m", "env_core.trajectory.schema", "--markdown"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stderr == ""
    shown = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    assert shown == printed.stdout, f"Put the output of `{' '.join(command[1:])}` between the markers of {PAGE.name}."
