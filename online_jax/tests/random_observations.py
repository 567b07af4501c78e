"""Packed observations drawn at random, for what must hold of any."""

from __future__ import annotations

import numpy as np

from env_core.observation import EMPTY_MOB, Layout, Packed


def packed(
    layout: Layout, seed: int, dark: float = 0.3, crowd: str = "some", batch: int = 4, codes: int | None = None
) -> Packed:
    """Random observations [batch]; with the crowd "all", every mob slot is used, several on one tile among them.

    `codes`: so many of the tiles' codes occur, all by default.
    """
    random = np.random.default_rng(seed)
    tile = random.integers(1, codes or layout.codes, (batch, layout.tiles)).astype(np.uint8)
    tile[random.random(tile.shape) < dark] = 0
    mob = np.full((batch, layout.mob_slots), EMPTY_MOB, np.uint16)
    for row in mob:
        count = {"none": 0, "some": random.integers(layout.mob_slots), "all": layout.mob_slots}[crowd]
        within = layout.mob_channels * (layout.tiles if random.random() < 0.5 else 4)
        row[:count] = np.sort(random.choice(within, count, replace=False))
    return Packed(tile, mob, random.standard_normal((batch, layout.scalars)).astype(np.float32))
