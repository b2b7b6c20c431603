"""Reductions along one axis, and dot products of register tiles.

Vectors of a row are combined whole first. What is left, one short row in each group of lanes, is
folded in half for all rows together: two vectors of rows give one of half rows, so that R rows of
W lanes take R - 1 folds and end in R/W vectors of results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from teeny_core import DType, f32, i32
from teeny_triton.ir import Op, Type

from teeny_compiler.codegen.arith import floating, integer
from teeny_compiler.codegen.builder import BITS, LType, Operand, constant, constants
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.elementwise import convert, mapped, rounded, wide
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.layout import Indices, ceil_power, locate, pieces
from teeny_compiler.codegen.cpu.load import Loaded
from teeny_compiler.codegen.cpu.place import permuted
from teeny_compiler.codegen.cpu.types import Element, is_narrow, register_scalar
from teeny_compiler.codegen.cpu.values import Computed, Index, Registers, Tile, Uniform

Lanes = tuple[Operand, ...]  # vectors that are shuffled alike: values, or values and indices
Combine = Callable[[Lanes, Lanes], Lanes]


@dataclass(frozen=True)
class Reduction:
    """How two partial results combine, and the scalar that changes none."""

    combine: Combine
    neutral: tuple[float | int, ...]


def reduce(e: Emitter, op: Op) -> None:
    """Emit `reduce`."""
    c, axis, kind = e.c, op.attrs["axis"], op.attrs["kind"]
    tile, shape = e.tile(op.operands[0]), op.operands[0].type.shape
    element = tile.element
    assert isinstance(element, DType)
    inputs = [_Widened(c, tile)]
    if kind.startswith("arg"):
        inputs.append(_Widened(c, _numbers(shape, axis)))
    rule = _reduction(c, kind, element)
    out = op.result.type
    order = (*(a for a in range(len(shape)) if a != axis), axis)
    columns = _columns(shape, axis, c.lanes)
    if columns is not None:
        vectors = [
            _tree((tuple(x.vector(k) for x in inputs) for k in column), rule.combine)
            for column in columns
        ]
    elif axis == 0 and _is_flat(shape, c.lanes):
        count = len(c.pieces(shape))
        whole = _tree((tuple(x.vector(k) for x in inputs) for k in range(count)), rule.combine)
        vectors = [_folded(c, whole, math.prod(shape[1:]), rule.combine)]
    else:
        turned = [x.permuted(order) for x in inputs]
        vectors = _rows(c, turned, tuple(shape[a] for a in order), rule)
        flat = Registers((out.size,), _wide_element(out.element), _lasts(vectors))
        _define(e, op, flat.moved(c, out.shape, np.arange(out.size)))
        return
    _define(e, op, Registers(out.shape, _wide_element(out.element), _lasts(vectors)))


def _lasts(vectors: Sequence[Lanes]) -> tuple[Operand, ...]:
    """Return the wanted results: indices where there are any, else values."""
    return tuple(lanes[-1] for lanes in vectors)


def _define(e: Emitter, op: Op, tile: Tile) -> None:
    """Define the result, rounded to its element type."""
    c, kind = e.c, op.result.type
    if not kind.shape:
        value = rounded(c, tile.item(c, 0), kind.element)
        e.define(op.result, Uniform((), kind.element, value))
    elif is_narrow(kind.element):
        e.define(op.result, mapped(c, kind, (tile,), lambda x: rounded(c, x, kind.element)))
    else:
        e.define(op.result, tile)


def _wide_element(element: Element) -> Element:
    return f32 if is_narrow(element) else element


@dataclass(frozen=True)
class _Widened:
    """A tile whose narrow floats are read as f32."""

    c: Context
    tile: Tile

    @property
    def scalar(self) -> str:
        return register_scalar(_wide_element(self.tile.element))

    def vector(self, k: int) -> Operand:
        return wide(self.c, self.tile.vector(self.c, k), self.tile.element)

    def permuted(self, order: tuple[int, ...]) -> _Widened:
        return _Widened(self.c, permuted(self.c, self.tile, order))


def _numbers(shape: tuple[int, ...], axis: int) -> Tile:
    """Return the position of each element along an axis."""
    from teeny_compiler.codegen.cpu.linear import static

    extents = tuple(extent if a == axis else 1 for a, extent in enumerate(shape))
    return Index(shape, i32, static(shape, np.arange(shape[axis]).reshape(extents)))


def _columns(shape: tuple[int, ...], axis: int, lanes: int) -> list[list[int]] | None:
    """Return the pieces to combine for each piece of the result, where whole pieces combine."""
    if axis == len(shape) - 1:
        return None
    index = np.moveaxis(np.arange(math.prod(shape)).reshape(shape), axis, -1)
    index = index.reshape(-1, shape[axis])
    out = (*shape[:axis], *shape[axis + 1 :])
    piece_of, lane_of = locate(shape, lanes)
    cut = pieces(shape, lanes)
    columns = []
    for piece in pieces(out, lanes):
        flats = index[piece.start : piece.start + piece.count]
        found = piece_of[flats]
        order = np.arange(piece.count)[:, None]
        whole = (found == found[0]).all() and (lane_of[flats] == order).all()
        if not whole or any(cut[k].width != piece.width for k in found[0]):
            return None
        columns.append([int(k) for k in found[0]])
    return columns


def _is_flat(shape: tuple[int, ...], lanes: int) -> bool:
    """Whether a tile is whole vectors, each of whole slices along the first axis."""
    rest = math.prod(shape[1:])
    return math.prod(shape) % lanes == 0 and rest < lanes and rest & (rest - 1) == 0


def _tree(parts: Iterable[Lanes], combine: Combine) -> Lanes:
    """Combine parts pairwise as they come, so that few wait: one for each power of two."""
    waiting: list[tuple[int, Lanes]] = []
    for part in parts:
        size = 1
        while waiting and waiting[-1][0] == size:
            part = combine(waiting.pop()[1], part)
            size *= 2
        waiting.append((size, part))
    result = waiting.pop()[1]
    while waiting:
        result = combine(waiting.pop()[1], result)
    return result


def _folded(c: Context, lanes: Lanes, width: int, combine: Combine) -> Lanes:
    """Combine the halves of a vector until `width` lanes are left."""
    while lanes[0].type.lanes > width:
        half = lanes[0].type.lanes // 2
        low = tuple(c.b.shuffle(x, None, range(half)) for x in lanes)
        high = tuple(c.b.shuffle(x, None, range(half, 2 * half)) for x in lanes)
        lanes = combine(low, high)
    return lanes


def _rows(
    c: Context, inputs: Sequence[_Widened], shape: tuple[int, ...], rule: Reduction
) -> list[Lanes]:
    """Reduce the last axis; return the results as flat vectors."""
    length = shape[-1]
    rows = math.prod(shape[:-1])
    if c.lanes % length == 0 and length < c.lanes:
        count = len(c.pieces(shape))
        vectors = [tuple(x.vector(k) for x in inputs) for k in range(count)]
        if count > 1:
            vectors[-1] = tuple(_widened(c, x) for x in vectors[-1])
        width = length
    else:
        per_row = len(c.pieces(shape)) // rows
        vectors = [
            _row(c, inputs, range(row * per_row, (row + 1) * per_row), shape, rule)
            for row in range(rows)
        ]
        width = vectors[0][0].type.lanes
    vectors = _packed(c, vectors)
    while width > 1:
        vectors = _halved(c, vectors, width, rule.combine)
        width //= 2
    last = ceil_power((rows - 1) % c.lanes + 1)
    vectors[-1] = tuple(c.b.shuffle(x, None, range(last)) for x in vectors[-1])
    return vectors


def _widened(c: Context, vector: Operand) -> Operand:
    """Add undefined lanes up to a whole vector."""
    lanes = vector.type.lanes
    return c.b.shuffle(vector, None, [i if i < lanes else -1 for i in range(c.lanes)])


def _row(
    c: Context, inputs: Sequence[_Widened], ks: range, shape: tuple[int, ...], rule: Reduction
) -> Lanes:
    """Combine the pieces of one row to a vector, with neutral lanes past its elements."""
    width = min(c.lanes, ceil_power(shape[-1]))

    def part(k: int) -> Lanes:
        count = c.pieces(shape)[k].count
        return tuple(
            _filled(c, x.vector(k), count, constant(LType(x.scalar, width), neutral))
            for x, neutral in zip(inputs, rule.neutral, strict=True)
        )

    return _tree(map(part, ks), rule.combine)


def _filled(c: Context, vector: Operand, count: int, filler: Operand) -> Operand:
    """Return the first `count` lanes of a vector, and those of `filler` behind."""
    width = filler.type.lanes
    if count == width:
        return vector
    spread = [lane if lane < count else -1 for lane in range(width)]
    inside = constants("i1", [lane < count for lane in range(width)])
    return c.b.select(inside, c.b.shuffle(vector, None, spread), filler)


def _packed(c: Context, vectors: list[Lanes]) -> list[Lanes]:
    """Put neighbours end to end as long as two fit in a vector."""
    while len(vectors) > 1 and 2 * vectors[0][0].type.lanes <= c.lanes:
        width = vectors[0][0].type.lanes
        if len(vectors) % 2:
            vectors = [*vectors, tuple(Operand(x.type, "poison") for x in vectors[0])]
        vectors = [
            tuple(c.b.shuffle(x, y, range(2 * width)) for x, y in zip(a, b, strict=True))
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors


def _halved(c: Context, vectors: list[Lanes], width: int, combine: Combine) -> list[Lanes]:
    """Fold each group of `width` lanes in half; two vectors become one."""
    if len(vectors) % 2 and len(vectors) > 1:
        vectors = [*vectors, tuple(Operand(x.type, "poison") for x in vectors[0])]
    pairs: list[tuple[Lanes, Lanes | None]] = (
        [(vectors[0], None)]
        if len(vectors) == 1
        else list(zip(vectors[::2], vectors[1::2], strict=True))
    )
    result = []
    for a, b in pairs:
        lanes = a[0].type.lanes * (1 if b is None else 2)
        low = [lane for lane in range(lanes) if lane % width < width // 2]
        high = [lane + width // 2 for lane in low]
        others: Sequence[Operand | None] = b if b is not None else [None] * len(a)
        halves = [
            tuple(c.b.shuffle(x, y, picks) for x, y in zip(a, others, strict=True))
            for picks in (low, high)
        ]
        result.append(combine(halves[0], halves[1]))
    return result


# -- kinds


def _reduction(c: Context, kind: str, element: DType) -> Reduction:
    if kind.startswith("arg"):
        return _extreme_index(c, kind == "argmax", element)
    low, high = (-math.inf, math.inf) if element.is_float else (element.min, element.max)
    neutral: Mapping[str, float | int] = {
        "sum": -0.0 if element.is_float else 0,
        "prod": 1,
        "max": low,
        "min": high,
        "xor_sum": 0,
    }
    opcode = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "xor_sum": "xor"}
    signed = element.kind == "int"

    def combine(a: Lanes, b: Lanes) -> Lanes:
        if element.is_float:
            return (floating.BINARY[opcode[kind]](c.b, c.target, a[0], b[0]),)
        return (integer.BINARY[opcode[kind]](c.b, a[0], b[0], signed),)

    return Reduction(combine, (neutral[kind],))


def _extreme_index(c: Context, largest: bool, element: DType) -> Reduction:
    """Keep the better value with its index; NaN is best, equals go by the lower index."""
    b = c.b
    if element.is_float:
        wins = "fcmp ogt" if largest else "fcmp olt"
        neutral = -math.inf if largest else math.inf
    else:
        sign = "s" if element.kind == "int" else "u"
        wins = f"icmp {sign}gt" if largest else f"icmp {sign}lt"
        neutral = element.min if largest else element.max

    def combine(x: Lanes, y: Lanes) -> Lanes:
        better = b.compare(wins, y[0], x[0])
        same = b.compare("fcmp oeq" if element.is_float else "icmp eq", x[0], y[0])
        if element.is_float:
            x_nan, y_nan = (b.compare("fcmp uno", v, v) for v in (x[0], y[0]))
            not_x = b.binary("xor", x_nan, constant(x_nan.type, True))
            better = b.binary("and", not_x, b.binary("or", better, y_nan))
            same = b.binary("or", same, b.binary("and", x_nan, y_nan))
        earlier = b.compare("icmp slt", y[1], x[1])
        take = b.binary("or", better, b.binary("and", same, earlier))
        return b.select(take, y[0], x[0]), b.select(take, y[1], x[1])

    return Reduction(combine, (neutral, (1 << (BITS["i32"] - 1)) - 1))


# -- dot


def dot(e: Emitter, op: Op) -> None:
    """Emit `dot` of register tiles as rank-1 updates of the accumulator."""
    c, kind = e.c, op.result.type
    a, b, acc = map(e.tile, op.operands)
    element = kind.element
    assert isinstance(element, DType)
    a, b = (_as(c, tile, element) for tile in (a, b))
    depth = a.shape[1]
    columns = b.shape[1]
    vectors = [acc.vector(c, k) for k in range(len(c.pieces(kind.shape)))]
    at = np.indices(kind.shape)
    for k in range(depth):
        left = a.moved(c, kind.shape, _flat(at[0] * depth + k))
        right = b.moved(c, kind.shape, _flat(at[1] + k * columns))
        for n, vector in enumerate(vectors):
            x, y = left.vector(c, n), right.vector(c, n)
            vectors[n] = _multiply_add(c, x, y, vector)
    e.define(op.result, Registers(kind.shape, element, tuple(vectors)))


def _flat(index: Indices) -> Indices:
    return index.reshape(-1)


def _as(c: Context, tile: Tile, element: DType) -> Tile:
    """Convert a factor to the type of the accumulator."""
    source = tile.element
    assert isinstance(source, DType)
    kind = Type(tile.shape, element)
    if source == element:
        return tile
    repeated = isinstance(tile, Loaded | Computed) and tile.as_items
    return mapped(c, kind, (tile,), lambda x: convert(c, x, source, element), repeated)


def _multiply_add(c: Context, x: Operand, y: Operand, z: Operand) -> Operand:
    if not x.type.scalar.startswith("i"):
        if floating.has_fma(c.target):
            return c.b.intrinsic("fma", x, y, z)
        return c.b.binary("fadd contract", c.b.binary("fmul contract", x, y), z)
    return c.b.binary("add", c.b.binary("mul", x, y), z)


EMITTERS: Mapping[str, EmitOp] = {"reduce": reduce, "dot": dot}
