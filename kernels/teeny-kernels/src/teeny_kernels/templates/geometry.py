"""Convolutions as correlations: what the request says, in the terms of the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from teeny_core import Dim
from teeny_triton.launch import Operand, Request

from teeny_kernels.kernels.correlation import Correlation

Two = tuple[int, int]


@dataclass(frozen=True)
class Geometry:
    """A convolution whose sizes are numbers, but for the number of images.

    x [images, channels, height, width], w [filters, channels/groups, *kernel],
    y [images, filters, rows, columns]; `x`, `w`, `y` are their strides.
    """

    images: Dim
    channels: int
    height: int
    width: int
    filters: int
    rows: int
    columns: int
    kernel: Two
    stride: Two
    dilation: Two
    padding: tuple[Two, Two]
    groups: int
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]

    @property
    def group_channels(self) -> int:
        """Input channels of a group."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel is filtered by itself, once."""
        return self.groups == self.channels == self.filters and self.groups > 1


def read(request: Request, x: Operand, w: Operand, y: Operand) -> Geometry | None:
    """Return the convolution y = x * w of a request, None if the kernels do not serve it."""
    sizes = (*x.shape[1:], *w.shape, *y.shape[1:])
    strides = (*x.strides, *w.strides, *y.strides)
    if not all(isinstance(number, int) for number in (*sizes, *strides)):
        return None
    numbers: Any = [x.shape, w.shape, y.shape]
    (images, channels, height, width), (filters, _, *kernel), (_, _, rows, columns) = numbers
    a: Any = request.attrs
    return Geometry(
        images, channels, height, width, filters, rows, columns, (kernel[0], kernel[1]),
        a["stride"], a["dilation"], a["padding"], a["groups"],
        _numbers(x.strides), _numbers(w.strides), _numbers(y.strides),
    )  # fmt: skip


def _numbers(dims: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(dim for dim in dims if isinstance(dim, int))


def forward(g: Geometry) -> Correlation:
    """Return the convolution itself."""
    return Correlation(
        channels=g.group_channels,
        height=g.height,
        width=g.width,
        filters=g.group_filters,
        rows=g.rows,
        columns=g.columns,
        kernel=g.kernel,
        stride=g.stride,
        dilation=g.dilation,
        top=g.padding[0][0],
        left=g.padding[1][0],
        x=_by_group(g.x, g.group_channels),
        w=(g.w[0] * g.group_filters, *g.w),  # type: ignore[arg-type]
        y=_by_group(g.y, g.group_filters),
        groups=g.groups,
    )


def _by_group(strides: tuple[int, ...], channels: int) -> Any:
    image, channel, row, column = strides
    return image, channel * channels, channel, row, column


def backward(g: Geometry) -> Iterator[Correlation]:
    """Yield the correlations of dy that together give dx.

    With a stride, each phase of the rows and columns of dx (its place in the stride) sees every
    `stride`-th tap, turned round, so that there is a correlation of stride 1 for each phase.
    """
    for py in range(min(g.stride[0], g.height)):
        for px in range(min(g.stride[1], g.width)):
            yield _phase(g, (py, px))


def _phase(g: Geometry, phase: Two) -> Correlation:
    taps, firsts, befores, dilations = [], [], [], []
    for axis in (0, 1):
        stride, pad = g.stride[axis], g.padding[axis][0]
        if stride == 1:
            count, first, dilation = g.kernel[axis], 0, g.dilation[axis]
        else:  # taps first, first + stride, ... meet this phase; dilation is 1
            first = (phase[axis] + pad) % stride
            count, dilation = max(0, -(-(g.kernel[axis] - first) // stride)), 1
        # dx[stride*r + phase] takes dy[r + (phase + pad - first)/stride - k] from tap k
        shift = (phase[axis] + pad - first) // stride
        taps.append(count)
        firsts.append(first)
        dilations.append(dilation)
        befores.append((count - 1) * dilation - shift)
    steps = [g.stride[axis] if g.stride[axis] > 1 else 1 for axis in (0, 1)]
    last = [firsts[axis] + (taps[axis] - 1) * steps[axis] for axis in (0, 1)]
    image, group, channel, row, column = _by_group(g.x, g.group_channels)
    return Correlation(
        channels=g.group_filters,
        height=g.rows,
        width=g.columns,
        filters=g.group_channels,
        rows=-(-(g.height - phase[0]) // g.stride[0]),
        columns=-(-(g.width - phase[1]) // g.stride[1]),
        kernel=(taps[0], taps[1]),
        stride=(1, 1),
        dilation=(dilations[0], dilations[1]),
        top=befores[0],
        left=befores[1],
        x=_by_group(g.y, g.group_filters),
        w=(
            g.w[0] * g.group_filters, g.w[1], g.w[0], -g.w[2] * steps[0], -g.w[3] * steps[1],
        ),
        y=(image, group, channel, row * g.stride[0], column * g.stride[1]),
        w_start=last[0] * g.w[2] + last[1] * g.w[3] if min(taps) > 0 else 0,
        y_start=phase[0] * row + phase[1] * column,
        origin=phase,
        step=g.stride,
        groups=g.groups,
    )  # fmt: skip
