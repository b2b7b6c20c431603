"""Rules of ops that make tiles, and change or join their shapes."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core import i32

from teeny_triton.ir import Type
from teeny_triton.rules.signature import Rule, Signature


def _grid(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    s.axis(3)
    return (Type((), i32),)


def _arange(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    start, end = s.attr("start", int), s.attr("end", int)
    s.require(start < end, f"is empty: start {start}, end {end}")
    s.require(start >= -(2**31) and end <= 2**31, "does not fit i32")
    return (Type((end - start,), i32),)


def _splat(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted = s.result()
    s.require(s.operands[0] == wanted.with_shape(()), f"cannot fill {wanted}")
    return (wanted,)


def _expand_dims(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    shape = s.operands[0].shape
    axis = s.axis(len(shape) + 1)
    return (s.operands[0].with_shape((*shape[:axis], 1, *shape[axis:])),)


def _broadcast(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted, shape = s.result(), s.operands[0].shape
    fits = len(shape) == len(wanted.shape) and all(
        extent in (1, target) for extent, target in zip(shape, wanted.shape, strict=True)
    )
    s.require(fits, f"cannot become {wanted}")
    return (s.operands[0].with_shape(wanted.shape),)


def _trans(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    order, shape = s.attr("order", tuple), s.operands[0].shape
    s.require(sorted(order) == list(range(len(shape))), f"{order} is no permutation of its axes")
    return (s.operands[0].with_shape(tuple(shape[axis] for axis in order)),)


def _reshape(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted = s.result()
    s.require(wanted.size == s.operands[0].size, f"cannot become {wanted}")
    return (s.operands[0].with_shape(wanted.shape),)


def _join(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    a, b = s.operands
    s.require(a == b, "the two differ in type")
    return (a.with_shape((*a.shape, 2)),)


def _split(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    x = s.operands[0]
    s.require(x.shape[-1:] == (2,), "the last axis must have extent 2")
    half = x.with_shape(x.shape[:-1])
    return (half, half)


def _cat(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    a, b = s.operands
    axis = s.axis(len(a.shape))
    s.require(len(a.shape) == len(b.shape) and a.element == b.element, "the two do not match")
    joined = (*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1 :])
    rest = (*b.shape[:axis], a.shape[axis], *b.shape[axis + 1 :])
    s.require(rest == a.shape, f"extents differ off axis {axis}")
    return (a.with_shape(joined),)


RULES: Mapping[str, Rule] = {
    "program_id": _grid,
    "num_programs": _grid,
    "arange": _arange,
    "splat": _splat,
    "expand_dims": _expand_dims,
    "broadcast": _broadcast,
    "trans": _trans,
    "reshape": _reshape,
    "join": _join,
    "split": _split,
    "cat": _cat,
}
