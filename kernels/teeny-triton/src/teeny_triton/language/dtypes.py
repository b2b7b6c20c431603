"""Element types under teeny's and Triton's names, and what kernel parameters are annotated with.

`Ptr[f32]` is an address of f32, `Ptr[f32, contiguous]` one of memory without gaps in row-major
order, `i32` a scalar, `constexpr` a Python value known when the kernel is built, `constexpr[int]`
one of a type, `TypeVar("T", f32, bf16)` one of several dtypes, the same wherever it stands. To a
type checker all of these are classes (see the stub beside this file), so that kernels type-check.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence

from teeny_core import (
    DType,
    bf16,
    bool_,
    dtype,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)

from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Type
from teeny_triton.language.constants import constexpr as constexpr
from teeny_triton.language.patterns import DTypeVariable, PointerPattern

int1 = bool_
int8, int16, int32, int64 = i8, i16, i32, i64
uint8, uint16, uint32, uint64 = u8, u16, u32, u64
float16, bfloat16, float32, float64 = f16, bf16, f32, f64
float8e4nv, float8e5 = f8e4m3, f8e5m2

# Formats of other chips, by name only: kernels compare types with them; to use one is an error.
float8e4b8, float8e4b15, float8e5b16 = "float8e4b8", "float8e4b15", "float8e5b16"

TRITON_NAMES: Mapping[str, DType] = {
    **{f"{sign}{bits}": dtype(f"{sign}{bits}") for sign in "iu" for bits in (8, 16, 32, 64)},
    **{f"fp{bits}": dtype(f"f{bits}") for bits in (16, 32, 64)},
    **{"i1": bool_, "u1": bool_, "bf16": bf16, "fp8e4nv": f8e4m3, "fp8e5": f8e5m2},
}
"""Triton's names of element types in strings; "*fp32" is a pointer."""

TypeVar = DTypeVariable

TRITON_MAX_TENSOR_NUMEL = 1 << 20
"""The most elements of a tile in Triton, by which kernels choose blocks; here there is no limit."""


class contiguous:  # noqa: N801 - reads as a property of what is pointed at
    """In `Ptr[f32, contiguous]`: the memory is in row-major order without gaps."""


class Ptr:
    """`Ptr[f32]`, `Ptr[T]`, `Ptr[T, contiguous]`: the type of a pointer parameter."""

    def __class_getitem__(cls, item: object) -> Pointer | PointerPattern:
        pointee, *properties = item if isinstance(item, tuple) else (item,)
        if isinstance(pointee, typing.TypeVar):
            pointee = DTypeVariable(pointee.__name__)
        if not isinstance(pointee, DType | DTypeVariable) or properties not in ([], [contiguous]):
            raise KernelError(
                f"a pointer cannot point at {item!r}",
                hint="write Ptr[f32], Ptr[T] or Ptr[f32, contiguous]",
            )
        if isinstance(pointee, DType) and not properties:
            return Pointer(pointee)
        return PointerPattern(pointee, bool(properties))


def pointer_type(pointee: DType) -> Pointer:
    """Return the type of an address of `pointee` elements."""
    return Pointer(pointee)


pi32_t = Pointer(i32)


class const:  # noqa: N801 - Triton's name
    """Annotation of a pointer through which nothing is stored; it leaves the dtype open."""


def block_type(element_ty: DType | Pointer, shape: Sequence[int]) -> Type:
    """Return the type of a tile, to compare `x.type` with."""
    return Type(tuple(shape), element_ty)


def get_int_dtype(bitwidth: int, signed: bool) -> DType:
    """Return the integer type of a width."""
    return dtype(f"{'i' if signed else 'u'}{bitwidth}")
