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
    words = run(lambda k, c: tl.philox(*_unpack(k, 2), *_unpack(c, 4)), *_arrays(key, counter))
    assert tuple(map(int, words)) == expected


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_known_answers_fold(counter: Any, key: Any, expected: Any) -> None:
    with build_function("k", [("out", Ptr[u32])]) as f:
        for i, word in enumerate(tl.philox(*key, *counter)):
            tl.store(f.arguments[0] + i, word)
    assert {op.opcode for op in f.function.body.ops} <= {"const", "addptr", "store"}
    out = np.zeros(4, np.uint32)
    interpret(f.function, (1,), [out])
    assert tuple(map(int, out)) == expected


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
    expected = run(lambda o: tl.philox(7, 0, o, o - 5, 0, 0)[0], np.uint32([5, 5]))
    shifted = run(lambda o: tl.philox(7, 0, 5, o, 0, 0)[0], np.uint32([0, 1]))
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
