"""Rules of addresses, and of ops that reach memory."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core import i32, i64

from teeny_triton.ir import ATOMICS, ORDERS, Pointer, Type
from teeny_triton.rules.signature import INTEGERS, NUMBERS, Rule, Signature, is_kind

PREFETCH_LEVELS = (1, 2, 3)


def _pointee(s: Signature) -> Type:
    """The type of what the first operand points at."""
    s.require(s.operands[0].is_pointer, "takes a pointer first")
    element = s.operands[0].element
    assert isinstance(element, Pointer)
    return Type(s.operands[0].shape, element.pointee)


def _addptr(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    pointer, offset = s.operands
    _pointee(s)
    s.require(offset.element in (i32, i64), "the offset must be i32 or i64")
    s.require(offset.shape == pointer.shape, "pointer and offset differ in shape")
    return (pointer,)


def _load(s: Signature) -> tuple[Type, ...]:
    s.count(1, 3)
    pointee = _pointee(s)
    s.mask(1)
    if len(s.operands) == 3:
        s.require(s.operands[2] == pointee, f"`other` must be {pointee}")
    return (pointee,)


def _store(s: Signature) -> tuple[Type, ...]:
    s.count(2, 3)
    pointee = _pointee(s)
    s.require(s.operands[1] == pointee, f"the value must be {pointee}")
    s.mask(2)
    return ()


def _atomic_rmw(s: Signature) -> tuple[Type, ...]:
    _store(s)
    kind = s.attr("kind", str)
    s.require(kind in ATOMICS, f"kind {kind!r} is none of {', '.join(ATOMICS)}")
    _order(s)
    kinds = INTEGERS if kind in ("and", "or", "xor") else NUMBERS
    fits = kind == "xchg" or is_kind(s.operands[1].element, *kinds)
    s.require(fits, f"{kind} takes {' or '.join(kinds)} elements")
    return (s.operands[1],)


def _atomic_cas(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    pointee = _pointee(s)
    s.require(s.operands[1] == pointee, f"the expected value must be {pointee}")
    s.require(s.operands[2] == pointee, f"the value must be {pointee}")
    _order(s)
    return (pointee,)


def _order(s: Signature) -> None:
    order = s.attr("sem", str)
    s.require(order in ORDERS, f"sem {order!r} is none of {', '.join(ORDERS)}")


def _prefetch(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    _pointee(s)
    level = s.attr("level", int)
    s.require(level in PREFETCH_LEVELS, f"level {level} is none of {PREFETCH_LEVELS}")
    s.attr("write", bool)
    return ()


def _scratch(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    wanted, size = s.result(), s.attr("size", int)
    s.require(size > 0, f"needs a positive size, not {size}")
    s.require(wanted.is_pointer and wanted.shape == (), f"cannot be {wanted}")
    return (wanted,)


RULES: Mapping[str, Rule] = {
    "addptr": _addptr,
    "load": _load,
    "store": _store,
    "atomic_rmw": _atomic_rmw,
    "atomic_cas": _atomic_cas,
    "prefetch": _prefetch,
    "scratch": _scratch,
}
