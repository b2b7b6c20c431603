"""Addresses as numbers: conversions, differences and order."""

from __future__ import annotations

from teeny_core import DType, i64, u64

from teeny_triton.builder import current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Type, Value


def convert(x: Value, wanted: DType | Pointer) -> Value:
    """Turn an address into a number, a number into an address, or change what it points at.

    An address is a number of bytes in 64 bits; a narrower integer gets the low ones.

    Raises:
        KernelError: a float.
    """
    for element in (x.type.element, wanted):
        if isinstance(element, DType) and element.is_float:
            raise KernelError(
                f"{x.type} cannot become {wanted}: an address is no float",
                hint="convert it to tl.int64, or load what it points at",
            )
    if isinstance(wanted, Pointer):
        return _bitcast(x if x.type.is_pointer or x.type.element == u64 else _cast(x, i64), wanted)
    return _cast(_bitcast(x, i64), wanted)


def difference(a: Value, b: Value) -> Value:
    """Return how many elements lie between two addresses of one type, an i64."""
    element = a.type.element
    assert isinstance(element, Pointer)
    distance = current().op("sub", _bitcast(a, i64), _bitcast(b, i64))
    size = current().full(a.type.shape, element.pointee.itemsize, i64)
    return current().op("floordiv", distance, size)


def compare(opcode: str, a: Value, b: Value) -> Value:
    """Compare two addresses of one type and shape."""
    if opcode in ("eq", "ne"):
        return current().op(opcode, a, b)
    return current().op(opcode, _bitcast(a, u64), _bitcast(b, u64))


def _cast(x: Value, dtype: DType) -> Value:
    return current().op("cast", x, wanted=Type(x.type.shape, dtype))


def _bitcast(x: Value, element: DType | Pointer) -> Value:
    return current().op("bitcast", x, wanted=Type(x.type.shape, element))
