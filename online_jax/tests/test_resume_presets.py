"""Whatever fills the slots: a run killed after a checkpoint and resumed is the undisturbed one, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process import killed_before_update
from small_runs import Train, assert_same_runs, final_state, metrics_of

ICM = ["--icm.width", "8", "--icm.latent", "4", "--icm.epochs", "1"]
RND = ["--rnd.width", "8", "--rnd.outputs", "4"]
PAPER = ["--rnd.normalise-obs", "--rnd.normalise-reward"]
CASES = {
    "ppo-rnn": ("ppo-rnn", []),
    "ppo-rnd": ("ppo-rnd", [*RND, *PAPER]),
    "ppo-icm": ("ppo-icm", ICM),
    "ppo-e3b": ("ppo-e3b", ICM),
    "ppo-rnd with memory": ("ppo-rnd", [*RND, "--network.memory", "gru"]),
    "two seeds": ("ppo", ["--num-seeds", "2", "--seed", "5"]),
}
FOLDERS = {"two seeds": ("seeds/5", "seeds/6")}


@pytest.mark.parametrize("case", CASES)
def test_killed_and_resumed(case: str, scribbled: Train, tmp_path: Path) -> None:
    """Checkpoints are made after 3, 6 and 8 updates; killed after the fifth, the run goes on from the third."""
    preset, arguments = CASES[case]
    undisturbed = scribbled(tmp_path / "undisturbed", *arguments, preset=preset)
    disturbed = tmp_path / "disturbed"
    with killed_before_update(5):
        scribbled(disturbed, *arguments, preset=preset)
    scribbled(disturbed, resume=True)
    assert_same_runs(disturbed, undisturbed, FOLDERS.get(case, ("",)))
    assert metrics_of(disturbed) == metrics_of(undisturbed)
    learned = [place for place in final_state(undisturbed) if place.startswith((".learned", "['learned']"))]
    assert bool(learned) is (preset not in ("ppo", "ppo-rnn"))
