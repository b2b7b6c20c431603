"""Templates of `conv2d` and `conv2d_grad_input`, and of convolution, ReLU and pooling as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import teeny_triton.language as tl
from teeny_core import Dim, DType
from teeny_triton import Target, Tile
from teeny_triton.ir import Pointer
from teeny_triton.launch import BufferArg, Launch, Operand, Plan, Request, Temp

from teeny_kernels.kernels.correlation import Correlation
from teeny_kernels.kernels.extremes import larger
from teeny_kernels.launching import Hook, buffer, operand_buffer, output_buffer
from teeny_kernels.templates import (
    conv_channels,
    conv_depthwise,
    conv_rows,
    conv_taps,
    conv_winograd,
    geometry,
)
from teeny_kernels.templates.conv_cut import Cut, Use


class ConvTemplate:
    """Serves `conv2d` and `conv2d_grad_input` of images whose sizes are numbers."""

    name = "conv2d"
    ops: tuple[str, ...] = ("conv2d", "conv2d_grad_input")

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launches for `request`, None for symbolic image sizes."""
        return next(iter(self.plans(request, target)), None)

    def plans(self, request: Request, target: Target) -> Iterable[Plan]:
        """Return the plans of every algorithm that serves `request`, the best by estimate first."""
        first, w = request.inputs
        x, y = (first, request.output) if request.op == "conv2d" else (request.output, first)
        g = geometry.read(request, x, w, y)
        if g is None or x.dtype.bits < 16:
            return ()
        if request.op == "conv2d":
            parts = [geometry.forward(g)]
        elif max(g.stride) > 1 and max(g.dilation) > 1:
            return ()
        else:
            parts = list(geometry.backward(g))
        return _plans(parts, g.images, request, Hook.of(request.epilogue), target)


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
        return next(iter(self.plans(request, target)), None)

    def plans(self, request: Request, target: Target) -> Iterable[Plan]:
        """Return the plans of every algorithm that serves `request`, the best by estimate first."""
        x, w, bias = request.inputs
        out = request.output
        rows, columns = out.shape[2] * 2, out.shape[3] * 2
        before = Operand((*out.shape[:2], rows, columns), out.strides, out.dtype)
        g = geometry.read(request, x, w, before)
        if g is None or x.dtype.bits < 16 or bias.strides != (1,):
            return ()
        hook = _relu_hook(bias, Hook.of(request.epilogue))
        return _plans([geometry.forward(g)], g.images, request, hook, target, pool=True)


TEMPLATES = (ConvTemplate(), ConvPoolTemplate())
CONV, CONV_POOL = TEMPLATES


def _relu_hook(bias: Operand, then: Hook) -> Hook:
    """Add a bias by filter and take the positive part, then go on with another hook."""
    (filters,) = bias.shape
    assert isinstance(filters, int)

    def apply(tile: Tile, index: Sequence[Tile], mask: Tile | None, extra: Sequence[Tile]) -> Tile:
        filter = index[1]
        value = tile + tl.load(extra[0] + filter, filter < filters).to(tile.dtype)
        return then.apply(larger(value, 0.0), index, mask, extra[1:])

    return Hook(
        apply,
        (BufferArg("input", 2), *then.arguments),
        (Pointer(bias.dtype), *then.kinds),
        f"bias {filters} relu {then.key}",
    )


def _plans(
    parts: Sequence[Correlation],
    images: Dim,
    request: Request,
    hook: Hook,
    target: Target,
    *,
    pool: bool = False,
) -> Iterator[Plan]:
    """Yield plans of correlations that fill the output together: the best cut of each part first.

    The plan after it takes the next best cut of each part that has one left.
    """
    x, w = (operand_buffer(i, operand) for i, operand in enumerate(request.inputs[:2]))
    y = output_buffer(request.output, request.epilogue)
    sides = () if pool else conv_winograd.sides(request.options)
    cuts = [_cuts(of, x.dtype, target, pool, sides) for of in parts]
    if not all(cuts):
        return
    for rank in range(max(map(len, cuts), default=1)):
        launches: list[Launch] = []
        temps: list[Temp] = []
        for found in cuts:
            cut = found[min(rank, len(found) - 1)]
            kind = x.dtype.accumulator
            own = tuple(buffer("temp", len(temps) + i, kind) for i in range(len(cut.sizes)))
            temps += [Temp(size, kind) for size in cut.sizes]
            launches += cut.launches(Use(images, x, w, own, y, hook))
        yield Plan(tuple(launches), tuple(temps))


def _cuts(
    of: Correlation, dtype: DType, target: Target, pool: bool, sides: Sequence[int]
) -> Sequence[Cut]:
    """Return the cuts of the algorithms that compute a part, the cheapest first.

    `sides` are those of Winograd's tiles.
    """
    apart = None if pool else conv_depthwise.choose(of, dtype, target)
    if apart is not None:
        return (apart,)
    cuts: list[Cut | None] = [
        conv_rows.choose(of, dtype, target, pool=pool),
        conv_channels.choose(of, dtype, target, pool=pool),
        None if pool else conv_taps.choose(of, dtype, target),
        *(conv_winograd.choose(of, dtype, target, side) for side in sides),
    ]
    return sorted((cut for cut in cuts if cut), key=lambda cut: cut.cycles)
