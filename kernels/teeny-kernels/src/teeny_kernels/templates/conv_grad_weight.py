"""The template of `conv2d_grad_weight`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from teeny_core import Dim, DType, ceildiv
from teeny_triton import Target
from teeny_triton.launch import Plan, Request, Temp

from teeny_kernels.kernels.conv_grad_weight import (
    Weights,
    add_chunks,
    sums_by_column,
    sums_by_filter,
)
from teeny_kernels.kernels.correlation import Correlation, Slab
from teeny_kernels.launching import Hook, Work, buffer, launch, operand_buffer, output_buffer
from teeny_kernels.registers import LATENCY, SPARE
from teeny_kernels.templates import conv_cut, geometry

CHUNK = 8
"""Images of a chunk."""
LARGEST = 64 * 1024
"""Most sums of which each chunk of images gets its own copy."""
COLUMNS_HELD = 3
"""Registers for the columns that the taps of a row see, which need not be held at once."""
PROGRAMS = 4
"""Programs that the channels of many filters are spread over."""


class ConvGradWeightTemplate:
    """Serves `conv2d_grad_weight` of images whose sizes are numbers."""

    name = "conv2d_grad_weight"
    ops: tuple[str, ...] = ("conv2d_grad_weight",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launches for `request`, None for symbolic image sizes."""
        x, dy = request.inputs
        g = geometry.read(request, x, request.output, dy)
        if g is None or x.dtype.bits < 16:
            return None
        t = _choose(geometry.forward(g), x.dtype, target)
        return None if t is None else _plan(t, g.images, request, target)


TEMPLATE = ConvGradWeightTemplate()


def _plan(t: Weights, images: Dim, request: Request, target: Target) -> Plan:
    of = t.of
    x, dy = (operand_buffer(i, operand) for i, operand in enumerate(request.inputs))
    partial = buffer("temp", 0, t.accumulator)
    chunk: Dim = CHUNK if t.size * of.groups <= LARGEST else images
    chunks: Dim = ceildiv(images, CHUNK) if chunk is CHUNK else 1
    sums = launch(
        sums_by_filter if t.vectors else sums_by_column,
        (t.parts * t.panels if t.vectors else 1, chunks, of.groups),
        {"x": x, "dy": dy, "partial": partial},
        sizes={"images": images, "chunk": chunk},
        constants={"t": t},
        work=conv_cut.work(of, images, x.dtype),
    )
    channels = min(of.channels, max(1, t.lanes * 2 // t.window))
    filters = t.lanes if t.vectors else 1
    most = max(1, target.vector_registers - 4) if t.vectors else 2 * t.lanes
    total = launch(
        add_chunks,
        (-(-of.channels // channels), -(-of.filters // filters), of.groups),
        {"partial": partial, "dw": output_buffer(request.output, request.epilogue)},
        sizes={"chunks": chunks},
        constants={"t": t, "channels": channels, "filters": filters, "most": most},
        hook=Hook.of(request.epilogue),
        work=Work(
            chunks * (t.size * of.groups), (chunks + 1) * (t.size * of.groups) * x.dtype.itemsize
        ),
    )
    return Plan((sums, total), (Temp(chunks * (t.size * of.groups), t.accumulator),))


def _choose(of: Correlation, dtype: DType, target: Target) -> Weights | None:
    """Return the cut that takes the fewest cycles, None if no block fits the registers."""
    lanes = target.lanes(dtype.accumulator)
    base = Weights(of, dtype.accumulator, lanes, 0, 0, 1, 1, max(1, of.rows), of.channels, None)
    candidates = list(_candidates(base, target.vector_registers))
    if not candidates or min(of.channels, of.filters, *of.kernel) == 0:
        return None
    best = min(candidates, key=_cost)
    if best.vectors:
        blocks = -(-of.channels // best.channels)
        parts = min(blocks, -(-PROGRAMS // best.panels)) if of.flops > 16_000_000 else 1
        best = replace(best, part=-(-blocks // parts) * best.channels)
    rows = _rows(best, target)
    columns = -(-of.columns // lanes) * lanes if not best.vectors else of.columns
    pitch = -(-max(1, of.reach(columns, 1)) // lanes) * lanes
    slab = Slab(of.reach(rows, 0), pitch, lanes) if of.needs_padding else None
    return replace(best, rows=rows, slab=slab)


def _candidates(base: Weights, registers: int) -> Iterator[Weights]:
    of = base.of
    height, width = of.kernel
    for vectors in range(1, min(2, -(-of.filters // base.lanes)) + 1):
        for window_rows in {1, height}:
            for channels in range(1, min(16, of.channels) + 1):
                if (channels * window_rows * width + 1) * vectors + SPARE <= registers:
                    yield replace(base, vectors=vectors, channels=channels, window_rows=window_rows)
    if of.stride[1] != 1 or of.filters > 32:
        return
    for filters in range(1, min(8, of.filters) + 1):
        if filters * width + filters + min(width, COLUMNS_HELD) <= registers:
            yield replace(base, filters=filters)


def _cost(t: Weights) -> float:
    """Return the cycles for an image and group, about."""
    of = t.of
    pixels = of.rows * of.columns
    if not t.vectors:
        runs = of.rows * (-(-of.columns // t.lanes))
        total = 0.0
        for nf, times in conv_cut.blocks(of.filters, t.filters):
            width = of.kernel[1]
            step = max(nf * width / 2, (nf + 2 * width) / 2, LATENCY)
            total += times * of.channels * of.kernel[0] * (runs * step + 2 * nf * width)
        return total
    total = 4.0 * pixels * t.panels * t.vectors
    for vectors, repeats in conv_cut.blocks(t.panels * t.vectors, t.vectors):
        for nc, times in conv_cut.blocks(of.channels, t.channels):
            held = nc * t.window_rows * of.kernel[1]
            step = max(held * vectors / 2, (held + vectors) / 2, LATENCY)
            blocks = repeats * times * (of.kernel[0] // t.window_rows)
            total += blocks * (pixels * step + 2 * held * vectors)
    return total


def _rows(t: Weights, target: Target) -> int:
    """Return the output rows at a time: what they see and give fits half of the second cache."""
    of = t.of
    budget = target.l2_bytes // 2 // t.accumulator.itemsize
    row = of.columns * max(1, t.width) + t.part * of.stride[0] * of.width
    return max(1, min(of.rows, budget // row))
