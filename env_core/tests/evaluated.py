"""Episodes that look like those of an agent, for the tests of what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from env_core.evaluation import Episodes

ACHIEVEMENTS = ("collect_wood", "place_table", "eat_cow")


def three_episodes(**changed: Any) -> Episodes:
    """Small enough to be worked out by hand."""
    fields: dict[str, Any] = {
        "env_name": "Craftax-Symbolic-v1",
        "returns": [1.0, 2.0, 6.0],
        "lengths": [10, 20, 60],
        "deepest_floor": [0, 2, 1],
        "achievements": [[True, False, False], [True, True, False], [True, True, False]],
        "terminated": [True, True, False],
        "seeds": np.array([7, 8, 2**64 - 1], np.uint64),
        "achievement_names": ACHIEVEMENTS,
        "max_return": 10.0,
        "provenance": {"policy": "sampled", "step": 1_000_000},
    }
    return Episodes(**(fields | changed))


def many_episodes(num_episodes: int, num_achievements: int = 67, seed: int = 0) -> Episodes:
    random = np.random.default_rng(seed)
    rates = np.linspace(1, -0.2, num_achievements)
    achievements = random.random((num_episodes, num_achievements)) < rates
    return Episodes(
        env_name="Craftax-Symbolic-v1",
        returns=achievements.sum(1) + random.normal(size=num_episodes),
        lengths=random.integers(20, 900, num_episodes),
        deepest_floor=random.integers(0, 4, num_episodes),
        achievements=achievements,
        terminated=random.random(num_episodes) < 0.9,
        seeds=np.arange(num_episodes, dtype=np.uint64),
        achievement_names=tuple(f"defeat_fire_elemental_{number}" for number in range(num_achievements)),
        max_return=226.0,
    )
