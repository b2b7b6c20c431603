"""Names of the language that are no functions of tiles, each with what must hold of it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np
import teeny_triton.language as tl
from teeny_core import DType
from teeny_triton import Ptr, build_function, parse

# Name of a dtype here: that of the same type in NumPy or ml_dtypes.
ELEMENTS: Mapping[str, type] = {
    "bool_": np.bool_,
    "int1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "bfloat16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "float8e4nv": ml_dtypes.float8_e4m3fn,
    "float8e5": ml_dtypes.float8_e5m2,
}
FOREIGN = ("float8e4b8", "float8e4b15", "float8e5b16")
"""Formats of other chips, known by name only."""


def _is_element(name: str, numpy: type) -> Callable[[], bool]:
    def check() -> bool:
        dtype = getattr(tl, name)
        return isinstance(dtype, DType) and np.dtype(dtype.numpy) == np.dtype(numpy)

    return check


def _a_function_is_built() -> bool:
    with build_function("f", [("x", Ptr[tl.f32], tl.Facts(alignment=64))]) as f:
        tl.store(f.arguments[0], 1.0)
    return parse(str(f.function)).parameters[0].alignment == 64


DECLARATIONS: Mapping[str, Callable[[], bool]] = {
    **{name: _is_element(name, numpy) for name, numpy in ELEMENTS.items()},
    **{name: lambda name=name: getattr(tl, name) == name for name in FOREIGN},
    "Facts": _a_function_is_built,
    "build_function": _a_function_is_built,
    "Ptr": lambda: str(tl.Ptr[tl.f32]) == "ptr<f32>",
    "contiguous": lambda: tl.Ptr[tl.f32, tl.contiguous].contiguous,
    "TypeVar": lambda: tl.TypeVar("T", tl.f32, tl.bf16).choices == (tl.f32, tl.bf16),
    "constexpr": lambda: tl.constexpr(3).value == 3,
    "Operand": lambda: isinstance(3, tl.Operand),
    "tuple": lambda: tl.tuple is builtins.tuple,
    "next_power_of_2": lambda: [tl.next_power_of_2(n) for n in (1, 5, 8)] == [1, 8, 8],
    "const": lambda: isinstance(tl.const, type),
    "pi32_t": lambda: str(tl.pi32_t) == "ptr<i32>",
    "get_int_dtype": lambda: (
        (tl.get_int_dtype(16, True), tl.get_int_dtype(8, False)) == (tl.i16, tl.u8)
    ),
    "TRITON_MAX_TENSOR_NUMEL": lambda: tl.TRITON_MAX_TENSOR_NUMEL == 2**20,
    "standard": lambda: tl.standard.sum is tl.sum,
    "target_info": lambda: (
        not (
            tl.target_info.is_cuda()
            or tl.target_info.is_hip()
            or tl.target_info.cuda_capability_geq(9, 0)
        )
    ),
    "core": lambda: tl.core.load is tl.load,
    "math": lambda: tl.math.exp is tl.exp,
    "random": lambda: tl.random.rand is tl.rand,
    "extra": lambda: callable(tl.extra.libdevice.exp),
}
