"""Element types and the promotion table.

Promotion follows PyTorch: bool < integers < floats, and within a category the smallest type that
holds both. Python scalars are weak: they only raise the category, never the width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Optional, TypeAlias

import numpy as np
import numpy.typing as npt

from teeny_core.errors import DTypeError


@dataclass(frozen=True)
class DType:
    """An element type: `kind` is one of bool, int, uint, float; `bits` its storage size."""

    name: str
    kind: str
    bits: int

    def __or__(self, other: None) -> Any:
        """Return the annotation of a number of this type or None, `i32 | None`, as classes do."""
        return Optional[self] if other is None else NotImplemented  # noqa: UP045

    __ror__ = __or__

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.bits // 8

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """Whether this is a signed or unsigned integer type (bool is not)."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """Whether values below zero exist."""
        return self.kind in ("int", "float")

    @property
    def is_bool(self) -> bool:
        """Whether this is the type of truth values."""
        return self.kind == "bool"

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of the same layout (from ml_dtypes for bf16 and f8)."""
        return _NUMPY[self] if self in _NUMPY else _narrow()[self]

    @property
    def min(self) -> int | float:
        """The smallest finite value."""
        return _limits(self)[0]

    @property
    def max(self) -> int | float:
        """The largest finite value."""
        return _limits(self)[1]

    @property
    def accumulator(self) -> DType:
        """The type in which sums and products of this type are held: f32 for narrower floats."""
        return f32 if self.is_float and self.bits < 32 else self

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


bool_ = DType("bool", "bool", 8)
i8 = DType("i8", "int", 8)
i16 = DType("i16", "int", 16)
i32 = DType("i32", "int", 32)
i64 = DType("i64", "int", 64)
u8 = DType("u8", "uint", 8)
u16 = DType("u16", "uint", 16)
u32 = DType("u32", "uint", 32)
u64 = DType("u64", "uint", 64)
f16 = DType("f16", "float", 16)
bf16 = DType("bf16", "float", 16)
f32 = DType("f32", "float", 32)
f64 = DType("f64", "float", 64)
f8e4m3 = DType("f8e4m3", "float", 8)
f8e5m2 = DType("f8e5m2", "float", 8)

ALL = (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2)
FLOATS = tuple(d for d in ALL if d.is_float)
INTS = tuple(d for d in ALL if d.is_int)

_NUMPY: dict[DType, np.dtype[np.generic]] = {
    bool_: np.dtype(np.bool_),
    i8: np.dtype(np.int8),
    i16: np.dtype(np.int16),
    i32: np.dtype(np.int32),
    i64: np.dtype(np.int64),
    u8: np.dtype(np.uint8),
    u16: np.dtype(np.uint16),
    u32: np.dtype(np.uint32),
    u64: np.dtype(np.uint64),
    f16: np.dtype(np.float16),
    f32: np.dtype(np.float32),
    f64: np.dtype(np.float64),
}
_FROM_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items()}
_REGISTERED = 2
"""What `isbuiltin` is of a NumPy dtype that another package has brought."""


@cache
def _narrow() -> Mapping[DType, np.dtype[np.generic]]:
    """The types that NumPy lacks; their package is imported when one of them is first met."""
    import ml_dtypes

    return {
        bf16: np.dtype(ml_dtypes.bfloat16),
        f8e4m3: np.dtype(ml_dtypes.float8_e4m3fn),
        f8e5m2: np.dtype(ml_dtypes.float8_e5m2),
    }


DTypeLike: TypeAlias = DType | str | type | np.dtype[np.generic] | npt.DTypeLike

_ALIASES: dict[object, DType] = {
    **{d.name: d for d in ALL},
    **{numpy.name: dtype for numpy, dtype in _FROM_NUMPY.items()},
    "bfloat16": bf16,
    "float8_e4m3fn": f8e4m3,
    "float8_e5m2": f8e5m2,
    "half": f16,
    "float": f32,
    "double": f64,
    "int": i32,
    "long": i64,
    bool: bool_,
    int: i64,
    float: f32,
}


def dtype(value: DTypeLike) -> DType:
    """Coerce a name ("f32", "float32"), a Python type, or a NumPy dtype to a `DType`.

    Raises:
        DTypeError: for anything else.
    """
    if isinstance(value, DType):
        return value
    found = _ALIASES.get(value) if isinstance(value, (str, type)) else None
    if found is None:
        found = _from_numpy(value)
    if found is None:
        names = ", ".join(d.name for d in ALL)
        raise DTypeError(f"{value!r} is no element type", hint=f"the element types are {names}")
    return found


def _from_numpy(value: object) -> DType | None:
    if value is None or isinstance(value, str):  # NumPy reads None as f64, "i8" as eight bytes
        return None
    try:
        numpy = np.dtype(value)  # type: ignore[call-overload]
    except TypeError:
        return None
    found = _FROM_NUMPY.get(numpy.newbyteorder("="))
    if found is None and numpy.isbuiltin == _REGISTERED:
        found = next((narrow for narrow, same in _narrow().items() if same == numpy), None)
    return found


@cache
def _limits(dtype: DType) -> tuple[int | float, int | float]:
    if dtype.is_float:
        import ml_dtypes

        info = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
        return float(info.min), float(info.max)
    if dtype.is_bool:
        return 0, 1
    signed = dtype.kind == "int"
    bits = dtype.bits - signed
    return (-(1 << bits) if signed else 0), (1 << bits) - 1


_CATEGORY = {"bool": 0, "uint": 1, "int": 1, "float": 2}


@cache
def promote(a: DType, b: DType) -> DType:
    """Return the type in which `a` and `b` meet, as in PyTorch.

    Raises:
        DTypeError: for pairs that have no meeting type (u64 with a signed integer, two f8 types).
    """
    if a == b:
        return a
    if _CATEGORY[a.kind] != _CATEGORY[b.kind]:
        return a if _CATEGORY[a.kind] > _CATEGORY[b.kind] else b
    found = _promote_floats(a, b) if a.is_float else _promote_ints(a, b)
    if found is None:
        raise DTypeError(
            f"{a} and {b} have no common type", hint="cast one of them: x.cast(tn.f32)"
        )
    return found


def _promote_floats(a: DType, b: DType) -> DType | None:
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return f32 if a.bits == 16 else None


def _promote_ints(a: DType, b: DType) -> DType | None:
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    bits = max(signed.bits, unsigned.bits * 2)
    return {16: i16, 32: i32, 64: i64}.get(bits)


def weak(scalar: bool | int | float, dtype: DType) -> DType:
    """Return the type in which a Python scalar and a tensor of `dtype` meet."""
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return i64 if dtype.is_bool else dtype
    return dtype if dtype.is_float else f32
