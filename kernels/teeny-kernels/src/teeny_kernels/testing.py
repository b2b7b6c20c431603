"""Running plans on NumPy arrays, for tests: by the interpreter, or by any function like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from teeny_core import Dim, DType, Shape, dtype, substitute
from teeny_triton import interpret
from teeny_triton.ir import Function
from teeny_triton.launch import BufferArg, Operand, Plan, ScalarArg

Array = npt.NDArray[Any]
Execute = Callable[[Function, Sequence[int], Sequence[Any]], None]


def operand(array: Array, shape: Shape | None = None, *, constant: bool = False) -> Operand:
    """Describe an array; `shape` gives symbolic extents, for a contiguous array."""
    kind = dtype(array.dtype)
    if array.size == 0:  # NumPy's strides of nothing mean nothing
        return contiguous(shape or array.shape, kind, constant=constant)
    if shape is None:
        strides = tuple(stride // array.itemsize for stride in array.strides)
        return Operand(array.shape, strides, kind, constant)
    return contiguous(shape, kind, constant=constant)


def contiguous(shape: Shape, kind: DType, *, constant: bool = False) -> Operand:
    """Describe a row-major buffer."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step = step * extent
    return Operand(tuple(shape), tuple(strides), kind, constant)


def run(
    plan: Plan,
    inputs: Sequence[Array],
    output: Array,
    *,
    extra: Sequence[Array] = (),
    symbols: Mapping[str, int] | None = None,
    execute: Execute = interpret,
) -> Array:
    """Run the launches of a plan in order and return the output, which they write.

    Temporary memory starts as NaN.
    """
    env = dict(symbols or {})
    temps = [np.full(_number(t.size, env), np.nan, t.dtype.numpy) for t in plan.temps]
    buffers = {"input": inputs, "output": [output], "extra": extra, "temp": temps}

    def value(argument: BufferArg | ScalarArg) -> Any:
        if isinstance(argument, BufferArg):
            return buffers[argument.kind][argument.index]
        if isinstance(argument.value, float):
            return argument.value
        return _number(argument.value, env)

    for launch in plan.launches:
        grid = tuple(_number(extent, env) for extent in launch.grid)
        execute(launch.function, grid, [value(argument) for argument in launch.arguments])
    return output


def _number(dim: Dim, env: Mapping[str, int]) -> int:
    result = substitute(dim, env)
    if not isinstance(result, int):
        raise KeyError(f"no value for the symbols of {dim}")
    return result
