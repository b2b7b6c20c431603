"""One kernel, launched over a grid; `teeny_triton` checks and converts the arguments."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

import numpy as np
from teeny_compiler.internal import compile_function
from teeny_core import DType
from teeny_triton.ir import Function, Pointer

from teeny_cpu.memory import address, empty
from teeny_cpu.runtime import load, pool

EXTENTS = 3
_BYTE = np.dtype(np.uint8)
_Loop = ctypes.CFUNCTYPE(
    None,
    *(ctypes.c_void_p,) * 3,
    *(ctypes.c_int64,) * 2,
    ctypes.c_void_p,
    ctypes.c_int64,
)


class CpuKernel:
    """Native code of a tile-IR function."""

    def __init__(self, function: Function) -> None:
        compiled = compile_function(function)
        self._library = load([compiled.code])
        self._address = self._library.address(compiled.symbol)
        self._scratch_bytes = compiled.scratch
        self._loop = _Loop(pool().parallel_for)
        self._elements = [parameter.value.type.element for parameter in function.parameters]

    def __call__(self, grid: tuple[int, int, int], arguments: Sequence[int | float]) -> None:
        """Run all programs of a grid, on all threads; returns when they are done.

        Args:
            grid: three extents.
            arguments: an address for each pointer parameter, a number for each scalar.
        """
        slots = (ctypes.c_uint64 * (EXTENTS + len(arguments)))(*grid)
        for slot, (value, element) in enumerate(
            zip(arguments, self._elements, strict=True), EXTENTS
        ):
            slots[slot] = int(value) if isinstance(element, Pointer) else _bits(value, element)
        scratch = empty((self._scratch_bytes,), _BYTE)
        self._loop(
            pool().address,
            self._address,
            ctypes.addressof(slots),
            math.prod(grid),
            1,
            address(scratch),
            self._scratch_bytes,
        )


def _bits(value: int | float, dtype: DType) -> int:
    return int.from_bytes(np.array(value).astype(dtype.numpy).tobytes(), "little")
