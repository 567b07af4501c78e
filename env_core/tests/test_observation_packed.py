from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from env_core.errors import ObservationError
from env_core.observation import (
    CLASSIC,
    CRAFTAX,
    EMPTY_MOB,
    Bits,
    Layout,
    Packed,
    decode,
    decode_bits,
    encode,
    encode_bits,
)

BOTH = pytest.mark.parametrize("layout", [CRAFTAX, CLASSIC], ids=lambda layout: layout.name)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def mobs_of(codes: list[int], layout: Layout) -> np.ndarray:
    return np.array(sorted(codes) + [EMPTY_MOB] * (layout.mob_slots - len(codes)), np.uint16)


@st.composite
def packed(draw: st.DrawFn, layout: Layout) -> Packed:
    count = draw(st.integers(0, 3))
    darkest = 0 if layout.has_light else 1
    tile = draw(arrays(np.uint8, (count, layout.tiles), elements=st.integers(darkest, layout.codes - 1)))
    code = st.integers(0, layout.tiles * layout.mob_channels - 1)
    mob = [mobs_of(draw(st.lists(code, max_size=layout.mob_slots, unique=True)), layout) for _ in range(count)]
    scalar = draw(arrays(np.float32, (count, layout.scalars), elements=st.floats(width=32)))
    return Packed(tile, np.array(mob, np.uint16).reshape(count, layout.mob_slots), scalar)


def example(layout: Layout, count: int = 1) -> Packed:
    rng = np.random.default_rng(0)
    tile = rng.integers(1, layout.codes, (count, layout.tiles), dtype=np.uint8)
    mob = np.tile(mobs_of([5, 70, 71, 200], layout), (count, 1))
    return Packed(tile, mob, rng.random((count, layout.scalars), dtype=np.float32))


@BOTH
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_is_decoded_encodes_to_the_same(layout: Layout, data: st.DataObject) -> None:
    given_ = data.draw(packed(layout))
    for ours, theirs in zip(encode(decode(given_, layout), layout), given_, strict=True):
        assert same_bits(ours, theirs)


def test_decode_by_hand() -> None:
    """Stone with a torch on tile 2 under a cow and a player's arrow; the rest is dark."""
    tile = np.zeros(99, np.uint8)
    tile[2] = 1 + 4 * 5 + 1
    cow, arrow = CRAFTAX.mobs.index("cow"), CRAFTAX.mobs.index("player_arrow")
    scalar = np.arange(51, dtype=np.float32)
    obs = decode(Packed(tile, mobs_of([80 + cow, 80 + arrow], CRAFTAX), scalar), CRAFTAX)
    lit = 2 * 83
    assert np.flatnonzero(obs[:8217]).tolist() == [lit + 4, lit + 38, lit + 42 + 8, lit + 42 + 32, lit + 82]
    assert obs[8217:].tolist() == list(range(51))


@BOTH
def test_leading_axes_are_free(layout: Layout) -> None:
    flat = example(layout, 6)
    boxed = Packed(*(part.reshape(2, 3, -1) for part in flat))
    assert same_bits(decode(boxed, layout).reshape(6, -1), decode(flat, layout))
    assert all(part.shape[:2] == (2, 3) for part in encode(decode(boxed, layout), layout))
    single = Packed(*(part[0] for part in flat))
    assert decode(single, layout).shape == (layout.size,)
    assert all(part.ndim == 1 for part in encode(decode(single, layout), layout))
    none = Packed(*(part[:0] for part in flat))
    assert encode(decode(none, layout), layout).tile.shape == (0, layout.tiles)


@BOTH
def test_many_rows_and_a_given_buffer(layout: Layout) -> None:
    """More rows than are worked on at once, into a buffer that held something else."""
    many = example(layout, 500)
    out = np.full((500, layout.size), 7, np.float32)
    assert decode(many, layout, out) is out
    assert all(same_bits(a, b) for a, b in zip(encode(out, layout), many, strict=True))


def test_a_view_with_gaps_is_encoded_as_it_reads() -> None:
    obs = decode(example(CRAFTAX, 4), CRAFTAX)
    wide = np.repeat(obs, 2, axis=0)[::2]
    assert same_bits(encode(wide, CRAFTAX).tile, encode(obs, CRAFTAX).tile)


def lit_tile(tile: int) -> slice:
    return slice(tile * 83, (tile + 1) * 83)


def two_blocks(obs: np.ndarray) -> None:
    obs[lit_tile(14)] = 0
    obs[lit_tile(14)][[2, 4, 37, 82]] = 1


def light_alone(obs: np.ndarray) -> None:
    obs[lit_tile(14)] = 0
    obs[lit_tile(14)][82] = 1


def no_item(obs: np.ndarray) -> None:
    obs[lit_tile(14)] = 0
    obs[lit_tile(14)][[4, 82]] = 1


def no_light(obs: np.ndarray) -> None:
    obs[lit_tile(14)][82] = 0


def fifteen_mobs(obs: np.ndarray) -> None:
    obs[:8217].reshape(99, 83)[:15, 42] = 1
    obs[:8217].reshape(99, 83)[:, 43:82] = 0
    obs[:8217].reshape(99, 83)[15:, 42] = 0


def put(value: float) -> Callable[[np.ndarray], None]:
    def change(obs: np.ndarray) -> None:
        obs[14 * 83 + 42] = value

    return change


PLACE = "observation 100, tile 14 (row 1, column 3)"
BAD = [
    (two_blocks, f"{PLACE} shows block grass, block stone, item none, light"),
    (light_alone, f"{PLACE} shows light: "),
    (no_item, f"{PLACE} shows block stone, light: "),
    (no_light, "light with one block and one item"),
    (fifteen_mobs, "observation 100 shows 15 mobs: craftax_symbolic/1 has room for 14"),
    (put(0.5), f"{PLACE}, mob zombie is 0.5: a map value is 0.0 or 1.0"),
    (put(np.nan), f"{PLACE}, mob zombie is nan"),
    (put(-0.0), f"{PLACE}, mob zombie is -0.0"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message[-30:] for _, message in BAD])
def test_what_is_no_observation_is_refused_where_it_stands(change: Callable[[np.ndarray], None], message: str) -> None:
    obs = decode(example(CRAFTAX, 150), CRAFTAX)
    change(obs[100])
    with pytest.raises(ObservationError) as caught:
        encode(obs, CRAFTAX)
    assert message in str(caught.value)


def test_classic_has_no_dark() -> None:
    obs = decode(example(CLASSIC), CLASSIC)
    obs[0, :21] = 0
    with pytest.raises(ObservationError, match=r"tile 0 \(row 0, column 0\) shows nothing.*exactly one block"):
        encode(obs, CLASSIC)


@pytest.mark.parametrize(
    "obs", [np.zeros((2, 8268)), np.zeros((2, 8267), np.float32), np.float32(1)], ids=["float64", "short", "scalar"]
)
def test_other_shapes_and_types_are_refused(obs: np.ndarray) -> None:
    with pytest.raises(ObservationError, match=r"packs float32 \[\.\.\., 8268\], not"):
        encode(np.asarray(obs), CRAFTAX)


def test_decode_refuses_what_it_cannot_mean() -> None:
    good = example(CRAFTAX)
    bad = {
        "tile code 186": good._replace(tile=np.full_like(good.tile, 186)),
        "mob code 3960": good._replace(mob=np.full_like(good.mob, 99 * 40)),
        "mob of craftax_symbolic/1 must be uint16": good._replace(mob=good.mob.astype(np.int32)),
        r"scalar of craftax_symbolic/1 must be float32 \[1, 51\]": good._replace(scalar=good.scalar[0]),
    }
    for message, given_ in bad.items():
        with pytest.raises(ObservationError, match=message):
            decode(given_, CRAFTAX)
    for out in (np.empty((1, 8268)), np.empty((2, 8268), np.float32), np.empty((1, 8268, 2), np.float32)[..., 0]):
        with pytest.raises(ObservationError, match="out must be C-contiguous float32"):
            decode(good, CRAFTAX, out)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), map_size=st.integers(0, 40), scalars=st.integers(0, 5), count=st.integers(0, 4))
def test_bits_are_exact_both_ways(data: st.DataObject, map_size: int, scalars: int, count: int) -> None:
    ones = data.draw(arrays(bool, (count, map_size)))
    rest = data.draw(arrays(np.float32, (count, scalars), elements=st.floats(width=32)))
    obs = np.concatenate([ones.astype(np.float32), rest], axis=1)
    bits = encode_bits(obs, map_size)
    assert bits.bits.shape == (count, -(-map_size // 8))
    assert same_bits(decode_bits(bits, map_size), obs)
    again = encode_bits(decode_bits(bits, map_size), map_size)
    assert same_bits(again.bits, bits.bits) and same_bits(again.scalar, bits.scalar)


def test_bits_by_hand() -> None:
    """The first value is the lowest bit of the first byte."""
    obs = np.array([1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0.25], np.float32)
    bits = encode_bits(obs, 10)
    assert bits.bits.tolist() == [0b10000001, 0b10] and bits.scalar.tolist() == [0.25]
    assert decode_bits(bits, 10).tolist() == obs.tolist()


def test_bits_refuse_other_values() -> None:
    obs = np.zeros((3, 12), np.float32)
    obs[1, 4] = 2
    with pytest.raises(ObservationError, match=r"observation 1, value 4 is 2\.0"):
        encode_bits(obs, 10)
    encode_bits(obs, 4)  # it is a scalar then
    with pytest.raises(ObservationError, match="map_size 13 does not fit"):
        encode_bits(obs, 13)
    good = encode_bits(obs, 4)
    with pytest.raises(ObservationError, match=r"bits must be uint8 \[\.\.\., 2\]"):
        decode_bits(good, 9)
    with pytest.raises(ObservationError, match="scalar must be float32 with the leading axes"):
        decode_bits(Bits(good.bits, good.scalar[0]), 4)


@BOTH
def test_bits_hold_what_the_packed_form_holds(layout: Layout) -> None:
    obs = decode(example(layout, 3), layout)
    assert same_bits(decode_bits(encode_bits(obs, layout.map_size), layout.map_size), obs)
