"""The templates of `max_pool2d`, `avg_pool2d` and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from teeny_core import Dim, ceildiv
from teeny_triton import Target
from teeny_triton.launch import Launch, Operand, Plan, Request

from teeny_kernels.kernels import pool as kernels
from teeny_kernels.kernels.correlation import Correlation
from teeny_kernels.kernels.pool import Pool
from teeny_kernels.kernels.sliding import Sliding, sliding
from teeny_kernels.launching import Buffer, Hook, Work, launch, operand_buffer, output_buffer

WORK = 32 * 1024
"""Elements of a program, about."""
MOST_UNROLLED = 25
"""Largest window that is unrolled."""

# op -> number of the input that is the images, of the one that is pooled images; -1: the output
_ROLES: Mapping[str, tuple[int, int]] = {
    "max_pool2d": (0, -1),
    "max_pool2d_grad": (0, 1),
    "avg_pool2d": (0, -1),
    "avg_pool2d_grad": (-1, 0),
}


class PoolTemplate:
    """Serves pooling of floats over images whose sizes are numbers."""

    name = "pool"
    ops: tuple[str, ...] = tuple(_ROLES)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launch for `request`, None for integers and symbolic image sizes."""
        operands = (*request.inputs, request.output)
        x, y = (operands[role] for role in _ROLES[request.op])
        t = _read(request, x, y, target)
        return None if t is None else Plan((_choose(request, t, x.shape[0]),))


TEMPLATE = PoolTemplate()


def _choose(request: Request, t: Pool, images: Dim) -> Launch:
    out = output_buffer(request.output, request.epilogue)
    inputs = [operand_buffer(i, operand) for i, operand in enumerate(request.inputs)]
    kind: Literal["max", "mean"] = "max" if request.op.startswith("max") else "mean"
    if request.op == "max_pool2d_grad":
        kernel = kernels.max_pool_squares_grad if _is_squares(t) else kernels.max_pool_grad
        buffers = {"x": inputs[0], "dy": inputs[1], "dx": out}
        return _launch(kernel, buffers, {"t": t}, request, t, images)
    if request.op == "avg_pool2d_grad":
        buffers = {"dy": inputs[0], "dx": out}
        return _launch(kernels.mean_pool_grad, buffers, {"t": t}, request, t, images)
    buffers = {"x": inputs[0], "y": out}
    if kind == "max" and _is_squares(t):
        return _launch(kernels.max_pool_squares, buffers, {"t": t}, request, t, images)
    if t.kernel[0] * t.kernel[1] <= MOST_UNROLLED:
        cut = {"t": _sliding(t, kind), "w": None}
        return _launch(sliding, buffers, cut, request, t, images)
    general = {"t": t, "mean": kind == "mean"}
    return _launch(kernels.pool, buffers, general, request, t, images)


def _launch(
    kernel: Any,
    buffers: Mapping[str, Buffer],
    constants: Mapping[str, Any],
    request: Request,
    t: Pool,
    images: Dim,
) -> Launch:
    large, small = t.height * t.width, t.rows * t.columns
    copies = 2 if request.op == "max_pool2d_grad" else 1
    moved = (copies * large + small) * request.output.dtype.itemsize
    planes = images * t.channels
    return launch(
        kernel,
        (ceildiv(planes, t.planes),),
        buffers,
        sizes={"images": images},
        constants=constants,
        hook=Hook.of(request.epilogue),
        work=Work(planes * small * t.kernel[0] * t.kernel[1], planes * moved),
    )


def _read(request: Request, x: Operand, y: Operand, target: Target) -> Pool | None:
    numbers: Any = (*x.shape[1:], *y.shape[1:], *x.strides, *y.strides)
    if not all(isinstance(number, int) for number in numbers) or not x.dtype.is_float:
        return None
    if x.dtype.bits < 16:
        return None
    attrs, lanes = request.attrs, target.lanes(x.dtype.accumulator)
    channels, height, width, _, rows, columns = numbers[:6]
    return Pool(
        channels,
        height,
        width,
        rows,
        columns,
        attrs["kernel"],
        attrs["stride"],
        attrs["padding"][0][0],
        attrs["padding"][1][0],
        numbers[6:10],
        numbers[10:],
        lanes,
        2 if lanes > 1 and columns > lanes else 1,
        max(1, WORK // max(1, height * width)),
        x.dtype.accumulator,
        attrs.get("count_include_pad", True),
    )


def _is_squares(t: Pool) -> bool:
    plain = (t.kernel, t.stride, t.top, t.left) == ((2, 2), (2, 2), 0, 0)
    return plain and not t.reaches_out and min(t.rows, t.columns) > 0


def _sliding(t: Pool, kind: Literal["max", "mean"]) -> Sliding:
    of = Correlation(
        channels=1,
        height=t.height,
        width=t.width,
        filters=1,
        rows=t.rows,
        columns=t.columns,
        kernel=t.kernel,
        stride=t.stride,
        dilation=(1, 1),
        top=t.top,
        left=t.left,
        x=(t.x[0], t.x[1], 0, t.x[2], t.x[3]),
        w=(0, 0, 0, 0, 0),
        y=(t.y[0], t.y[1], 0, t.y[2], t.y[3]),
        groups=t.channels,
    )
    rows = min(4, max(1, t.rows))
    return Sliding(of, kind, t.count_pad, t.dtype, t.lanes, rows, t.planes)
