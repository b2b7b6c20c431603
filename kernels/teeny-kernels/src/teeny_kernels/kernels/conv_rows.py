"""Convolution with the columns of the output in the lanes and the filters read in place.

A block of results is some filters by some rows by some registers of columns. For each tap, rows of
the input are read where the tap sees them, and each filter's number is broadcast. That suits few
filters and windows of few channels, and needs no copy of the filters. With a stride of 2 along x,
even and odd columns are copied apart, so that what neighbouring results see are neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.correlation import Correlation, Slab, clipped, copy_slab, group_of
from teeny_triton import Ptr, TypeVar, constexpr, kernel

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True)
class Rows:
    """How a correlation is cut: its stride along x is 1, or 2 without dilation.

    Attributes:
        of: the correlation.
        accumulator: type of the sums.
        lanes: elements of a register.
        filters, rows: of a block.
        vectors: registers that hold a run of columns.
        run: rows of a program, a multiple of those of a block.
        slab: padded copy of the input that a program makes, None to read it in place.
        pool: whether the largest of each 2 x 2 square is stored, not the squares.
    """

    of: Correlation
    accumulator: DType
    lanes: int
    filters: int
    rows: int
    vectors: int
    run: int
    slab: Slab | None
    pool: bool = False


@kernel
def conv_rows(
    x: Ptr[T], w: Ptr[T], y: Ptr[D], extra: tuple[Any, ...], t: Rows, EPILOGUE: constexpr
) -> None:
    """Compute a correlation. Grid: runs of rows, images, groups."""
    of = t.of
    image, group = tl.program_id(1), group_of(of)
    first = 0 if t.run >= of.rows else tl.program_id(0) * t.run
    last = tl.minimum(first + t.run, of.rows)
    source = x + image * of.x[0] + group * of.x[1]
    filters = w + group * of.w[0] + of.w_start
    result = y + image * of.y[0] + group * of.y[1] + of.y_start
    if t.slab is None:
        at, plane, pitch = source - of.left - of.top * of.x[3], of.x[2], of.x[3]
    else:
        slab = tl.scratch(of.channels * t.slab.plane, t.accumulator)
        top = first * of.stride[0] - of.top
        copy_slab(slab, source, top, t.slab, of, t.accumulator)
        at, plane, pitch = slab - first * of.stride[0] * t.slab.line, t.slab.plane, t.slab.line

    def block(f: Any, nf: int, row: Any, nr: int, column: Any, width: int, last: bool) -> None:
        """Compute filters [f, f + nf) and rows [row, row + nr) of `width` columns."""
        filter = f + tl.arange(0, nf)[:, None, None]
        below = row + tl.arange(0, nr)[None, :, None]
        lane = column + tl.arange(0, width)[None, None, :]
        inside = lane < of.columns if last and t.slab is None else None
        left = at + below * of.stride[0] * pitch + lane
        right = filters + filter * of.w[1]
        acc = tl.zeros((nf, nr, width), t.accumulator)
        low, high = clipped(row, nr, of)
        for i in range(low, high):
            for phase in range(of.stride[1]):  # of columns, and of the taps that see them
                apart = 0 if t.slab is None else phase * t.slab.pitch
                for j in range(tl.cdiv(of.kernel[1] - phase, of.stride[1])):
                    seen = left + i * of.dilation[0] * pitch + apart + j * of.dilation[1]
                    tap = right + i * of.w[3] + (j * of.stride[1] + phase) * of.w[4]
                    for c in range(of.channels):
                        value = tl.load(seen + c * plane, inside).to(t.accumulator)
                        weight = tl.load(tap + c * of.w[2]).to(t.accumulator)
                        acc = acc + value * weight
        if t.pool:
            rows = acc.reshape(nf, nr // 2, 2, width).max(2)
            pooled = rows.reshape(nf, nr // 2, width // 2, 2).max(3)
            half = column // 2 + tl.arange(0, width // 2)[None, None, :]
            inside = half < of.columns // 2 if last else None
            finish(pooled, filter, row // 2 + tl.arange(0, nr // 2)[None, :, None], half, inside)
        else:
            finish(acc, filter, below, lane, lane < of.columns if last else None)

    def finish(value: Any, filter: Any, row: Any, column: Any, mask: Any) -> None:
        """Store a block of results."""
        index = (
            image,
            group * of.filters + filter,
            of.origin[0] + row * of.step[0],
            of.origin[1] + column * of.step[1],
        )
        place = result + filter * of.y[2] + row * of.y[3] + column * of.y[4]
        tl.store(place, EPILOGUE(value, index, mask, extra), mask)

    def filters_of(row: Any, nr: int, column: Any, width: int, last: bool) -> None:
        """Compute all filters of some pixels."""
        whole, rest = of.filters // t.filters, of.filters % t.filters
        for k in tl.range(whole):
            block(k * t.filters, t.filters, row, nr, column, width, last)
        if rest != 0:
            block(whole * t.filters, rest, row, nr, column, width, last)

    def columns_of(row: Any, nr: int) -> None:
        """Compute all columns of some rows: the last registers of a row may be fewer."""
        width = t.vectors * t.lanes
        whole, rest = of.columns // width, of.columns % width
        for k in range(whole):
            filters_of(row, nr, k * width, width, False)
        if rest != 0:
            registers = tl.cdiv(rest, t.lanes) * t.lanes
            filters_of(row, nr, whole * width, registers, rest != registers)

    whole = (last - first) // t.rows
    for k in tl.range(whole):
        columns_of(first + k * t.rows, t.rows)
    if of.rows % t.rows != 0 and last - first > whole * t.rows:
        columns_of(first + whole * t.rows, of.rows % t.rows)
