"""Rules of ops with regions, and of checks and prints."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core import bool_, i32, i64

from teeny_triton.ir import Type
from teeny_triton.rules.signature import Rule, Signature


def _assert(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    s.require(s.operands[0].element == bool_, "takes a bool")
    s.attr("message", str)
    if "place" in s.attrs:
        s.attr("place", str)
    return ()


def _print(s: Signature) -> tuple[Type, ...]:
    s.attr("prefix", str)
    if "hex" in s.attrs:
        s.attr("hex", bool)
    return ()


def _breakpoint(s: Signature) -> tuple[Type, ...]:
    s.attr("function", str)
    s.count(len(s.attr("names", str).split()))
    return ()


def _for(s: Signature) -> tuple[Type, ...]:
    s.require(len(s.operands) >= 3, "takes lower, upper and step first")
    lower, upper, step = s.operands[:3]
    scalar = lower.shape == () and lower.element in (i32, i64)
    s.require(scalar and lower == upper == step, "bounds must be three i32 or three i64 scalars")
    return s.operands[3:]


def _while(s: Signature) -> tuple[Type, ...]:
    return s.operands


def _if(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    s.require(s.operands[0] == Type((), bool_), "the condition must be one bool")
    return s.wanted


def _yield(s: Signature) -> tuple[Type, ...]:
    return ()


RULES: Mapping[str, Rule] = {
    "for": _for,
    "while": _while,
    "if": _if,
    "yield": _yield,
    "device_assert": _assert,
    "device_print": _print,
    "breakpoint": _breakpoint,
}
