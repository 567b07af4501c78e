import subprocess
import sys

import numpy as np
import pytest

from env_core.observation import CLASSIC, CRAFTAX, Layout, layouts

SIZES = {
    # tiles, blocks, items, mob channels, channels, codes, scalars, map size, size, mob slots
    CRAFTAX: (99, 37, 5, 40, 83, 186, 51, 8217, 8268, 14),
    CLASSIC: (63, 17, 0, 4, 21, 18, 22, 1323, 1345, 11),
}
DIGESTS = {
    CRAFTAX: "1375128ae2abdb14421fdd17e8e5da731cacd374e78e0122017a4091e52c948c",
    CLASSIC: "e2823509108734571a18cdc59f34cb4527c665c2c07a0cc044da7c2bd7cee653",
}


@pytest.mark.parametrize("layout", SIZES, ids=lambda layout: layout.name)
def test_sizes(layout: Layout) -> None:
    assert SIZES[layout] == (
        layout.tiles,
        layout.num_blocks,
        layout.num_items,
        layout.mob_channels,
        layout.channels,
        layout.codes,
        layout.scalars,
        layout.map_size,
        layout.size,
        layout.mob_slots,
    )


@pytest.mark.parametrize("layout", SIZES, ids=lambda layout: layout.name)
def test_the_digest_changes_only_with_the_version(layout: Layout) -> None:
    """Recordings carry it. If this fails, the layout needs a new name (`…/2`), and the old one must stay."""
    assert layout.sha256 == DIGESTS[layout]


def test_layouts_by_name() -> None:
    assert layouts == {"craftax_symbolic/1": CRAFTAX, "craftax_classic_symbolic/1": CLASSIC}


@pytest.mark.parametrize("layout", SIZES, ids=lambda layout: layout.name)
def test_names_are_unique(layout: Layout) -> None:
    for names in (layout.blocks, layout.items, layout.mobs, layout.scalar_names):
        assert len(set(names)) == len(names)


def test_code_channels_of_craftax() -> None:
    table = CRAFTAX.code_channels
    assert table.shape == (186, 3)
    assert table[0].tolist() == [-1, -1, -1]  # dark
    assert table[1].tolist() == [0, 37, 82]  # invalid, none, light
    assert table[1 + 4 * 5 + 2].tolist() == [4, 39, 82]  # stone with a ladder down
    assert table[185].tolist() == [36, 41, 82]
    assert CRAFTAX.channel_name(4) == "block stone"
    assert CRAFTAX.channel_name(39) == "item ladder_down"
    assert CRAFTAX.channel_name(42) == "mob zombie"
    assert CRAFTAX.channel_name(82) == "light"


def test_code_channels_of_classic() -> None:
    table = CLASSIC.code_channels
    assert table.shape == (18, 1)
    assert table[:, 0].tolist() == [-1, *range(17)]
    assert CLASSIC.channel_name(20) == "mob arrow"


@pytest.mark.parametrize("layout", SIZES, ids=lambda layout: layout.name)
def test_code_bits_are_code_channels(layout: Layout) -> None:
    for code, channels in enumerate(layout.code_channels):
        assert np.flatnonzero(layout.code_bits[code]).tolist() == sorted(channels[channels >= 0].tolist())


def test_observations_load_no_game() -> None:
    script = "import sys, env_core.observation; print(sorted({'jax', 'craftax', 'torch', 'flax'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
