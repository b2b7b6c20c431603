"""Which element type an operation computes in: Triton's promotion rules.

Two tiles meet by kind (bool < integer < float), then by width; integers of one width and mixed
sign meet as unsigned, as in C; f16 wins over bf16, which meets f8 in f32; two kinds of f8 meet in
f16. A Python number is weak: it takes the tile's type unless its kind is higher. Division of
16-bit floats computes in f32. Where Triton would compute in f8 or in bool, arithmetic here is done
in f32 and in i32; f8 meets integers in f32, which Triton refuses.
"""

from __future__ import annotations

from teeny_core import DType, bf16, bool_, f16, f32, f64, i32, i64, u32, u64

from teeny_triton.builder import Scalar
from teeny_triton.errors import KernelError

_RANK = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def scalar_dtype(value: Scalar) -> DType:
    """Return the type that a Python number has on its own: bool, i32 (wider at need) or f32."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        for candidate in (i32, u32, i64, u64):
            if candidate.min <= value <= candidate.max:
                return candidate
        raise KernelError(f"{value} fits no integer type")
    magnitude = abs(value)
    finite = magnitude not in (0.0, float("inf")) and magnitude == magnitude
    return f64 if finite and not 2.0**-126 <= magnitude <= f32.max else f32


def computation_dtype(a: DType | Scalar, b: DType | Scalar, *, division: bool = False) -> DType:
    """Return the type in which an operation on `a` and `b` runs; a Python number is weak.

    Raises:
        KernelError: signed meets unsigned in a division.
    """
    left, right = _strong(a), _strong(b)
    a_weak, b_weak = not isinstance(a, DType), not isinstance(b, DType)
    if a_weak != b_weak:
        weak, tile = (left, right) if a_weak else (right, left)
        if _RANK[weak.kind] <= _RANK[tile.kind]:
            left = right = tile
    if left.is_float or right.is_float:
        return _floats(left, right, division)
    return _integers(left, right, division)


def _strong(x: DType | Scalar) -> DType:
    return x if isinstance(x, DType) else scalar_dtype(x)


def _floats(a: DType, b: DType, division: bool) -> DType:
    for wide in (f64, f32):
        if wide in (a, b):
            return wide
    if a != b and a.is_float and b.is_float and a.bits == b.bits == 8:
        return f32 if division else f16
    half = f16 if f16 in (a, b) else bf16 if a == b == bf16 else f32
    return f32 if division else half


def _integers(a: DType, b: DType, division: bool) -> DType:
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    if bool_ in (a, b):
        return b if a == bool_ else a
    if division:
        raise KernelError(
            f"cannot divide {a} and {b}: one is signed, the other is not",
            hint="cast one of them to the other's type with .to(...)",
        )
    signed, unsigned = (a, b) if a.kind == "int" else (b, a)
    return unsigned if unsigned.bits >= signed.bits else signed
