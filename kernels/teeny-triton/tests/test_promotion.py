"""Which type arithmetic has: tables of Triton's rules, written out."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, DTypeError, dtype
from teeny_triton import KernelError, build_function

SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
MIXED = {  # unsigned -> what it meets i8, i16, i32 and i64 in
    "u8": ("u8", "i16", "i32", "i64"),
    "u16": ("u16", "u16", "i32", "i64"),
    "u32": ("u32", "u32", "u32", "i64"),
    "u64": ("u64", "u64", "u64", "u64"),
}
FLOATS = {  # rows and columns in the order of the keys
    "f8e4m3": ("f32", "f16", "f16", "f32", "f32", "f64"),
    "f8e5m2": ("f16", "f32", "f16", "f32", "f32", "f64"),
    "f16": ("f16", "f16", "f16", "f16", "f32", "f64"),
    "bf16": ("f32", "f32", "f16", "bf16", "f32", "f64"),
    "f32": ("f32", "f32", "f32", "f32", "f32", "f64"),
    "f64": ("f64", "f64", "f64", "f64", "f64", "f64"),
}


def table() -> dict[tuple[str, str], str]:
    found = {}
    for kinds in (SIGNED, UNSIGNED):
        for (i, a), (j, b) in itertools.product(enumerate(kinds), repeat=2):
            found[a, b] = kinds[max(i, j)]
    for unsigned, row in MIXED.items():
        for signed, result in zip(SIGNED, row, strict=True):
            found[signed, unsigned] = found[unsigned, signed] = result
    for a, row in FLOATS.items():
        for b, result in zip(FLOATS, row, strict=True):
            found[a, b] = result
    for a, b in itertools.product((*SIGNED, *UNSIGNED, "bool"), FLOATS):
        found[a, b] = found[b, a] = b if b in ("f16", "f64") else "f32"
    return found


def result_of(function: object, *kinds: str | float) -> str:
    with build_function("k", []):
        operands = [tl.zeros((4,), dtype(k)) if isinstance(k, str) else k for k in kinds]
        result = function(*operands)  # type: ignore[operator]
        assert isinstance(result.dtype, DType)
        return result.dtype.name


CHOICE = lambda a, b: tl.where(a > b, a, b)  # noqa: E731


@pytest.mark.parametrize("function", [operator.add, operator.mul, tl.maximum, CHOICE])
def test_two_tiles(function: object) -> None:
    for (a, b), wanted in table().items():
        if a == b and a.startswith("f8"):
            continue  # a choice between equal types stays; arithmetic goes to f32
        assert result_of(function, a, b) == wanted, (a, b)


@pytest.mark.parametrize(
    ("kind", "number", "wanted"),
    [
        ("i8", 1, "i8"), ("u8", 1, "u8"), ("i8", True, "i8"), ("bool", 1, "i32"),
        ("i8", 1.5, "f32"), ("i64", 0.5, "f32"), ("i32", 1e300, "f64"), ("bool", 1.0, "f32"),
        ("f16", 2, "f16"), ("bf16", 2.5, "bf16"), ("f16", 1e300, "f16"), ("f64", 2.5, "f64"),
        ("f8e5m2", 2.0, "f32"), ("u64", 2**63, "u64"),
    ],
)  # fmt: skip
def test_a_number_is_weak(kind: str, number: float, wanted: str) -> None:
    assert result_of(operator.add, kind, number) == wanted
    assert result_of(operator.mul, number, kind) == wanted


@pytest.mark.parametrize(
    ("function", "a", "b", "wanted"),
    [
        (operator.truediv, "f16", "f16", "f32"), (operator.truediv, "bf16", "bf16", "f32"),
        (operator.truediv, "f16", 2, "f32"), (operator.truediv, "i64", "i64", "f32"),
        (operator.truediv, "i8", 2, "f32"), (operator.truediv, "f64", "f16", "f64"),
        (operator.mod, "bf16", 2.0, "f32"), (operator.floordiv, "i16", "i8", "i16"),
        (operator.mod, "u8", "u32", "u32"), (operator.truediv, "f8e4m3", "f8e5m2", "f32"),
    ],
)  # fmt: skip
def test_divisions(function: object, a: str, b: str | float, wanted: str) -> None:
    assert result_of(function, a, b) == wanted


def test_what_is_refused() -> None:
    with build_function("k", []):
        signed, unsigned = tl.zeros((4,), tl.int32), tl.zeros((4,), tl.uint32)
        for divide in (operator.truediv, operator.floordiv, operator.mod):
            with pytest.raises(KernelError, match="one is signed, the other is not"):
                divide(signed, unsigned)
        with pytest.raises(KernelError, match="-1 does not fit u32"):
            unsigned + (-1)
        with pytest.raises(KernelError, match="300 does not fit i8"):
            operator.lt(signed.to(tl.int8), 300)
        with pytest.raises(DTypeError, match="float8e4b15"):
            signed.to(tl.float8e4b15)


def test_floor_semantics() -> None:
    """Where C and Triton truncate, `//` and `%` round down, as Python does."""
    a, b = np.int32([7, -7, 7, -7]), np.int32([2, 2, -2, -2])
    with build_function("k", []) as f:
        values = [tl.full((), int(v), tl.int32) for v in (*a, *b)]
        for x, y, p, q in zip(values[:4], values[4:], a.tolist(), b.tolist(), strict=True):
            assert f.builder.constant_of((x // y).value) == p // q
            assert f.builder.constant_of((x % y).value) == p % q
