"""Transposing tiles in registers.

With every extent rounded up to a power of two, permuting axes permutes the bits of an element's
address: the low bits number lanes, the high bits vectors. A lane bit and a vector bit trade places
by one two-input shuffle for each vector: the butterfly of a 16x16 transpose is four such exchanges.
What then remains is one permutation within vectors, or none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from teeny_compiler.codegen.builder import Operand
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.layout import Indices, ceil_power, locate, pieces
from teeny_compiler.codegen.cpu.values import Tile, View

Vectors = list[Operand | None]  # None: no lane holds an element
Bit = tuple[int, int]  # axis, number of the bit


@dataclass(frozen=True, eq=False)
class Transposed(View):
    """The view of one tile with its axes permuted; all its pieces are made together."""

    order: tuple[int, ...]

    def _vector(self, c: Context, k: int) -> Operand:
        made = c.b.remember(self, lambda: transpose(c, self.sources[0], self.order))
        if made is None:
            return super()._vector(c, k)
        assert isinstance(made, tuple)
        vector: Operand = made[k]
        return vector


def transpose(c: Context, source: Tile, order: tuple[int, ...]) -> tuple[Operand, ...] | None:
    """Return the pieces of `source` with its axes permuted, None where no exchange of bits does."""
    padded = tuple(map(ceil_power, source.shape))
    lane_bits = (c.lanes - 1).bit_length()
    if lane_bits == 0 or math.prod(padded) <= c.lanes:
        return None
    shape = tuple(source.shape[axis] for axis in order)
    inward = _covering(source.shape, padded, c.lanes)
    outward = _covering(shape, tuple(padded[axis] for axis in order), c.lanes)
    if inward is None or outward is None:
        return None
    have = _bits(padded, range(len(padded)))
    want = _bits(tuple(padded[axis] for axis in order), order)
    vectors: Vectors = [
        None if piece is None else _widened(c, source.vector(c, piece)) for piece in inward
    ]
    for lane, other in _exchanges(have, want, lane_bits):
        vectors = _exchange(c, vectors, lane, other - lane_bits)
        have[lane], have[other] = have[other], have[lane]
    return _placed(c, vectors, have, want, outward, pieces(shape, c.lanes))


def _bits(padded: tuple[int, ...], axes: tuple[int, ...] | range) -> list[Bit]:
    """Return the address bits from the lowest on."""
    bits: list[Bit] = []
    for axis, extent in reversed(list(zip(axes, padded, strict=True))):
        bits.extend((axis, bit) for bit in range((extent - 1).bit_length()))
    return bits


def _covering(
    shape: tuple[int, ...], padded: tuple[int, ...], lanes: int
) -> list[int | None] | None:
    """Return the piece that each vector of the padded tile is, None if one is no piece."""
    index = np.indices(padded).reshape(len(padded), -1)
    inside = np.all([i < extent for i, extent in zip(index, shape, strict=True)], axis=0)
    flat = np.ravel_multi_index(tuple(np.minimum(index.T, np.array(shape) - 1).T), shape)
    piece_of, lane_of = locate(shape, lanes)
    result: list[int | None] = []
    for start in range(0, index.shape[1], lanes):
        span = slice(start, start + lanes)
        used: Indices = flat[span][inside[span]]
        if not used.size:
            result.append(None)
            continue
        same_piece = len(set(piece_of[used])) == 1
        if not same_piece or (lane_of[used] != np.arange(lanes)[inside[span]]).any():
            return None
        result.append(int(piece_of[used[0]]))
    return result


def _exchanges(have: list[Bit], want: list[Bit], lane_bits: int) -> list[tuple[int, int]]:
    """Choose the pairs (lane position, vector position) of bits that trade places."""
    needed = want[:lane_bits]
    outside = [bit for bit in needed if have.index(bit) >= lane_bits]
    free = [lane for lane in range(lane_bits) if have[lane] not in needed]
    chosen = []
    for lane in [lane for lane in free if needed[lane] in outside]:
        chosen.append((lane, have.index(needed[lane])))
        outside.remove(needed[lane])
        free.remove(lane)
    chosen.extend((lane, have.index(bit)) for lane, bit in zip(free, outside, strict=True))
    return chosen


def _exchange(c: Context, vectors: Vectors, lane_bit: int, vector_bit: int) -> Vectors:
    """Let bit `lane_bit` of the lane and bit `vector_bit` of the vector number trade places."""
    result = list(vectors)
    lanes, bit = c.lanes, 1 << lane_bit
    low = [lane if not lane & bit else lanes + lane - bit for lane in range(lanes)]
    high = [lane + bit if not lane & bit else lanes + lane for lane in range(lanes)]
    for first in range(len(vectors)):
        second = first | 1 << vector_bit
        if first == second:
            continue
        a, b = vectors[first], vectors[second]
        if a is None and b is None:
            continue
        filler = Operand((a or b).type, "poison")  # type: ignore[union-attr]
        a, b = a or filler, b or filler
        result[first], result[second] = c.b.shuffle(a, b, low), c.b.shuffle(a, b, high)
    return result


def _placed(
    c: Context,
    vectors: Vectors,
    have: list[Bit],
    want: list[Bit],
    outward: list[int | None],
    cut: tuple[object, ...],
) -> tuple[Operand, ...]:
    """Order the lanes within vectors, and the vectors."""
    lane_bits = (c.lanes - 1).bit_length()
    lane_source = [have.index(bit) for bit in want[:lane_bits]]
    vector_source = [have.index(bit) - lane_bits for bit in want[lane_bits:]]
    mask = [_scatter(lane, lane_source) for lane in range(c.lanes)]
    result: dict[int, Operand] = {}
    for number, piece in enumerate(outward):
        if piece is None:
            continue
        vector = vectors[_scatter(number, vector_source)]
        assert vector is not None
        width = cut[piece].width  # type: ignore[attr-defined]
        result[piece] = c.b.shuffle(vector, None, mask[:width])
    return tuple(result[piece] for piece in range(len(cut)))


def _scatter(number: int, positions: list[int]) -> int:
    """Move bit i of a number to position positions[i]."""
    return sum((number >> bit & 1) << position for bit, position in enumerate(positions))


def _widened(c: Context, vector: Operand) -> Operand:
    lanes = vector.type.lanes
    if lanes == c.lanes:
        return vector
    return c.b.shuffle(vector, None, [i if i < lanes else -1 for i in range(c.lanes)])
