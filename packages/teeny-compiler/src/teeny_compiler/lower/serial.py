"""Kernels for ops that scatter: in order within a program, so that sums are the same every time.

They are the general path for what a kernel library does not serve. Operands lie row-major (see
`nest.moves.template_bases`). Narrow floats are summed in f32, in memory of the task's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teeny_core import Dim, DType, Expr, ceildiv, f32, i64, numel
from teeny_triton import build_function
from teeny_triton import language as tl
from teeny_triton.ir import Function, Pointer
from teeny_triton.language import Operand as Number
from teeny_triton.language import Tile
from teeny_triton.launch import BufferArg, Launch, Plan, Request, ScalarArg, Temp, Template
from teeny_triton.target import Target

from teeny_compiler.lower.elementwise import convert, is_nan, like

LANES = 64
CONVERTED = 4096
"""Elements that one program converts from the type of the sums."""


@dataclass(frozen=True)
class Kernel:
    """A function under way: its addresses, and dimensions as numbers of the kernel."""

    addresses: tuple[Tile, ...]
    sizes: dict[Expr, Tile]

    def dim(self, dim: Dim) -> Number:
        """Return a dimension as a number."""
        return dim if isinstance(dim, int) else self.sizes[dim]


def build(
    name: str, dtypes: Sequence[DType], dims: Sequence[Dim], body: Callable[[Kernel], None]
) -> tuple[Function, tuple[ScalarArg, ...]]:
    """Build a function over addresses and the symbolic ones of `dims`."""
    symbolic = tuple(dict.fromkeys(dim for dim in dims if isinstance(dim, Expr)))
    pointers = [(f"p{i}", Pointer(dtype)) for i, dtype in enumerate(dtypes)]
    numbers = [(f"n{i}", i64) for i in range(len(symbolic))]
    with build_function(name, [*pointers, *numbers]) as f:
        count = len(pointers)
        sizes = dict(zip(symbolic, f.arguments[count:], strict=True))
        body(Kernel(tuple(f.arguments[:count]), sizes))
    return f.function, tuple(ScalarArg(dim, i64) for dim in symbolic)


class TakeGrad:
    """Slices of dy added at their places: out[a, index[t], b] += dy[a, t, b]."""

    name = "serial"
    ops: tuple[str, ...] = ("take_grad",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return one program for each `a` and each block of lanes of `b`."""
        if request.epilogue is not None:
            return None
        index, dy = request.inputs
        axis, shape = request.attrs["axis"], request.output.shape
        outer, rows, inner = numel(shape[:axis]), shape[axis], numel(shape[axis + 1 :])
        count = numel(index.shape)
        wide = request.output.dtype.accumulator
        dims = (rows, inner, count, rows * inner, count * inner)

        def body(k: Kernel) -> None:
            places, source, total = k.addresses
            a, lane = tl.program_id(0).to(i64), tl.program_id(1).to(i64) * LANES
            lanes = tl.arange(0, LANES)
            mask = lanes < k.dim(inner) - lane
            target_ = total + a * k.dim(rows * inner) + lane
            source = source + a * k.dim(count * inner) + lane
            with tl.loop(0, k.dim(rows)) as (row, _):
                zero = tl.full((LANES,), 0, wide)
                tl.store(target_ + row.to(i64) * k.dim(inner) + lanes, zero, mask)
            with tl.loop(0, k.dim(count)) as (t, _):
                place = tl.load(places + t).to(i64)
                exists = (place >= 0) & (place < k.dim(rows))
                spot = target_ + place * k.dim(inner) + lanes
                addend = tl.load(source + t.to(i64) * k.dim(inner) + lanes, mask)
                chosen = exists & mask
                tl.store(spot, tl.load(spot, chosen) + convert(addend, wide), chosen)

        function, scalars = build("take_grad", (index.dtype, dy.dtype, wide), dims, body)
        grid = (outer, ceildiv(inner, LANES))
        return _summed(request, function, grid, scalars)


class MaxPoolGrad:
    """Each dy added to the first maximum of its window, one image plane in a program."""

    name = "serial"
    ops: tuple[str, ...] = ("max_pool2d_grad",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return one program for each plane."""
        if request.epilogue is not None:
            return None
        x, dy = request.inputs
        batch, channels, height, width = x.shape
        rows, columns = dy.shape[2:]
        wide = request.output.dtype.accumulator
        dims = (height, width, rows, columns, height * width, rows * columns)

        def body(k: Kernel) -> None:
            source, grads, total = k.addresses
            plane = tl.program_id(0).to(i64)
            source = source + plane * k.dim(height * width)
            total = total + plane * k.dim(height * width)
            grads = grads + plane * k.dim(rows * columns)
            with tl.loop(0, k.dim(height * width)) as (i, _):
                tl.store(total + i, tl.full((), 0, wide))
            with tl.loop(0, k.dim(rows)) as (row, _), tl.loop(0, k.dim(columns)) as (column, _):
                place = self.first_maximum(k, request, source, (row.to(i64), column.to(i64)))
                grad = tl.load(grads + row.to(i64) * k.dim(columns) + column)
                spot = total + place
                tl.store(spot, tl.load(spot) + convert(grad, wide))
                tl.yield_()

        function, scalars = build("max_pool2d_grad", (x.dtype, dy.dtype, wide), dims, body)
        return _summed(request, function, (batch * channels,), scalars)

    def first_maximum(
        self, k: Kernel, request: Request, source: Tile, output: tuple[Tile, Tile]
    ) -> Tile:
        """Emit the search of the window at `output`; return the place in its plane."""
        attrs, x = request.attrs, request.inputs[0]
        height, width = (k.dim(extent) for extent in x.shape[2:])
        start = [
            output[axis] * attrs["stride"][axis] - attrs["padding"][axis][0] for axis in (0, 1)
        ]
        lowest = -math.inf if x.dtype.is_float else x.dtype.min
        inits = (tl.full((), lowest, x.dtype), tl.full((), -1, i64))
        rows, columns = attrs["kernel"]
        outer = tl.loop(0, rows, 1, inits)
        with outer as (i, held):
            inner = tl.loop(0, columns, 1, held)
            with inner as (j, (best, place)):
                row, column = start[0] + i, start[1] + j
                inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                here = row * width + column
                value = tl.load(source + here, inside)
                beats = (place == like(place, -1)) | (value > best)
                if x.dtype.is_float:
                    beats = beats | (is_nan(value) & ~is_nan(best))
                beats = beats & inside
                tl.yield_(tl.where(beats, value, best), tl.where(beats, here, place))
            tl.yield_(*inner.results)
        return outer.results[1]


SERIAL: tuple[Template, ...] = (TakeGrad(), MaxPoolGrad())


def _summed(
    request: Request, function: Function, grid: tuple[Dim, ...], scalars: tuple[ScalarArg, ...]
) -> Plan:
    """Return the launch, and where sums are wider than the result one that converts them."""
    inputs = tuple(BufferArg("input", i) for i in range(len(request.inputs)))
    result = request.output
    size = numel(result.shape)
    touched = numel(request.inputs[1].shape) * request.inputs[1].dtype.itemsize
    if result.dtype.accumulator == result.dtype:
        arguments: tuple[BufferArg | ScalarArg, ...] = (*inputs, BufferArg("output"), *scalars)
        moved = touched + size * result.dtype.itemsize
        return Plan((Launch(function, grid, arguments, size, moved),))
    first = Launch(function, grid, (*inputs, BufferArg("temp"), *scalars), size, touched)
    name, numbers = build("convert", (f32, result.dtype), (size,), lambda k: _convert(k, size))
    blocks = (ceildiv(size, CONVERTED),)
    second = Launch(
        name, blocks, (BufferArg("temp"), BufferArg("output"), *numbers), size, size * 6
    )
    return Plan((first, second), (Temp(size, f32),))


def _convert(k: Kernel, size: Dim) -> None:
    source, target = k.addresses
    first = tl.program_id(0).to(i64) * CONVERTED
    lanes = tl.arange(0, LANES)
    last = tl.minimum(first + CONVERTED, k.dim(size))
    with tl.loop(first, last, LANES) as (start, _):
        mask = lanes < last - start
        tl.store(target + start + lanes, tl.load(source + start + lanes, mask), mask)
