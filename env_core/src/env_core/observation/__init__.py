"""Observations without the game: their layouts, and the lossless packed form of symbolic ones (numpy only)."""

from env_core.observation.layout import (
    CLASSIC,
    CRAFTAX,
    Layout,
    Pixels,
    environment_layouts,
    game_layouts,
    layouts,
    pixel_layouts,
)
from env_core.observation.packed import EMPTY_MOB, Bits, Packed, decode, decode_bits, encode, encode_bits

__all__ = [
    "CLASSIC",
    "CRAFTAX",
    "EMPTY_MOB",
    "Bits",
    "Layout",
    "Packed",
    "Pixels",
    "decode",
    "decode_bits",
    "encode",
    "encode_bits",
    "environment_layouts",
    "game_layouts",
    "layouts",
    "pixel_layouts",
]
