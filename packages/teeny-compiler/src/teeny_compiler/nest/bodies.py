"""Plain loop nests for template ops: the general path, for any strides, types and attributes.

A body says over which index space an op is a reduction of elementwise work, and emits that work
through the reader of the group; fusion of an epilogue, loops and lanes are the generator's. The
kernels of a library are faster where they apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from teeny_core import Attrs, Dim, DType, Shape, bool_, i64

from teeny_compiler.fxgraph import FXGraph, FxNode
from teeny_compiler.nest.nest import Instruction
from teeny_compiler.nest.view import Guard, View


class Writer(Protocol):
    """What a body sees of the reader of its group, whose index space is `domain`."""

    @property
    def domain(self) -> Shape:
        """The index space."""

    def emit(self, instruction: Instruction) -> int:
        """Add an instruction and return its number."""

    def element(self, operand: int, index: Sequence[Affine]) -> int:
        """Load the element of operand number `operand` at an affine index of each axis."""

    def picked(self, operand: int, index: Sequence[Affine], at: Mapping[int, int]) -> int:
        """Load an element with the index of some axes given by instructions."""


@dataclass(frozen=True)
class Affine:
    """`offset + Σ factors·index` over the axes of a domain, given by number."""

    factors: tuple[tuple[int, Dim], ...] = ()
    offset: Dim = 0

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.factors, self.offset + other)
        return Affine(self.factors + other.factors, self.offset + other.offset)

    def __mul__(self, factor: Dim) -> Affine:
        return Affine(tuple((k, f * factor) for k, f in self.factors), self.offset * factor)

    def strides(self, rank: int) -> Shape:
        """Return the factor of each axis."""
        found: list[Dim] = [0] * rank
        for axis, factor in self.factors:
            found[axis] = found[axis] + factor
        return tuple(found)


def axes(first: int, count: int) -> tuple[Affine, ...]:
    """Return the indices of some consecutive axes of the domain."""
    return tuple(Affine(((k, 1),)) for k in range(first, first + count))


def access(domain: Shape, view: Shape, offset: Dim, shape: Shape, index: Sequence[Affine]) -> View:
    """Return the view of an operand with strides `view` at an index of each of its axes."""
    rank = len(domain)
    strides: list[Dim] = [0] * rank
    guards = []
    for place, stride, extent in zip(index, view, shape, strict=True):
        row = place.strides(rank)
        strides = [have + stride * factor for have, factor in zip(strides, row, strict=True)]
        offset = offset + stride * place.offset
        guards.append(Guard(row, place.offset, extent))
    return View(domain, tuple(strides), (1,) * rank, offset, tuple(guards)).simplified()


@dataclass(frozen=True)
class Body:
    """An op as work over `domain`, folded over its last `folded` axes by what `emit` emits."""

    domain: Shape
    folded: int
    emit: Callable[[Writer], int]

    @property
    def reduced(self) -> tuple[int, ...]:
        """The folded axes."""
        return tuple(range(len(self.domain) - self.folded, len(self.domain)))


def body_of(graph: FXGraph, number: int) -> Body | None:
    """Return the body of a template node, or None for an op that is no such reduction."""
    node = graph.nodes[number]
    make = _BODIES.get(node.op)
    return None if make is None else make(node, *(graph.nodes[i] for i in node.inputs))


def _matmul(node: FxNode, a: FxNode, b: FxNode) -> Body:
    rank = len(node.shape)
    swap_a, swap_b = node.attrs["transpose_a"], node.attrs["transpose_b"]
    *batch, row, column, inner = axes(0, rank + 1)
    left = (*batch, inner, row) if swap_a else (*batch, row, inner)
    right = (*batch, column, inner) if swap_b else (*batch, inner, column)
    depth = a.shape[-2] if swap_a else a.shape[-1]
    return Body(
        (*node.shape, depth), 1, lambda w: _dot(w, node.dtype, left, right, (a.dtype, b.dtype))
    )


def _dot(
    w: Writer,
    dtype: DType,
    left: Sequence[Affine],
    right: Sequence[Affine],
    kinds: tuple[DType, DType] | None = None,
) -> int:
    """Sum of products of factors of some kinds, in the type in which sums are held."""
    wide = dtype.accumulator
    factors = tuple(
        _cast(w, w.element(k, index), kind, wide)
        for k, (index, kind) in enumerate(zip((left, right), kinds or (dtype, dtype), strict=True))
    )
    product = w.emit(Instruction("mul", factors, wide))
    return w.emit(Instruction("sum", (product,), dtype))


def _conv2d(node: FxNode, x: FxNode, weight: FxNode) -> Body:
    batch, outputs, height, width = node.shape
    groups = node.attrs["groups"]
    channels, kh, kw = weight.shape[1:]
    domain = (batch, groups, outputs // groups, height, width, channels, kh, kw)
    n, g, o, y, x_, c, i, j = axes(0, 8)
    source = (n, g * channels + c, *_taps(node.attrs, (y, x_), (i, j)))
    filters = (g * (outputs // groups) + o, c, i, j)
    return Body(domain, 3, lambda w: _dot(w, node.dtype, source, filters))


def _conv2d_grad_weight(node: FxNode, x: FxNode, dy: FxNode) -> Body:
    outputs, channels, kh, kw = node.shape
    groups = node.attrs["groups"]
    batch, _, height, width = dy.shape
    domain = (groups, outputs // groups, channels, kh, kw, batch, height, width)
    g, o, c, i, j, n, y, x_ = axes(0, 8)
    source = (n, g * channels + c, *_taps(node.attrs, (y, x_), (i, j)))
    grads = (n, g * (outputs // groups) + o, y, x_)
    return Body(domain, 3, lambda w: _dot(w, node.dtype, source, grads))


def _conv2d_grad_input(node: FxNode, dy: FxNode, weight: FxNode) -> Body:
    batch, _, height, width = node.shape
    groups = node.attrs["groups"]
    outputs, channels, kh, kw = weight.shape
    each = outputs // groups
    domain = (batch, groups, channels, height, width, each, kh, kw)
    n, g, c, y, x_, o, i, j = axes(0, 8)
    wide = node.dtype.accumulator

    def emit(w: Writer) -> int:
        back = _back(w, node.attrs, (y, x_), (i, j))
        grad = _through(w, 0, (n, g * each + o, Affine(), Affine()), back, node.dtype)
        factor = w.element(1, (g * each + o, c, i, j))
        parts = (_cast(w, grad, node.dtype, wide), _cast(w, factor, node.dtype, wide))
        return _sum(w, w.emit(Instruction("mul", parts, wide)), node.dtype)

    return Body(domain, 3, emit)


def _max_pool2d(node: FxNode, x: FxNode) -> Body:
    domain = (*node.shape, *node.attrs["kernel"])
    n, c, y, x_, i, j = axes(0, 6)
    place = (n, c, *_taps(node.attrs, (y, x_), (i, j)))
    dtype = node.dtype
    lowest = -math.inf if dtype.is_float else dtype.min

    def emit(w: Writer) -> int:
        value = w.element(0, place)
        spread = access(domain, (0, 0, 0, 0), 0, x.shape, place)
        if spread.guards:
            inside = w.emit(Instruction("inside", (), bool_, view=spread))
            worst = _constant(w, lowest, dtype)
            value = w.emit(Instruction("where", (inside, value, worst), dtype))
        return w.emit(Instruction("max", (value,), dtype))

    return Body(domain, 2, emit)


def _avg_pool2d(node: FxNode, x: FxNode) -> Body:
    domain = (*node.shape, *node.attrs["kernel"])
    n, c, y, x_, i, j = axes(0, 6)
    place = (n, c, *_taps(node.attrs, (y, x_), (i, j)))
    wide = node.dtype.accumulator

    def emit(w: Writer) -> int:
        total = _sum(w, _cast(w, w.element(0, place), node.dtype, wide), wide)
        places = (_index(w, domain, y), _index(w, domain, x_))
        mean = w.emit(
            Instruction("div", (total, _count(w, node.attrs, x.shape, places, wide)), wide)
        )
        return _cast(w, mean, wide, node.dtype)

    return Body(domain, 2, emit)


def _avg_pool2d_grad(node: FxNode, dy: FxNode) -> Body:
    domain = (*node.shape, *node.attrs["kernel"])
    n, c, y, x_, i, j = axes(0, 6)
    wide = node.dtype.accumulator

    def emit(w: Writer) -> int:
        back = _back(w, node.attrs, (y, x_), (i, j))
        grad = _through(w, 0, (n, c, Affine(), Affine()), back, node.dtype)
        places = tuple(place for place, _ in back)
        count = _count(w, node.attrs, node.shape, places, wide)
        share = w.emit(Instruction("div", (_cast(w, grad, node.dtype, wide), count), wide))
        inside = w.emit(Instruction("logical_and", tuple(ok for _, ok in back), bool_))
        zero = _constant(w, 0.0, wide)
        share = w.emit(Instruction("where", (inside, share, zero), wide))
        return _sum(w, share, node.dtype)

    return Body(domain, 2, emit)


def _take_along_grad(node: FxNode, index: FxNode, dy: FxNode) -> Body:
    axis = node.attrs["axis"]
    domain = (*node.shape, index.shape[axis])
    *places, folded = axes(0, len(domain))
    target = places[axis]
    places[axis] = folded
    wide = node.dtype.accumulator

    def emit(w: Writer) -> int:
        picked = _cast(w, w.element(0, places), index.dtype, i64)
        here = w.emit(Instruction("eq", (picked, _index(w, domain, target)), bool_))
        value = _cast(w, w.element(1, places), node.dtype, wide)
        chosen = w.emit(Instruction("where", (here, value, _constant(w, 0, wide)), wide))
        return _sum(w, chosen, node.dtype)

    return Body(domain, 1, emit)


_BODIES: Mapping[str, Callable[..., Body]] = {
    "matmul": _matmul,
    "matmul_integer": _matmul,
    "conv2d": _conv2d,
    "conv2d_grad_input": _conv2d_grad_input,
    "conv2d_grad_weight": _conv2d_grad_weight,
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
    "avg_pool2d_grad": _avg_pool2d_grad,
    "take_along_grad": _take_along_grad,
}


# --- windows ------------------------------------------------------------------------------------


def _taps(
    attrs: Attrs, output: tuple[Affine, Affine], tap: tuple[Affine, Affine]
) -> tuple[Affine, ...]:
    """The place in the image that a tap of the window at an output sees."""
    dilation = attrs.get("dilation", (1, 1))
    return tuple(
        output[k] * attrs["stride"][k] + tap[k] * dilation[k] + -attrs["padding"][k][0]
        for k in (0, 1)
    )


def _back(
    w: Writer, attrs: Attrs, image: tuple[Affine, Affine], tap: tuple[Affine, Affine]
) -> tuple[tuple[int, int], ...]:
    """For both axes, the output whose window sees a place by a tap, and whether there is one.

    Instructions: an i64 and a bool. That the output exists is for the access to check.
    """
    found = []
    dilation = attrs.get("dilation", (1, 1))
    for k in (0, 1):
        shifted = image[k] + tap[k] * -dilation[k] + attrs["padding"][k][0]
        start = _index(w, w.domain, shifted)
        step = _constant(w, attrs["stride"][k], i64)
        output = w.emit(Instruction("floordiv", (start, step), i64))
        again = w.emit(Instruction("mul", (output, step), i64))
        found.append((output, w.emit(Instruction("eq", (again, start), bool_))))
    return tuple(found)


def _through(
    w: Writer,
    operand: int,
    index: Sequence[Affine],
    back: tuple[tuple[int, int], ...],
    dtype: DType,
) -> int:
    """Load at the outputs that `_back` found, 0 where there is none."""
    value = w.picked(operand, index, {2: back[0][0], 3: back[1][0]})
    exists = w.emit(Instruction("logical_and", (back[0][1], back[1][1]), bool_))
    return w.emit(Instruction("where", (exists, value, _constant(w, 0, dtype)), dtype))


def _count(w: Writer, attrs: Attrs, shape: Shape, places: Sequence[int], dtype: DType) -> int:
    """How many elements the mean of the window at an output is taken over."""
    kernel = attrs["kernel"]
    if attrs["count_include_pad"]:
        return _constant(w, float(kernel[0] * kernel[1]), dtype)
    counts = []
    for k in (0, 1):
        step = _constant(w, attrs["stride"][k], i64)
        before = _constant(w, attrs["padding"][k][0], i64)
        start = w.emit(Instruction("mul", (places[k], step), i64))
        start = w.emit(Instruction("sub", (start, before), i64))
        end = w.emit(Instruction("add", (start, _constant(w, kernel[k], i64)), i64))
        end = w.emit(Instruction("minimum", (end, _size(w, shape[2 + k])), i64))
        start = w.emit(Instruction("maximum", (start, _constant(w, 0, i64)), i64))
        counts.append(w.emit(Instruction("sub", (end, start), i64)))
    product = w.emit(Instruction("mul", tuple(counts), i64))
    return w.emit(Instruction("cast", (product,), dtype))


# --- instructions -------------------------------------------------------------------------------


def _index(w: Writer, domain: Shape, place: Affine) -> int:
    strides = place.strides(len(domain))
    view = View(domain, strides, (1,) * len(domain), place.offset).simplified()
    return w.emit(Instruction("index", (), i64, view=view))


def _size(w: Writer, dim: Dim) -> int:
    if isinstance(dim, int):
        return _constant(w, dim, i64)
    return w.emit(Instruction("size", (), i64, Attrs(dim=dim)))


def _constant(w: Writer, value: int | float, dtype: DType) -> int:
    return w.emit(Instruction("constant", (), dtype, Attrs(value=value)))


def _cast(w: Writer, value: int, have: DType, want: DType) -> int:
    return value if have == want else w.emit(Instruction("cast", (value,), want))


def _sum(w: Writer, value: int, dtype: DType) -> int:
    return w.emit(Instruction("sum", (value,), dtype))
