"""Symbolic observations without the game: their layout, and their lossless packed form (numpy only)."""

from env_core.observation.layout import CLASSIC, CRAFTAX, Layout, environment_layouts, layouts
from env_core.observation.packed import EMPTY_MOB, Bits, Packed, decode, decode_bits, encode, encode_bits

__all__ = [
    "CLASSIC",
    "CRAFTAX",
    "EMPTY_MOB",
    "Bits",
    "Layout",
    "Packed",
    "decode",
    "decode_bits",
    "encode",
    "encode_bits",
    "environment_layouts",
    "layouts",
]
