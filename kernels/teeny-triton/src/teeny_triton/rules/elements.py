"""Rules of ops on each element by itself."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core import DType, bool_

from teeny_triton.ir import BINARY, COMPARISONS, UNARY, UNARY_FLOAT, Type
from teeny_triton.rules.signature import INTEGERS, NUMBERS, Rule, Signature, is_kind

ADDRESS_BITS = 64
"""Bits of an address as a number, on any machine."""

_BINARY_KINDS: Mapping[str, tuple[str, ...]] = {
    "div": ("float",),
    "and": ("bool", *INTEGERS),
    "or": ("bool", *INTEGERS),
    "xor": ("bool", *INTEGERS),
    "shl": INTEGERS,
    "shr": INTEGERS,
    "umulhi": INTEGERS,
    "maxnum": ("float",),
    "minnum": ("float",),
}


def _const(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    wanted = s.result()
    s.require(wanted.shape == () and isinstance(wanted.element, DType), f"cannot be {wanted}")
    assert isinstance(wanted.element, DType)
    kind = {"bool": bool, "float": float}.get(wanted.element.kind, int)
    s.attr("value", kind)
    return (wanted,)


def _unary(*kinds: str) -> Rule:
    def rule(s: Signature) -> tuple[Type, ...]:
        s.count(1)
        s.require(is_kind(s.operands[0].element, *kinds), f"takes {' or '.join(kinds)} elements")
        return s.operands

    return rule


def _binary(*kinds: str, bits: tuple[int, ...] = ()) -> Rule:
    def rule(s: Signature) -> tuple[Type, ...]:
        s.count(2)
        a, b = s.operands
        s.require(a == b, "the two differ in type")
        s.require(is_kind(a.element, *kinds), f"takes {' or '.join(kinds)} elements")
        assert isinstance(a.element, DType)
        s.require(not bits or a.element.bits in bits, f"takes elements of {bits} bits")
        return (a,)

    return rule


def _compare(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    a, b = s.operands
    s.require(a == b, "the two differ in type")
    pointers = a.is_pointer and s.opcode in ("eq", "ne")
    s.require(pointers or is_kind(a.element, *NUMBERS, "bool"), "elements have no such order")
    return (Type(a.shape, bool_),)


def _fma(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    a, b, c = s.operands
    s.require(a == b == c, "the three differ in type")
    s.require(is_kind(a.element, "float"), "takes float elements")
    return (a,)


def _where(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    condition, a, b = s.operands
    s.require(condition == Type(a.shape, bool_), f"the condition must be {Type(a.shape, bool_)}")
    s.require(a == b, "the two choices differ in type")
    return (a,)


def _cast(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted, x = s.result(), s.operands[0]
    s.require(not wanted.is_pointer and not x.is_pointer, "does not convert pointers")
    return (wanted.with_shape(x.shape),)


def _bitcast(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted, x = s.result(), s.operands[0]
    s.require(_bits(wanted) == _bits(x), f"cannot become {wanted}: the sizes differ")
    if wanted.is_pointer or x.is_pointer:
        numbers = not any(is_kind(kind.element, "float") for kind in (wanted, x))
        s.require(numbers, f"cannot become {wanted}: an address is no float")
    return (wanted.with_shape(x.shape),)


def _bits(kind: Type) -> int:
    return kind.element.bits if isinstance(kind.element, DType) else ADDRESS_BITS


RULES: Mapping[str, Rule] = {
    "const": _const,
    **{name: _unary("float") for name in UNARY_FLOAT},
    **{name: _unary(*NUMBERS) for name in UNARY if name not in UNARY_FLOAT},
    "not": _unary("bool", *INTEGERS),
    **{name: _binary(*_BINARY_KINDS.get(name, NUMBERS)) for name in BINARY},
    "umulhi": _binary(*INTEGERS, bits=(32, 64)),
    **dict.fromkeys(COMPARISONS, _compare),
    "fma": _fma,
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
}
