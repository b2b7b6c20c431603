"""Random numbers: published vectors, the core's own Philox, and uniformity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import internal
from teeny_triton import Ptr, Tile, build_function, interpret, u32

Run = Any

# Random123, kat_vectors, philox4x32 with 10 rounds: counter, key, result.
VECTORS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers(run: Run, counter: Any, key: Any, expected: Any) -> None:
    words = run(lambda k, c: tl.philox_impl(*_unpack(c, 4), *_unpack(k, 2)), *_arrays(key, counter))
    assert tuple(map(int, words)) == expected


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers_fold(counter: Any, key: Any, expected: Any) -> None:
    with build_function("k", [("out", Ptr[u32])]) as f:
        for i, word in enumerate(tl.philox_impl(*counter, *key)):
            tl.store(f.arguments[0] + i, word)
    assert {op.opcode for op in f.function.body.ops} <= {"const", "addptr", "store"}
    out = np.zeros(4, np.uint32)
    interpret(f.function, (1,), [out])
    assert tuple(map(int, out)) == expected


# Random123, kat_vectors, philox4x64 with 10 rounds.
WIDE = [
    (
        (0,) * 4,
        (0,) * 2,
        (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
    ),
    (
        (2**64 - 1,) * 4,
        (2**64 - 1,) * 2,
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), WIDE)
def test_known_answers_of_64_bits(run: Run, counter: Any, key: Any, expected: Any) -> None:
    words = run(
        lambda k, c: tl.philox_impl(*_unpack(c, 4), *_unpack(k, 2)),
        np.array(key, np.uint64),
        np.array(counter, np.uint64),
    )
    assert tuple(map(int, words)) == expected
    if key[1] == 0:
        got = run(lambda c: tl.philox(key[0], *_unpack(c, 4)), np.array(counter, np.uint64))
        assert tuple(map(int, got)) == expected


def test_uniform_numbers(run: Run) -> None:
    """The extremes of the signed numbers that the bits are read as, folded at -1."""
    bits = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0x40000000], np.uint32)
    folded = np.array([0, 1, 2**31 - 1, 2**31 - 1, 0, 0x40000000], np.float32)
    expected = folded * np.float32(4.6566127342e-10)
    got = run(tl.uint_to_uniform_float, bits)
    np.testing.assert_array_equal(got, expected)
    assert got.max() < 1
    wide = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    got = run(tl.uint_to_uniform_float, wide)
    most = np.float32(2**63) * np.float32(1.0842020432385337e-19)
    np.testing.assert_array_equal(got, [0, most, most, 0])
    assert most < 1


def test_normal_numbers(run: Run) -> None:
    """Box and Muller in f64, of the same uniform numbers."""
    offsets = np.arange(200, dtype=np.int64) + 2**33
    uniform = run(lambda o: tl.rand4x(11, o), offsets)
    found = run(lambda o: (*tl.randn4x(11, o), tl.randn(11, o)), offsets)
    for first in (0, 2):
        u1, u2 = (u.astype(np.float64) for u in uniform[first : first + 2])
        radius = np.sqrt(-2 * np.log(np.maximum(u1, 1e-7)))
        wanted = radius * np.cos(2 * np.pi * u2), radius * np.sin(2 * np.pi * u2)
        np.testing.assert_allclose(found[first], wanted[0], rtol=2e-6, atol=2e-6)
        np.testing.assert_allclose(found[first + 1], wanted[1], rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(found[4], found[0])


def test_matches_the_core(run: Run) -> None:
    offsets = np.arange(50, dtype=np.int32)
    seed = 0x1234_5678_9ABC
    words = run(lambda offset: tl.randint4x(seed, offset), offsets)
    counter = np.zeros((4, 50), np.uint32)
    counter[0] = offsets
    key = (seed & 0xFFFFFFFF, seed >> 32)
    expected = internal.philox(tuple(counter), key)
    for word, reference in zip(words, expected, strict=True):
        np.testing.assert_array_equal(word, reference)


def test_wide_offsets_and_run_time_seeds(run: Run) -> None:
    offset, seed = np.int64([5, 2**32 + 5]), np.int64(7)
    got = run(lambda s, o: tl.randint(s, o), seed, offset)
    expected = run(lambda o: tl.philox(7, o, o - 5, 0, 0)[0], np.uint32([5, 5]))
    shifted = run(lambda o: tl.philox(7, o * 0 + 5, o, 0, 0)[0], np.uint32([0, 1]))
    assert got[0] == expected[0] == shifted[0]
    assert got[1] == shifted[1]


def test_rand_and_randn_are_distributed(run: Run) -> None:
    offsets = np.arange(20_000, dtype=np.int32)
    uniform, normal = run(lambda o: (tl.rand(3, o), tl.randn(3, o)), offsets)
    assert uniform.dtype == normal.dtype == np.float32
    assert uniform.min() >= 0
    assert uniform.max() < 1
    counts, _ = np.histogram(uniform, 20, (0, 1))
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-squared, 19 degrees, p = 0.001
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.02


def _unpack(x: Tile, count: int) -> list[Tile]:
    """The elements of a small tile, by masks."""
    place = tl.arange(0, count)
    return [tl.sum(tl.where(place == i, x, 0)) for i in range(count)]


def _arrays(*values: Any) -> list[np.ndarray]:
    return [np.array(value, np.uint32) for value in values]
