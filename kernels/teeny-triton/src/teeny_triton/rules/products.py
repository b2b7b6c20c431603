"""Rules of products of matrices."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core import DType, f32, f64, i8, i32, u8

from teeny_triton.ir import Type
from teeny_triton.rules.signature import NARROW_FLOATS, Rule, Signature


def accumulator(a: DType, b: DType) -> DType | None:
    """Return the element type in which `dot` sums products of `a` and `b`, None if it cannot."""
    if a == f64 and b == f64:
        return f64
    if a.kind == "float" and (a == b or {a, b} <= NARROW_FLOATS):
        return f32
    if a in (i8, u8) and b in (i8, u8):
        return i32
    return None


def _dot(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    a, b, acc = s.operands
    s.require(len(a.shape) == len(b.shape) in (2, 3), "takes two matrices, or batches of them")
    s.require(a.shape[:-2] == b.shape[:-2], "the batches differ")
    s.require(a.shape[-1] == b.shape[-2], f"inner extents {a.shape[-1]} and {b.shape[-2]} differ")
    pair = isinstance(a.element, DType) and isinstance(b.element, DType)
    element = accumulator(a.element, b.element) if pair else None  # type: ignore[arg-type]
    s.require(element is not None, "cannot multiply these elements")
    assert element is not None
    wanted = Type((*a.shape[:-1], b.shape[-1]), element)
    s.require(acc == wanted, f"the accumulator must be {wanted}")
    return (wanted,)


def _dot_words(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    a, b, acc = s.operands
    s.require(a == b == acc and acc.element == i32, "takes three of i32 and of one shape")
    pair = (s.attr("left", str), s.attr("right", str))
    bytes_ = all(part in ("i8", "u8") for part in pair)
    s.require(bytes_ or pair == ("i16", "i16"), f"cannot multiply words of {' and '.join(pair)}")
    return (acc,)


RULES: Mapping[str, Rule] = {
    "dot": _dot,
    "dot_words": _dot_words,
}
