"""Templates of `conv2d` and `conv2d_grad_input`, and of convolution, ReLU and pooling as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import teeny_triton.language as tl
from teeny_core import Dim, DType, ceildiv
from teeny_triton import Target, Tile
from teeny_triton.ir import Pointer
from teeny_triton.launch import BufferArg, Launch, Operand, Plan, Request, Temp

from teeny_kernels.kernels.conv_channels import Channels, conv_channels, pack_filters
from teeny_kernels.kernels.conv_rows import Rows, conv_rows
from teeny_kernels.kernels.correlation import Correlation, Slab
from teeny_kernels.kernels.sliding import Sliding, sliding
from teeny_kernels.launching import (
    Buffer,
    Hook,
    Work,
    buffer,
    launch,
    operand_buffer,
    output_buffer,
)
from teeny_kernels.registers import LATENCY, SPARE
from teeny_kernels.templates import geometry
from teeny_kernels.templates.cuts import cuts

WORK = 8_000_000
"""Operations of a program at least, where an image has as many."""
PROGRAMS = 16
"""Programs that an image is cut into at most."""
PLANE_WORK = 200_000
"""Products of a program where each channel is by itself."""
SPARE_OF_ROWS = 5
"""Registers that are left over where pixels of several rows are broadcast: LLVM needs them."""
MOST_DEPTHWISE_ROWS = 7


class ConvTemplate:
    """Serves `conv2d` and `conv2d_grad_input` of images whose sizes are numbers."""

    name = "conv2d"
    ops: tuple[str, ...] = ("conv2d", "conv2d_grad_input")

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launches for `request`, None for symbolic image sizes."""
        first, w = request.inputs
        x, y = (first, request.output) if request.op == "conv2d" else (request.output, first)
        g = geometry.read(request, x, w, y)
        if g is None or x.dtype.bits < 16:
            return None
        if request.op == "conv2d":
            parts = [geometry.forward(g)]
        elif max(g.stride) > 1 and max(g.dilation) > 1:
            return None
        else:
            parts = list(geometry.backward(g))
        return _plan(parts, g.images, request, Hook.of(request.epilogue), target)


class ConvPoolTemplate:
    """Serves `conv2d_relu_max_pool2d` of x, w and bias [filters].

    That is max_pool2d(relu(conv2d(x, w) + bias)) with windows of 2 x 2 without overlap, and the
    attributes of `conv2d`. A sum with a bias and ReLU are monotone, so that pooling comes first:
    the result is the same to the bit.
    """

    name = "conv2d_relu_max_pool2d"
    ops: tuple[str, ...] = ("conv2d_relu_max_pool2d",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launches for `request`, None for symbolic image sizes."""
        x, w, bias = request.inputs
        out = request.output
        rows, columns = out.shape[2] * 2, out.shape[3] * 2
        before = Operand((*out.shape[:2], rows, columns), out.strides, out.dtype)
        g = geometry.read(request, x, w, before)
        if g is None or x.dtype.bits < 16 or bias.strides != (1,):
            return None
        hook = _relu_hook(bias, Hook.of(request.epilogue))
        return _plan([geometry.forward(g)], g.images, request, hook, target, pool=True)


TEMPLATES = (ConvTemplate(), ConvPoolTemplate())
CONV, CONV_POOL = TEMPLATES


def _relu_hook(bias: Operand, then: Hook) -> Hook:
    """Add a bias by filter and take the positive part, then go on with another hook."""
    (filters,) = bias.shape
    assert isinstance(filters, int)

    def apply(tile: Tile, index: Sequence[Tile], mask: Tile | None, extra: Sequence[Tile]) -> Tile:
        filter = index[1]
        value = tile + tl.load(extra[0] + filter, filter < filters).to(tile.dtype)
        return then.apply(tl.maximum(value, 0.0), index, mask, extra[1:])

    return Hook(
        apply,
        (BufferArg("input", 2), *then.arguments),
        (Pointer(bias.dtype), *then.kinds),
        f"bias {filters} relu {then.key}",
    )


def _plan(
    parts: Sequence[Correlation],
    images: Dim,
    request: Request,
    hook: Hook,
    target: Target,
    *,
    pool: bool = False,
) -> Plan | None:
    x, w = request.inputs[:2]
    inputs = operand_buffer(0, x), operand_buffer(1, w)
    output = output_buffer(request.output, request.epilogue)
    launches: list[Launch] = []
    temps: list[Temp] = []
    for of in parts:
        if _is_depthwise(of):
            launches.append(_launch_depthwise(of, images, inputs, output, hook, target))
            continue
        by_rows, by_channels = (
            _rows(of, x.dtype, target, pool),
            _channels(of, x.dtype, target, pool),
        )
        if by_rows is None and by_channels is None:
            return None
        if by_channels is None or (by_rows and rows_cost(by_rows) <= channels_cost(by_channels)):
            assert by_rows is not None
            launches.append(_launch_rows(by_rows, images, inputs, output, hook))
        else:
            packed = buffer("temp", len(temps), by_channels.accumulator)
            size = of.groups * by_channels.all_panels * of.taps * by_channels.width
            temps.append(Temp(size, by_channels.accumulator))
            launches.append(_launch_pack(by_channels, inputs[1], packed))
            launches.append(
                _launch_channels(by_channels, images, (inputs[0], packed), output, hook)
            )
    return Plan(tuple(launches), tuple(temps))


def _work(of: Correlation, images: Dim, dtype: DType) -> Work:
    seen = of.channels * of.height * of.width + of.filters * of.rows * of.columns
    return Work(of.flops * images, seen * of.groups * images * dtype.itemsize)


# --- one channel by itself ---


def _is_depthwise(of: Correlation) -> bool:
    return of.groups > 1 and of.channels == of.filters == 1 and of.kernel[0] * of.kernel[1] <= 25


def _launch_depthwise(
    of: Correlation,
    images: Dim,
    inputs: tuple[Buffer, Buffer],
    output: Buffer,
    hook: Hook,
    target: Target,
) -> Launch:
    accumulator = inputs[0].dtype.accumulator
    parts = -(-of.rows // MOST_DEPTHWISE_ROWS) if of.rows else 1
    planes = max(1, PLANE_WORK // max(1, of.rows * of.columns * of.taps))
    lanes = target.lanes(accumulator)
    t = Sliding(of, "filter", True, accumulator, lanes, -(-of.rows // parts), planes)
    return launch(
        sliding,
        (ceildiv(images * of.groups, planes),),
        {"x": inputs[0], "w": inputs[1], "y": output},
        sizes={"images": images},
        constants={"t": t},
        hook=hook,
        work=_work(of, images, inputs[0].dtype),
    )


# --- rows ---


def _rows(of: Correlation, dtype: DType, target: Target, pool: bool) -> Rows | None:
    """Return the best cut with columns in the lanes, None if columns are not neighbours."""
    if of.stride[1] != 1 or of.filters == 0 or (pool and min(of.rows, of.columns) < 2):
        return None
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    if pool and lanes == 1:
        return None
    slab = of.needs_padding or of.x[4] != 1
    blocks = (
        Rows(of, accumulator, lanes, filters, rows, vectors, rows, None, pool)
        for filters, rows, vectors in _row_blocks(of, lanes, target.vector_registers, pool)
    )
    best = min(blocks, key=rows_cost, default=None)
    if best is None:
        return None
    run = _run(of, best.rows, of.flops // of.rows if of.rows else 0)
    width = best.vectors * lanes
    columns = -(-of.columns // width) * width + (max(of.kernel[1], 1) - 1) * of.dilation[1]
    pitch = -(-columns // lanes) * lanes
    return replace(best, run=run, slab=Slab(of.reach(run, 0), pitch, lanes) if slab else None)


def _row_blocks(
    of: Correlation, lanes: int, registers: int, pool: bool
) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks (filters, rows, vectors) that fit the registers."""
    for vectors in range(1, min(4, -(-of.columns // lanes)) + 1):
        for rows in range(1 + pool, min(8, of.rows) + 1, 1 + pool):
            for filters in range(1, min(14, of.filters) + 1):
                held = filters * rows * vectors + rows * vectors + SPARE
                if held <= registers:
                    yield filters, rows, vectors
    if pool and registers < 2:
        return


def rows_cost(t: Rows) -> float:
    """Return the cycles for an image and group, about."""
    of = t.of
    columns = -(-of.columns // (t.vectors * t.lanes))
    total = 0.0
    for nf, times in cuts(of.filters, t.filters):
        for nr, repeats in cuts(of.rows, t.rows):
            work = nf * nr * t.vectors / 2
            loads = (nf + 1.5 * nr * t.vectors) / 2
            step = max(work, loads, LATENCY)
            total += times * repeats * columns * of.taps * step * _clip(of, nr)
    return total


def _clip(of: Correlation, count: int) -> float:
    """Return the share of the window's rows that blocks of `count` rows look at."""
    height, _ = of.kernel
    if not of.needs_padding or height == 0:
        return 1.0
    seen = blocks = 0
    for row in range(0, of.rows, count):
        low = -(-(of.top - (row + count - 1) * of.stride[0]) // of.dilation[0])
        high = (of.height - 1 + of.top - row * of.stride[0]) // of.dilation[0] + 1
        seen += max(0, min(height, high) - max(0, low))
        blocks += 1
    return seen / (blocks * height)


def _run(of: Correlation, rows: int, flops: int) -> int:
    """Return the rows of a program: an image, or a part with work enough."""
    parts = max(1, min(PROGRAMS, of.flops // WORK))
    blocks = -(-of.rows // rows)
    return -(-blocks // min(parts, blocks)) * rows


def _launch_rows(
    t: Rows, images: Dim, inputs: tuple[Buffer, Buffer], output: Buffer, hook: Hook
) -> Launch:
    of = t.of
    return launch(
        conv_rows,
        (-(-of.rows // t.run), images, of.groups),
        {"x": inputs[0], "w": inputs[1], "y": output},
        constants={"t": t},
        hook=hook,
        work=_work(of, images, inputs[0].dtype),
    )


# --- channels ---


def _channels(of: Correlation, dtype: DType, target: Target, pool: bool) -> Channels | None:
    """Return the best cut with filters in the lanes."""
    if of.filters == 0 or (pool and min(of.rows, of.columns) < 2):
        return None
    accumulator = dtype.accumulator
    lanes = target.lanes(accumulator)
    blocks = (
        Channels(of, accumulator, lanes, vectors, rows, columns, rows, 1, None, pool)
        for vectors, rows, columns in _pixel_blocks(of, lanes, target.vector_registers, pool)
    )
    best = min(blocks, key=channels_cost, default=None)
    if best is None:
        return None
    run, panels = _parts(best, target)
    whole = -(-of.columns // best.columns) * best.columns
    slab = None
    if of.needs_padding or whole != of.columns:
        pitch = -(-max(1, of.reach(whole, 1)) // lanes) * lanes
        slab = Slab(of.reach(run, 0), pitch, lanes)
    return replace(best, run=run, panels=panels, slab=slab, fetched=_fetched(best))


def _pixel_blocks(
    of: Correlation, lanes: int, registers: int, pool: bool
) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks (vectors, rows, columns) that fit the registers."""
    for vectors in range(1, min(2, -(-of.filters // lanes)) + 1):
        for rows in range(1 + pool, min(8, of.rows) + 1, 1 + pool):
            for pieces in range(1, of.columns + 1):
                columns = -(-of.columns // pieces)
                if pool:
                    columns += columns % 2
                spare = SPARE if rows == 1 else SPARE_OF_ROWS
                if rows * columns * vectors + vectors + spare <= registers:
                    yield vectors, rows, columns
                    break


def channels_cost(t: Channels) -> float:
    """Return the cycles for an image and group, about."""
    of = t.of
    total = 0.0
    for vectors, times in cuts(-(-of.filters // t.lanes), t.vectors):
        for nr, repeats in cuts(of.rows, t.rows):
            pixels = nr * t.columns
            step = max(pixels * vectors / 2, (pixels + vectors) / 2, LATENCY) + vectors / 4
            turning = vectors * nr * (-(-t.columns // t.lanes)) * t.lanes * 4
            steps = of.taps * step * _clip(of, nr)
            total += times * repeats * -(-of.columns // t.columns) * (steps + turning)
    return total


def _parts(t: Channels, target: Target) -> tuple[int, int]:
    """Return the rows and the panels of a program: an image, or a part with work enough.

    Filters that are larger than the image are divided first, for each program reads its own.
    """
    of = t.of
    parts = max(1, min(PROGRAMS, of.flops // of.groups // WORK))
    blocks, panels = -(-of.rows // t.rows), t.all_panels
    if of.filters * of.taps > of.channels * of.height * of.width:
        by_panel = min(parts, panels)
        by_row = min(-(-parts // by_panel), blocks)
    else:
        by_row = min(parts, blocks)
        by_panel = min(-(-parts // by_row), panels)
    return -(-blocks // by_row) * t.rows, -(-panels // by_panel)


def _fetched(t: Channels) -> int:
    """Return how much of the next panel to fetch for each channel: 0 for small panels.

    Whole registers are fetched, which are whole cache lines where they are longest.
    """
    blocks = -(-t.of.rows // t.rows) * -(-t.of.columns // t.columns)
    size = t.of.kernel[0] * t.of.kernel[1] * t.width
    worth = t.all_panels > 1 and t.of.taps >= 256 and blocks <= 16
    return -(-size // (blocks * t.lanes)) * t.lanes if worth else 0


def _launch_pack(t: Channels, w: Buffer, packed: Buffer) -> Launch:
    of = t.of
    moved = 2 * of.groups * of.filters * of.taps * packed.dtype.itemsize
    return launch(
        pack_filters,
        (t.all_panels, of.groups),
        {"w": w, "packed": packed},
        constants={"t": t},
        work=Work(0, moved),
    )


def _launch_channels(
    t: Channels, images: Dim, inputs: tuple[Buffer, Buffer], output: Buffer, hook: Hook
) -> Launch:
    of = t.of
    parts = -(-of.rows // t.run) * -(-t.all_panels // t.panels)
    return launch(
        conv_channels,
        (parts, images, of.groups),
        {"x": inputs[0], "w": inputs[1], "y": output},
        constants={"t": t},
        hook=hook,
        work=_work(of, images, inputs[0].dtype),
    )
