"""Gradients of the filters of a convolution.

    dw[f, c, i, j] = sum over n, y, x of
        dy[n, f, y, x] * x[n, c, y*stride + i*dilation - top, x*stride + j*dilation - left]

Images are cut into chunks whose number does not depend on the threads. A program sums over the
images of a chunk into memory of its own, and a last launch adds the chunks up in order: so the work
is spread over threads and the result is always the same. Many filters lie in the lanes, with dy
turned round before; few filters leave the lanes to the columns, whose sums are added up at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import teeny_triton.language as tl
from teeny_core import DType
from teeny_kernels.kernels.correlation import Correlation, Slab, copy_slab
from teeny_triton import Ptr, TypeVar, constexpr, i64, kernel

T = TypeVar("T")
P = TypeVar("P")
D = TypeVar("D")


@dataclass(frozen=True)
class Weights:
    """How the sums are cut. `of` is the convolution; its `w` are the strides of the gradient.

    Attributes:
        accumulator: type of the sums.
        lanes: elements of a register.
        vectors: registers of filters in a panel; 0: the columns lie in the lanes.
        filters: filters of a block, when they do.
        channels: input channels of a block.
        window_rows: rows of the window in a block; 1 or all.
        rows: output rows that are worked through at a time.
        part: channels of a program, a multiple of those of a block.
        slab: padded copy of the input rows that a program makes, None to read them in place.
    """

    of: Correlation
    accumulator: DType
    lanes: int
    vectors: int
    filters: int
    channels: int
    window_rows: int
    rows: int
    part: int
    slab: Slab | None

    @property
    def width(self) -> int:
        """Filters of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of filters of a group."""
        return -(-self.of.filters // self.width) if self.vectors else 1

    @property
    def parts(self) -> int:
        """Parts that the channels are cut into."""
        return -(-self.of.channels // self.part)

    @property
    def window(self) -> int:
        """Taps of a channel."""
        return self.of.kernel[0] * self.of.kernel[1]

    @property
    def size(self) -> int:
        """Sums of a group, with those of missing filters of the last panel."""
        return (self.panels * self.width if self.vectors else self.of.filters) * self.of.taps


@kernel
def prepare(x: Any, first: Any, channel: Any, part: Any, t: Weights, slab: Any) -> Any:
    """Return where output row `first` sees the input: base, and the strides of its axes."""
    of = t.of
    source = x + channel * of.x[2]
    if t.slab is None:
        return source - of.top * of.x[3] - of.left * of.x[4], of.x[2], of.x[3], of.x[4]
    copied = of.with_channels(part)
    copy_slab(slab, source, first * of.stride[0] - of.top, t.slab, copied, t.accumulator)
    return slab - first * of.stride[0] * t.slab.pitch, t.slab.plane, t.slab.pitch, 1


@kernel
def turn(to: Any, dy: Any, first: Any, count: Any, valid: Any, t: Weights) -> None:
    """Copy output rows [first, first + count) of some filters of dy to [pixel][filter]."""
    of = t.of
    dense = of.y[4] == 1 and of.y[3] == of.columns
    step = tl.arange(0, t.lanes)[:, None]

    def row(source: Any, place: Any, pixels: Any) -> None:
        whole = pixels // t.lanes * t.lanes
        for start in tl.static_range(0, t.width, t.lanes):
            filter = start + tl.arange(0, t.lanes)[None, :]
            inside = None if valid is None else filter < valid
            for p in range(0, whole, t.lanes):
                value = tl.load(source + (p + step) * of.y[4] + filter * of.y[2], inside)
                tl.store(place + (p + step) * t.width + filter, value)
            if pixels % t.lanes != 0:
                last = whole + step < pixels
                mask = last if inside is None else last & inside
                value = tl.load(source + (whole + step) * of.y[4] + filter * of.y[2], mask)
                tl.store(place + (whole + step) * t.width + filter, value, last)

    if dense:
        row(dy + first * of.y[3], to, count * of.columns)
    else:
        for r in range(count):
            row(dy + (first + r) * of.y[3], to + r * of.columns * t.width, of.columns)


@kernel
def sums_by_filter(
    x: Ptr[T], dy: Ptr[T], partial: Ptr[P], images: i64, chunk: i64, t: Weights
) -> None:
    """Sum over chunks of images, filters in the lanes: partial[chunk][group][panel][tap][filter].

    Grid: parts of the channels times panels, chunks, groups.
    """
    of = t.of
    part, panel = tl.program_id(0) % t.parts, tl.program_id(0) // t.parts
    number, group = tl.program_id(1), tl.program_id(2)
    turned = tl.scratch(t.rows * of.columns * t.width, t.accumulator)
    slab = None if t.slab is None else tl.scratch(t.part * t.slab.plane, t.accumulator)
    channel, taps = part * t.part, t.window
    sums = partial + (number * of.groups + group) * t.size + panel * of.taps * t.width
    filters = dy + of.y_start + group * of.y[1] + panel * t.width * of.y[2]
    rest = of.filters % t.width
    lane = tl.arange(0, t.width)[None, None, None, :]
    across = tl.arange(0, of.kernel[1])[None, None, :, None]

    def block(seen: Any, c: Any, nc: int, i: Any, start: Any, first: Any, count: Any) -> None:
        """Add what some output rows give to the taps of channels [c, c + nc) from row i on."""
        place, plane, pitch, beside = seen
        below = tl.arange(0, t.window_rows)[None, :, None, None]
        inner = tl.arange(0, nc)[:, None, None, None]
        tap = (channel + c + inner) * taps + (i + below) * of.kernel[1] + across
        acc = tl.load(sums + tap * t.width + lane, start)
        left = place + (c + inner) * plane + (i + below) * of.dilation[0] * pitch
        left = left + across * of.dilation[1] * beside
        for r in range(count):
            row = left + (first + r) * of.stride[0] * pitch
            right = turned + r * of.columns * t.width + lane
            for p in range(of.columns):
                value = tl.load(row + p * of.stride[1] * beside).to(t.accumulator)
                acc = acc + value * tl.load(right + p * t.width)
        tl.store(sums + tap * t.width + lane, acc)

    def blocks(seen: Any, c: Any, nc: int, start: Any, first: Any, count: Any) -> None:
        for i in range(0, of.kernel[0], t.window_rows):
            block(seen, c, nc, i, start, first, count)

    held = tl.minimum(t.part, of.channels - channel)
    for image in tl.range(number * chunk, tl.minimum(number * chunk + chunk, images)):
        for first in range(0, of.rows, t.rows):
            count = tl.minimum(t.rows, of.rows - first)
            source = filters + image * of.y[0]
            if rest == 0 or panel < of.filters // t.width:
                turn(turned, source, first, count, None, t)
            else:
                turn(turned, source, first, count, rest, t)
            image_at = x + image * of.x[0] + group * of.x[1]
            seen = prepare(image_at, first, channel, held, t, slab)
            start = (image > number * chunk) | (first > 0)
            for k in tl.range(held // t.channels):
                blocks(seen, k * t.channels, t.channels, start, first, count)
            if of.channels % t.channels != 0 and held % t.channels != 0:
                c = held // t.channels * t.channels
                blocks(seen, c, of.channels % t.channels, start, first, count)


@kernel
def sums_by_column(
    x: Ptr[T], dy: Ptr[T], partial: Ptr[P], images: i64, chunk: i64, t: Weights
) -> None:
    """Sum over chunks of images, columns in the lanes: partial[chunk][group][filter][tap].

    The stride along x is 1. Grid: 1, chunks, groups.
    """
    of = t.of
    number, group = tl.program_id(1), tl.program_id(2)
    held = tl.scratch(of.filters * of.taps * t.lanes, t.accumulator)
    slab = None if t.slab is None else tl.scratch(of.channels * t.slab.plane, t.accumulator)
    lane = tl.arange(0, t.lanes)[None, None, :]
    across = tl.arange(0, of.kernel[1])[None, :, None]

    def accumulate(
        seen: Any, source: Any, f: Any, nf: int, c: Any, i: Any, first: Any, count: Any, start: Any
    ) -> None:
        """Add what some output rows give to row i of the window of channel c."""
        place, plane, pitch, beside = seen
        filter = f + tl.arange(0, nf)[:, None, None]
        tap = filter * of.taps + c * t.window + i * of.kernel[1] + across
        acc = tl.load(held + tap * t.lanes + lane, start)
        left = place + c * plane + i * of.dilation[0] * pitch + across * of.dilation[1] * beside
        right = source + filter * of.y[2]

        def add(acc: Any, row: Any, column: Any, inside: Any) -> Any:
            at = left + row * of.stride[0] * pitch + column * beside
            value = tl.load(at, inside).to(t.accumulator)
            weight = tl.load(right + row * of.y[3] + column * of.y[4], inside)
            return acc + value * weight.to(t.accumulator)

        whole = of.columns // t.lanes * t.lanes
        for r in range(count):
            for column in range(0, whole, t.lanes):
                acc = add(acc, first + r, column + lane, None)
            if of.columns % t.lanes != 0:
                acc = add(acc, first + r, whole + lane, whole + lane < of.columns)
        tl.store(held + tap * t.lanes + lane, acc)

    def rows_of(seen: Any, source: Any, first: Any, count: Any, start: Any) -> None:
        def windows(f: Any, nf: int) -> None:
            for c in range(of.channels):
                for i in range(of.kernel[0]):
                    accumulate(seen, source, f, nf, c, i, first, count, start)

        for k in range(of.filters // t.filters):
            windows(k * t.filters, t.filters)
        if of.filters % t.filters != 0:
            windows(of.filters // t.filters * t.filters, of.filters % t.filters)

    for image in tl.range(number * chunk, tl.minimum(number * chunk + chunk, images)):
        for first in range(0, of.rows, t.rows):
            count = tl.minimum(t.rows, of.rows - first)
            image_at = x + image * of.x[0] + group * of.x[1]
            seen = prepare(image_at, first, 0, of.channels, t, slab)
            source = dy + of.y_start + group * of.y[1] + image * of.y[0]
            rows_of(seen, source, first, count, (image > number * chunk) | (first > 0))

    result = partial + (number * of.groups + group) * t.size
    for f in range(of.filters):
        for k in range(0, of.taps, t.lanes):
            tap = k + tl.arange(0, t.lanes)
            inside = tap < of.taps
            place = held + (f * of.taps + tap[:, None]) * t.lanes + lane.reshape(1, t.lanes)
            total = tl.sum(tl.load(place, inside[:, None]), 1)
            tl.store(result + f * of.taps + tap, total, inside)


@kernel
def add_chunks(
    partial: Ptr[P],
    dw: Ptr[D],
    chunks: i64,
    extra: tuple[Any, ...],
    t: Weights,
    channels: constexpr,
    filters: constexpr,
    most: constexpr,
    EPILOGUE: constexpr,
) -> None:
    """Add the sums of all chunks in order, and store them as filters.

    A program takes some filters by some channels, `most` taps at a time. Grid: runs of channels,
    runs of filters, groups.
    """
    of = t.of
    group = tl.program_id(2)
    first, c = tl.program_id(1) * filters, tl.program_id(0) * channels

    def add(start: int, count: Any) -> None:
        """Store `count` taps of each filter, from tap `start` of the first channel on."""
        k = start + tl.arange(0, count)[None, :]
        f = tl.arange(0, filters)[:, None]
        inside = None if of.filters % filters == 0 else f < of.filters - first
        if t.vectors:  # the filters are neighbours in memory: add first, then turn round
            at = first % t.width + tl.arange(0, filters)[None, :]
            panel = first // t.width * (of.taps * t.width)
            place = panel + (c * t.window + k.reshape(count, 1)) * t.width + at
            total = tl.zeros((count, filters), t.accumulator)
            mask = None
        else:
            place = (first + f) * of.taps + c * t.window + k
            total = tl.zeros((filters, count), t.accumulator)
            mask = inside
        source = partial + group * t.size + place
        for chunk in range(chunks):
            total += tl.load(source + chunk * (of.groups * t.size), mask)
        value = total.trans() if t.vectors else total
        filter, channel = group * of.filters + first + f, c + k // t.window
        i, j = k % t.window // of.kernel[1], k % of.kernel[1]
        at = dw + filter * of.w[1] + channel * of.w[2] + i * of.w[3] + j * of.w[4]
        index = (filter, channel, i, j)
        tl.store(at, EPILOGUE(value, index, inside, extra), inside)

    def all_of(count: int) -> None:
        """Store the taps of `count` channels."""
        for start in tl.static_range(0, count * t.window, most):
            add(start, min(most, count * t.window - start))

    if of.channels % channels == 0 or c + channels <= of.channels:
        all_of(channels)
    else:
        all_of(of.channels % channels)
