"""Rules of ops along an axis: reductions, scans, sorts, lookups."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core import i32, i64

from teeny_triton.ir import REDUCTIONS, Type
from teeny_triton.rules.signature import INTEGERS, NUMBERS, Rule, Signature, is_kind


def _reduce(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    x = s.operands[0]
    kind, axis = s.attr("kind", str), s.axis(len(x.shape))
    s.require(kind in REDUCTIONS, f"kind {kind!r} is none of {', '.join(REDUCTIONS)}")
    kinds = ("bool", "int", "uint") if kind == "xor_sum" else NUMBERS
    s.require(is_kind(x.element, *kinds), f"{kind} takes {' or '.join(kinds)} elements")
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return (Type(shape, i32 if kind.startswith("arg") else x.element),)


def _several(s: Signature) -> int:
    """Check tiles that a region combines along an axis, which is returned."""
    s.require(bool(s.operands), "takes at least one tile")
    shape = s.operands[0].shape
    s.require(all(x.shape == shape for x in s.operands), "the tiles differ in shape")
    s.require(not any(x.is_pointer for x in s.operands), "does not combine pointers")
    return s.axis(len(shape))


def _reduce_by(s: Signature) -> tuple[Type, ...]:
    axis = _several(s)
    shape = s.operands[0].shape
    return tuple(x.with_shape((*shape[:axis], *shape[axis + 1 :])) for x in s.operands)


def _scan(s: Signature) -> tuple[Type, ...]:
    _several(s)
    s.attr("reverse", bool)
    return s.operands


def _sort(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    x = s.operands[0]
    axis, keep = s.axis(len(x.shape)), s.attr("keep", int)
    s.attr("descending", bool)
    s.require(is_kind(x.element, "bool", *NUMBERS), "takes elements that have an order")
    s.require(1 <= keep <= x.shape[axis], f"cannot keep {keep} of {x.shape[axis]} elements")
    return (x.with_shape((*x.shape[:axis], keep, *x.shape[axis + 1 :])),)


def _gather(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    x, index = s.operands
    axis = s.axis(len(x.shape))
    s.require(not x.is_pointer, "does not move pointers")
    s.require(index.element in (i32, i64), "the index must be i32 or i64")
    alike = len(index.shape) == len(x.shape) and all(
        a == b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if i != axis
    )
    s.require(alike, f"extents differ off axis {axis}")
    return (x.with_shape(index.shape),)


def _flip(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    s.axis(len(s.operands[0].shape))
    return s.operands


def _histogram(s: Signature) -> tuple[Type, ...]:
    s.count(1, 2)
    x, wanted = s.operands[0], s.result()
    s.require(len(x.shape) == 1 and is_kind(x.element, *INTEGERS), "takes one axis of integers")
    s.mask(1)
    s.require(len(wanted.shape) == 1, f"cannot become {wanted}")
    return (Type(wanted.shape, i32),)


RULES: Mapping[str, Rule] = {
    "reduce": _reduce,
    "reduce_by": _reduce_by,
    "scan": _scan,
    "sort": _sort,
    "gather": _gather,
    "flip": _flip,
    "histogram": _histogram,
}
