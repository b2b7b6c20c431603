"""The templates of `max_pool2d`, `avg_pool2d` and their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from teeny_core import Dim, ceildiv
from teeny_triton import Kernel, Target
from teeny_triton.launch import Operand, Plan, Request

from teeny_kernels.kernels import pool as kernels
from teeny_kernels.kernels.pool import Pool
from teeny_kernels.launching import Hook, Work, launch, operand_buffer, output_buffer

WORK = 64 * 1024
"""Elements of a program, about."""

# op -> number of the input that is the images, of the one that is pooled images; -1: the output
_ROLES: Mapping[str, tuple[int, int]] = {
    "max_pool2d": (0, -1),
    "max_pool2d_grad": (0, 1),
    "avg_pool2d": (0, -1),
    "avg_pool2d_grad": (-1, 0),
}
_GENERAL: Mapping[str, Kernel] = {
    "max_pool2d": kernels.max_pool,
    "max_pool2d_grad": kernels.max_pool_grad,
    "avg_pool2d": kernels.avg_pool,
    "avg_pool2d_grad": kernels.avg_pool_grad,
}
_SQUARES: Mapping[str, Kernel] = {
    "max_pool2d": kernels.max_pool_squares,
    "max_pool2d_grad": kernels.max_pool_squares_grad,
}
_NAMES: Mapping[str, tuple[str, ...]] = {
    "max_pool2d": ("x", "y"),
    "max_pool2d_grad": ("x", "dy", "dx"),
    "avg_pool2d": ("x", "y"),
    "avg_pool2d_grad": ("dy", "dx"),
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
        if t is None:
            return None
        general = _GENERAL[request.op]
        kernel = _SQUARES.get(request.op, general) if _is_squares(t) else general
        if kernel is not general and t.lanes > 1:
            t = replace(t, vectors=max(1, min(2, -(-t.columns // t.lanes))))
        buffers = [operand_buffer(i, operand) for i, operand in enumerate(request.inputs)]
        buffers.append(output_buffer(request.output, request.epilogue))
        names = _NAMES[request.op]
        return Plan((launch(
            kernel,
            (ceildiv(x.shape[0] * t.channels, t.planes),),
            dict(zip(names, buffers, strict=True)),
            sizes={"images": x.shape[0]},
            constants={"t": t},
            hook=Hook.of(request.epilogue),
            work=_work(request, t, x.shape[0]),
        ),))  # fmt: skip


TEMPLATE = PoolTemplate()


def _read(request: Request, x: Operand, y: Operand, target: Target) -> Pool | None:
    numbers: Any = (*x.shape[1:], *y.shape[1:], *x.strides, *y.strides)
    if not all(isinstance(number, int) for number in numbers) or not x.dtype.is_float:
        return None
    if x.dtype.bits < 16:
        return None
    attrs, lanes = request.attrs, target.lanes(x.dtype.accumulator)
    channels, height, width, _, rows, columns = numbers[:6]
    columns_out = width if request.op.endswith("grad") else columns
    plane = max(1, height * width)
    return Pool(
        channels, height, width, rows, columns, attrs["kernel"], attrs["stride"],
        attrs["padding"][0][0], attrs["padding"][1][0], numbers[6:10], numbers[10:],
        lanes, max(1, min(4, columns_out // lanes)), max(1, WORK // plane),
        x.dtype.accumulator, float("-inf"), attrs.get("count_include_pad", True),
    )  # fmt: skip


def _is_squares(t: Pool) -> bool:
    plain = (t.kernel, t.stride, t.top, t.left) == ((2, 2), (2, 2), 0, 0)
    return plain and not t.reaches_out and min(t.rows, t.columns) > 0


def _work(request: Request, t: Pool, images: Dim) -> Work:
    large, small = t.height * t.width, t.rows * t.columns
    planes = images * t.channels
    copies = 2 if request.op == "max_pool2d_grad" else 1
    taps = t.kernel[0] * t.kernel[1]
    moved = (copies * large + small) * request.output.dtype.itemsize
    return Work(planes * small * taps, planes * moved)
