"""Element types in LLVM: in registers, in memory and in arithmetic.

f16, bf16 and the f8 types are kept in registers as integers of their size and computed in f32;
bool is i1 in registers and one byte in memory.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from teeny_core import DType
from teeny_triton.ir import Pointer

from teeny_compiler.codegen.builder import INT, LType, Operand, constant

Element = DType | Pointer


def is_narrow(element: Element) -> bool:
    """Whether this is a float type that is computed in f32."""
    return isinstance(element, DType) and element.kind == "float" and element.bits < 32


def register_scalar(element: Element) -> str:
    """Return the LLVM type that holds an element in a register."""
    if isinstance(element, Pointer):
        return "ptr"
    if element.kind == "bool":
        return "i1"
    if element.kind == "float" and element.bits >= 32:
        return "float" if element.bits == 32 else "double"
    return INT[element.bits]


def memory_scalar(element: Element) -> str:
    """Return the LLVM type of an element in memory."""
    scalar = register_scalar(element)
    return "i8" if scalar == "i1" else scalar


def element_bytes(element: Element) -> int:
    """Return the size of an element in memory (addresses have 8 bytes)."""
    return 8 if isinstance(element, Pointer) else element.bits // 8


def is_signed_int(element: Element) -> bool:
    """Whether this is a signed integer type."""
    return isinstance(element, DType) and element.kind == "int"


def element_constant(element: DType, value: float | int | bool, lanes: int = 1) -> Operand:
    """Return a constant as it is held in registers."""
    type = LType(register_scalar(element), lanes)
    if is_narrow(element):
        return constant(type, float_bits(element, value))
    return constant(type, value)


def float_bits(element: DType, value: float) -> int:
    """Return the bit pattern of a number rounded to a narrow float type."""
    wide = np.float32(value) if element.name != "f16" else np.float64(value)
    rounded = np.asarray(wide).astype(element.numpy)
    return int(rounded.view(np.uint16 if element.bits == 16 else np.uint8))


_ = ml_dtypes  # registers the narrow types with NumPy
