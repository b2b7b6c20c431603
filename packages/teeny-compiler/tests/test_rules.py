"""Each rewrite rule: it fires, it keeps the value, and it does not fire on a near miss.

Exact rules are compared bit for bit on data with NaN, infinities, signed zeros and denormals.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import Peaks, Policy, explain
from teeny_compiler.optimise.rules import RULES
from teeny_core import DType, Graph, Node, ops
from teeny_core.internal import evaluate_updates

RNG = np.random.default_rng(3)
ALL = Policy(frozenset(("exact", "real", "fast")), frozen=True, composites=True)
SHAPE = (4, 6)

Make = Callable[..., Node]


@dataclass(frozen=True)
class Example:
    """A graph on which a rule fires, and one that looks like it on which it must not.

    `types` are those of the leaves, `frozen` how many of the last ones are frozen parameters.
    """

    make: Make
    miss: Make
    types: tuple[tuple[tuple[int, ...], DType], ...] = ((SHAPE, tn.f32), (SHAPE, tn.f32))
    frozen: int = 0

    def graph(self, make: Make) -> Graph:
        leaves = tuple(ops.input(f"x{i}", *kind) for i, kind in enumerate(self.types))
        count = len(leaves) - self.frozen
        return Graph("rule", leaves[:count], leaves[count:], (make(*leaves),))


def full(value: Any, x: Node) -> Node:
    return ops.full(x.shape, value, x.dtype)


def wide(x: Node, shape: tuple[int, ...] = SHAPE) -> Node:
    return ops.broadcast_to(x, shape)


def turn(x: Node, axes: tuple[int, ...] = (1, 0)) -> Node:
    return ops.permute(x, axes)


def flat(x: Node) -> Node:
    return ops.reshape(x, (24,))


def channel(x: Node) -> Node:
    return wide(ops.reshape(x, (3, 1, 1)), (2, 3, 4, 4))


def convolve(x: Node, w: Node) -> Node:
    return ops.conv2d(x, w, stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)


def softmax(x: Node, axis: int | None = None, *, quotient: bool = True) -> Node:
    along = (len(x.shape) - 1 if axis is None else axis,)
    kept = tuple(1 if i in along else extent for i, extent in enumerate(x.shape))
    top = wide(ops.reshape(ops.max(x, along), kept), x.shape)
    raised = ops.exp(ops.sub(x, top))
    total = ops.reshape(ops.sum(raised, along), kept)
    if quotient:
        return ops.div(raised, wide(total, x.shape))
    return ops.mul(raised, wide(ops.reciprocal(total), x.shape))


def repeated(x: Node, heads: tuple[int, int] = (2, 1)) -> Node:
    """Repeat each head of (2, S, E) twice, or both heads (1, 2) as they are in order."""
    _, rows, width = x.shape
    column = ops.reshape(x, (*heads, rows, width))
    return ops.reshape(wide(column, (2, 2, rows, width)), (4, rows, width))


def split(x: Node) -> Node:
    return ops.reshape(x, (2, 2, *x.shape[1:]))


def joined(x: Node) -> Node:
    return ops.reshape(x, (4, *x.shape[2:]))


def flag(c: Node) -> Node:
    return ops.where(c, ops.full(c.shape, 1.0, tn.f32), ops.full(c.shape, 0.0, tn.f32))


def scaled(x: Node) -> Node:
    return ops.mul(x, full(0.3, x))


def over(x: Node) -> Node:
    return ops.div(x, full(2.2, x))


def hidden(x: Node, compare: Make = ops.ge) -> Node:
    rows, columns = (ops.iota(x.shape[-2:], axis, tn.i64) for axis in (0, 1))
    return ops.where(wide(compare(rows, columns), x.shape), x, full(-np.inf, x))


ROW = ((6,), tn.f32)
TWO_ROWS = ((SHAPE, tn.f32), ROW, ROW)
INT = ((SHAPE, tn.i32),)
BOOLS = ((SHAPE, tn.bool_), (SHAPE, tn.f32), (SHAPE, tn.f32))
BOOL_ROW = (((6,), tn.bool_), *BOOLS[1:])
CONV = (((2, 2, 4, 4), tn.f32), ((3, 2, 3, 3), tn.f32), ((3,), tn.f32))
MATMUL = (((4, 5), tn.f32), ((5, 6), tn.f32), ROW)
MATMUL_T = (((4, 5), tn.f32), ((6, 5), tn.f32), ROW)
SCALED = (((4, 5), tn.f32), ((5, 6), tn.f32), ((), tn.f32))
HEADS = (((2, 4, 5), tn.f32), ((2, 6, 5), tn.f32), ((2, 6, 3), tn.f32))
HEADS_T = (((2, 4, 5), tn.f32), ((2, 5, 6), tn.f32), ((2, 3, 6), tn.f32))
JOINED = (((4, 2, 5), tn.f32), ((4, 6, 5), tn.f32), ((4, 6, 3), tn.f32))
JOINED_T = (((4, 2, 5), tn.f32), ((4, 5, 6), tn.f32), ((4, 3, 6), tn.f32))
SHARED = (((4, 5, 3), tn.f32), ((2, 6, 3), tn.f32), ((2, 6, 3), tn.f32))
CHAIN = (((2, 7), tn.f32), ((7, 4), tn.f32), ((4, 5), tn.f32))
PAIR = (((4, 5), tn.f32), ((5, 6), tn.f32))


def product(x: Node, w: Node, **flags: bool) -> Node:
    return ops.matmul(x, w, **flags)


EXAMPLES: dict[str, Example] = {
    # arithmetic
    "x o neutral -> x": Example(
        lambda x, y: ops.mul(ops.add(x, full(-0.0, x)), ops.sub(y, full(0.0, y))),
        lambda x, y: ops.mul(ops.add(x, full(0.0, x)), ops.sub(y, full(-0.0, y))),
    ),
    "neutral o x -> x": Example(
        lambda x, y: ops.mul(full(1.0, x), ops.add(full(-0.0, y), y)),
        lambda x, y: ops.sub(full(0.0, x), ops.div(full(1.0, y), y)),
    ),
    "x + (-y) -> x - y": Example(
        lambda x, y: ops.add(x, ops.neg(y)), lambda x, y: ops.add(x, ops.abs(y))
    ),
    "(-x) + y -> y - x": Example(
        lambda x, y: ops.add(ops.neg(x), y), lambda x, y: ops.sub(ops.neg(x), y)
    ),
    "x - (-y) -> x + y": Example(
        lambda x, y: ops.sub(x, ops.neg(y)), lambda x, y: ops.neg(ops.sub(x, y))
    ),
    "(-x) * y -> -(x*y)": Example(
        lambda x, y: ops.mul(ops.neg(x), y), lambda x, y: ops.maximum(ops.neg(x), y)
    ),
    "x * (-y) -> -(x*y)": Example(
        lambda x, y: ops.mul(x, ops.neg(y)), lambda x, y: ops.pow(x, ops.neg(y))
    ),
    "(-x) / y -> -(x/y)": Example(
        lambda x, y: ops.div(ops.neg(x), y), lambda x, y: ops.floordiv(ops.neg(x), y)
    ),
    "x / (-y) -> -(x/y)": Example(
        lambda x, y: ops.div(x, ops.neg(y)), lambda x, y: ops.mod(x, ops.neg(y))
    ),
    "|-x| -> |x|": Example(
        lambda x: ops.abs(ops.neg(x)),
        lambda x: ops.abs(ops.neg(ops.cast(x, tn.u32))),
        ((SHAPE, tn.f32),),
    ),
    "x / 2^k -> x * 2^-k": Example(
        lambda x, y: ops.add(ops.div(x, full(8.0, x)), ops.div(y, full(-0.25, y))),
        lambda x, y: ops.add(ops.div(x, full(3.0, x)), ops.div(y, full(2.0**-149, y))),
    ),
    "f(f(x)) -> x": Example(
        lambda x: ops.neg(ops.neg(x)), lambda x: ops.reciprocal(ops.reciprocal(x)),
        ((SHAPE, tn.f32),),
    ),
    "f(f(x)) -> f(x)": Example(
        lambda x: ops.relu(ops.relu(x)), lambda x: ops.exp(ops.exp(x)), ((SHAPE, tn.f32),)
    ),
    "x o x -> x": Example(
        lambda x, y: ops.add(ops.maximum(x, x), y), lambda x, y: ops.sub(x, x)
    ),
    "c ? x : x -> x": Example(
        lambda c, x, y: ops.where(c, x, x), lambda c, x, y: ops.where(c, x, y), BOOLS
    ),
    "!c ? x : y -> c ? y : x": Example(
        lambda c, x, y: ops.where(ops.logical_not(c), x, y),
        lambda c, x, y: ops.where(ops.logical_and(c, ops.lt(x, y)), x, y),
        BOOLS,
    ),
    "c ? (c ? x : y) : z -> c ? x : z": Example(
        lambda c, x, y: ops.where(c, ops.where(c, x, y), ops.neg(x)),
        lambda c, x, y: ops.where(c, ops.where(ops.lt(x, y), x, y), x),
        BOOLS,
    ),
    "c ? x : (c ? y : z) -> c ? x : z": Example(
        lambda c, x, y: ops.where(c, x, ops.where(c, y, ops.neg(x))),
        lambda c, x, y: ops.where(c, x, ops.where(ops.lt(x, y), y, x)),
        BOOLS,
    ),
    "narrow(widen(x)) -> x": Example(
        lambda x: ops.cast(ops.cast(x, tn.f64), tn.f32),
        lambda x: ops.cast(ops.cast(x, tn.f16), tn.f32),
        ((SHAPE, tn.f32),),
    ),
    "widen(widen(x)) -> widen(x)": Example(
        lambda x: ops.cast(ops.cast(x, tn.f32), tn.f64),
        lambda x: ops.cast(ops.cast(x, tn.i8), tn.f64),
        ((SHAPE, tn.bf16),),
    ),
    "x * 0 -> 0": Example(
        lambda x: ops.mul(x, full(0, x)),
        lambda x: ops.cast(ops.mul(ops.cast(x, tn.f32), ops.full(SHAPE, 0.0, tn.f32)), tn.i32),
        INT,
    ),
    "~c ? x : y -> c ? y : x": Example(
        lambda c, x, y: ops.where(ops.bitwise_not(c), x, y),
        lambda c, x, y: ops.where(ops.bitwise_and(c, ops.lt(x, y)), x, y),
        BOOLS,
    ),
    "broadcast(~c) ? x : y -> broadcast(c) ? y : x": Example(
        lambda c, x, y: ops.where(wide(ops.bitwise_not(c)), x, y),
        lambda c, x, y: ops.where(wide(c), x, y),
        BOOL_ROW,
    ),
    "broadcast(!c) ? x : y -> broadcast(c) ? y : x": Example(
        lambda c, x, y: ops.where(wide(ops.logical_not(c)), x, y),
        lambda c, x, y: ops.where(wide(ops.bitwise_not(c)), x, y),
        BOOL_ROW,
    ),
    "(c ? 1 : 0) != 0 -> c": Example(
        lambda c, x, y: ops.where(ops.ne(flag(c), full(0.0, x)), x, y),
        lambda c, x, y: ops.where(ops.ne(flag(c), full(0.5, x)), x, y), BOOLS,
    ),
    "(c ? 1 : 0) > 0 -> c": Example(
        lambda c, x, y: ops.where(ops.gt(flag(c), full(-0.0, x)), x, y),
        lambda c, x, y: ops.where(ops.ge(flag(c), full(0.0, x)), x, y), BOOLS,
    ),
    "(c ? 1 : 0) == 0 -> !c": Example(
        lambda c, x, y: ops.where(ops.eq(flag(c), full(0.0, x)), x, y),
        lambda c, x, y: ops.where(ops.eq(x, full(0.0, x)), x, y), BOOLS,
    ),
    "(c ? 1 : 0) == 1 -> c": Example(
        lambda c, x, y: ops.where(ops.eq(flag(c), full(1.0, x)), x, y),
        lambda c, x, y: ops.where(ops.eq(scaled(flag(c)), full(1.0, x)), x, y), BOOLS,
    ),
    "bool(c ? 1 : 0) -> c": Example(
        lambda c, x, y: ops.where(ops.cast(flag(c), tn.bool_), x, y),
        lambda c, x, y: ops.where(ops.cast(ops.where(c, x, full(0.0, x)), tn.bool_), x, y), BOOLS,
    ),
    "c ? true : false -> c": Example(
        lambda c, x, y: ops.where(ops.where(c, full(True, c), full(False, c)), x, y),
        lambda c, x, y: ops.where(ops.where(c, full(False, c), full(True, c)), x, y), BOOLS,
    ),
    # layout
    "reshape(reshape(x)) -> reshape(x)": Example(
        lambda x, y: ops.reshape(ops.reshape(x, (3, 8)), (24,)),
        lambda x, y: flat(turn(ops.reshape(x, (3, 8)))),
    ),
    "reshape(x, its shape) -> x": Example(
        lambda x, y: ops.reshape(flat(x), SHAPE), lambda x, y: ops.reshape(flat(x), (6, 4))
    ),
    "broadcast(broadcast(x)) -> broadcast(x)": Example(
        lambda x: wide(wide(x), (2, *SHAPE)), lambda x: turn(wide(x)), (ROW,)
    ),
    "permute(permute(x)) -> permute(x)": Example(
        lambda x: turn(turn(x, (2, 0, 1)), (0, 2, 1)),
        lambda x: turn(ops.reshape(turn(x, (2, 0, 1)), (4, 6)), (1, 0)),
        (((2, 3, 4), tn.f32),),
    ),
    "permute(x, identity) -> x": Example(
        lambda x, y: turn(turn(x)),
        lambda x, y: turn(ops.exp(ops.reshape(turn(x), SHAPE))),
    ),
    "f(broadcast(x)) -> broadcast(f(x))": Example(
        lambda x: ops.isnan(wide(x)), lambda x: ops.sum(wide(x), (0,)), (ROW,)
    ),
    "cast(broadcast(x)) -> broadcast(cast(x))": Example(
        lambda x: ops.cast(wide(x), tn.f16), lambda x: ops.bitcast(wide(x), tn.i32), (ROW,)
    ),
    "permute(broadcast(x)) -> broadcast(permute(x))": Example(
        lambda x: turn(wide(ops.reshape(x, (1, 6)))), lambda x: turn(wide(x)), (ROW,)
    ),
    "reshape(transpose(x)) -> transpose(reshape(x))": Example(
        lambda x: ops.reshape(turn(x, (0, 2, 1)), (2, 3, 5, 4)),
        lambda x: ops.reshape(turn(x, (0, 2, 1)), (6, 1, 4, 5)),
        (((6, 4, 5), tn.f32),),
    ),
    "broadcast(x) o broadcast(y) -> broadcast(x o y)": Example(
        lambda x, y: ops.lt(wide(x), wide(y)),
        lambda x, y: ops.add(wide(x, (6, 6)), wide(ops.reshape(y, (6, 1)), (6, 6))),
        (ROW, ROW),
    ),
    "broadcast(c) ? broadcast(x) : k -> broadcast(c ? x : k)": Example(
        lambda c, x: ops.where(wide(c, (2, 3, *SHAPE)), wide(x, (2, 3, *SHAPE)),
                               ops.full((2, 3, *SHAPE), -np.inf, tn.f32)),
        lambda c, x: ops.where(wide(c, (2, 3, *SHAPE)), wide(x, (2, 3, *SHAPE)),
                               wide(ops.exp(x), (2, 3, *SHAPE))),
        ((SHAPE, tn.bool_), ((3, *SHAPE), tn.f32)),
    ),
    "f(permute(x)) -> permute(f(x))": Example(
        lambda x, y: ops.exp(turn(x)), lambda x, y: ops.exp(ops.flip(x, (0,)))
    ),
    "permute(f(x)) -> f(permute(x))": Example(
        lambda x, y: turn(ops.exp(x)), lambda x, y: turn(ops.add(x, y))
    ),
    "permute(x) o permute(y) -> permute(x o y)": Example(
        lambda x, y: ops.mul(turn(x), turn(y)), lambda x, y: ops.mul(flat(turn(x)), flat(y))
    ),
    "cast(permute(x)) -> permute(cast(x))": Example(
        lambda x, y: ops.cast(turn(x), tn.f16), lambda x, y: ops.bitcast(turn(x), tn.i32)
    ),
    "permute(cast(x)) -> cast(permute(x))": Example(
        lambda x, y: turn(ops.cast(x, tn.f64)), lambda x, y: turn(ops.bitcast(x, tn.i32))
    ),
    "cast(reshape(x)) -> reshape(cast(x))": Example(
        lambda x, y: ops.cast(flat(x), tn.bool_), lambda x, y: ops.sum(flat(x), (0,))
    ),
    "f(reshape(x)) -> reshape(f(x))": Example(
        lambda x, y: ops.isinf(flat(x)), lambda x, y: ops.sum(flat(x), (0,))
    ),
    "reshape(x) o reshape(y) -> reshape(x o y)": Example(
        lambda x, y: ops.eq(flat(x), flat(y)),
        lambda x, y: ops.add(flat(x), flat(turn(y))),
    ),
    "transpose(a) @ b -> matmul(a, b) with the flag": Example(
        lambda a, b: product(turn(a), b),
        lambda a, b: product(ops.reshape(a, (4, 5)), b),
        (((5, 4), tn.f32), ((5, 6), tn.f32)),
    ),
    "a @ transpose(b) -> matmul(a, b) with the flag": Example(
        lambda a, b: product(a, turn(b)),
        lambda a, b: product(a, ops.reshape(b, (5, 6))),
        (((4, 5), tn.f32), ((6, 5), tn.f32)),
    ),
    "transpose(a @ b) -> transpose(b) @ transpose(a)": Example(
        lambda a, b: turn(product(a, b)), lambda a, b: ops.reshape(product(a, b), (6, 4)), PAIR
    ),
    # attention; more of its spellings are tried in test_recognised.py
    "softmax(mask(q @ k' * b)) @ v -> attention(q, k, v)": Example(
        lambda q, k, v: product(softmax(hidden(scaled(product(q, k, transpose_b=True)))), v),
        lambda q, k, v: product(softmax(scaled(product(q, k, transpose_b=True)), 1), v),
        HEADS,
    ),
    "softmax(mask(q @ k' * b)) @ v' -> attention(q, k, v)": Example(
        lambda q, k, v: product(softmax(over(product(q, k)), quotient=False), v, transpose_b=True),
        lambda q, k, v: product(ops.exp(over(product(q, k))), v, transpose_b=True),
        HEADS_T,
    ),
    "reshape(softmax(mask(q @ k' * b))) @ v -> reshape(attention(q, k, v))": Example(
        lambda q, k, v: product(joined(softmax(split(product(q, k, transpose_b=True)))), v),
        lambda q, k, v: product(ops.reshape(softmax(product(q, k, transpose_b=True)), (2, 4, 6)),
                                ops.reshape(v, (2, 6, 6))),
        JOINED,
    ),
    "reshape(softmax(mask(q @ k' * b))) @ v' -> reshape(attention(q, k, v))": Example(
        lambda q, k, v: product(joined(softmax(split(product(q, k)))), v, transpose_b=True),
        lambda q, k, v: product(joined(ops.exp(split(product(q, k)))), v, transpose_b=True),
        JOINED_T,
    ),
    "attention(q, repeat(k), repeat(v)) -> attention(q, k, v)": Example(
        lambda q, k, v: ops.attention(q, repeated(k), repeated(v)),
        lambda q, k, v: ops.attention(q, repeated(k), repeated(v, (1, 2))),
        SHARED,
    ),
    "attention under broadcast(mask) -> attention under mask": Example(
        lambda q, k, v, m: ops.attention(q, k, v, wide(m, (4, 5, 6))),
        lambda q, k, v, m: ops.attention(q, k, ops.mul(v, full(3.0, v))),
        (((4, 5, 3), tn.f32), ((4, 6, 3), tn.f32), ((4, 6, 2), tn.f32), ((6,), tn.f32)),
    ),
    # numeric
    "1/sqrt(x) -> rsqrt(x)": Example(
        lambda x, y: ops.add(ops.reciprocal(ops.sqrt(x)), y),
        lambda x, y: ops.add(ops.sqrt(ops.reciprocal(x)), y),
    ),
    "x / sqrt(y) -> x * rsqrt(y)": Example(
        lambda x, y: ops.div(x, ops.sqrt(y)), lambda x, y: ops.div(ops.sqrt(x), y)
    ),
    "x / broadcast(sqrt(y)) -> x * broadcast(rsqrt(y))": Example(
        lambda x, y: ops.div(x, wide(ops.sqrt(y))),
        lambda x, y: ops.div(x, wide(ops.exp(y))),
        ((SHAPE, tn.f32), ROW),
    ),
    "x / broadcast(y) -> x * broadcast(1/y)": Example(
        lambda x, y: ops.div(x, wide(y)),
        lambda x, y: ops.floordiv(x, wide(y)),
        ((SHAPE, tn.f32), ROW),
    ),
    "x * (1/y) -> x / y": Example(
        lambda x, y: ops.mul(x, ops.reciprocal(y)), lambda x, y: ops.add(x, ops.reciprocal(y))
    ),
    "log(exp(x)) -> x": Example(
        lambda x, y: ops.add(ops.log(ops.exp(x)), y),
        lambda x, y: ops.add(ops.exp(ops.log(x)), ops.log2(ops.exp(y))),
    ),
    "log(exp(x) / y) -> x - log(y)": Example(
        lambda x, y: ops.log(softmax(ops.add(x, y))),
        lambda x, y: ops.log(ops.sub(ops.exp(x), y)),
    ),
    "log(exp(x) * y) -> x + log(y)": Example(
        lambda x, y: ops.log(softmax(ops.add(x, y), quotient=False)),
        lambda x, y: ops.log(ops.add(ops.exp(x), y)),
    ),
    "(x*k) @ y -> (x @ y)*k": Example(
        lambda x, y, k: product(ops.mul(x, wide(k, x.shape)), y),
        lambda x, y, k: product(ops.add(x, wide(k, x.shape)), y),
        SCALED,
    ),
    "x @ (y*k) -> (x @ y)*k": Example(
        lambda x, y, k: product(x, ops.mul(y, wide(k, y.shape))),
        lambda x, y, k: product(x, ops.mul(y, y)),
        SCALED,
    ),
    "(x @ y)*k -> (x*k) @ y": Example(
        lambda x, y, k: ops.mul(product(x, y), wide(k)),
        lambda x, y, k: ops.mul(ops.relu(product(x, y)), wide(k)),
        SCALED,
    ),
    "(x * rows) @ y -> (x @ y) * rows": Example(
        lambda x, y, k: product(ops.mul(x, wide(k, x.shape)), y),
        lambda x, y, k: product(ops.add(x, wide(k, x.shape)), y),
        (((4, 5), tn.f32), ((5, 6), tn.f32), ((4, 1), tn.f32)),
    ),
    "x @ (y * columns) -> (x @ y) * columns": Example(
        lambda x, y, k: product(x, ops.mul(y, wide(k, y.shape))),
        lambda x, y, k: product(x, ops.mul(y, wide(k, y.shape)), transpose_b=True),
        (((4, 6), tn.f32), ((6, 6), tn.f32), ((6,), tn.f32)),
    ),
    "x @ (y * rows)' -> (x @ y') * rows": Example(
        lambda x, y, k: product(x, ops.mul(y, wide(k, y.shape)), transpose_b=True),
        lambda x, y, k: product(x, ops.mul(y, wide(k, y.shape))),
        (((4, 6), tn.f32), ((6, 6), tn.f32), ((6, 1), tn.f32)),
    ),
    "(a @ b) @ c -> a @ (b @ c)": Example(
        lambda a, b, c: product(product(a, b), c),
        lambda a, b, c: product(ops.relu(product(a, b)), c),
        CHAIN,
    ),
    "a @ (b @ c) -> (a @ b) @ c": Example(
        lambda a, b, c: product(a, product(b, c)),
        lambda a, b, c: product(a, ops.relu(product(b, c))),
        CHAIN,
    ),
    "(a @ b)' @ c -> b' @ (a' @ c)": Example(
        lambda a, b, c: product(product(a, b), c, transpose_a=True),
        lambda a, b, c: product(ops.abs(product(a, b)), c, transpose_a=True),
        (((7, 4), tn.f32), ((4, 5), tn.f32), ((7, 2), tn.f32)),
    ),
    "a @ (b @ c)' -> (a @ c') @ b'": Example(
        lambda a, b, c: product(a, product(b, c), transpose_b=True),
        lambda a, b, c: product(a, ops.abs(product(b, c)), transpose_b=True),
        (((2, 5), tn.f32), ((7, 4), tn.f32), ((4, 5), tn.f32)),
    ),
    # folding
    "(y - a)*b -> y*b - a*b": Example(
        lambda y, a, b: ops.mul(ops.sub(y, wide(a)), wide(b)),
        lambda y, a, b: ops.mul(ops.sub(y, wide(a)), y), TWO_ROWS, 2,
    ),
    "(y + a)*b -> y*b + a*b": Example(
        lambda y, a, b: ops.mul(ops.add(y, wide(a)), wide(b)),
        lambda y, a, b: ops.maximum(ops.add(y, wide(a)), wide(b)), TWO_ROWS, 2,
    ),
    "(y*a)*b -> y*(a*b)": Example(
        lambda y, a, b: ops.mul(ops.mul(y, wide(a)), wide(b)),
        lambda y, a, b: ops.mul(ops.mul(y, y), wide(b)), TWO_ROWS, 2,
    ),
    "(y + a) + b -> y + (a + b)": Example(
        lambda y, a, b: ops.add(ops.add(y, wide(a)), wide(b)),
        lambda y, a, b: ops.add(ops.add(y, y), wide(b)), TWO_ROWS, 2,
    ),
    "(y - a) + b -> y + (b - a)": Example(
        lambda y, a, b: ops.add(ops.sub(y, wide(a)), wide(b)),
        lambda y, a, b: ops.add(ops.sub(wide(a), y), wide(b)), TWO_ROWS, 2,
    ),
    "(y + a) - b -> y + (a - b)": Example(
        lambda y, a, b: ops.sub(ops.add(y, wide(a)), wide(b)),
        lambda y, a, b: ops.sub(wide(b), ops.add(y, wide(a))), TWO_ROWS, 2,
    ),
    "conv(x, w) * b -> conv(x, w*b)": Example(
        lambda x, w, b: ops.mul(convolve(x, w), channel(b)),
        lambda x, w, b: ops.mul(ops.relu(convolve(x, w)), channel(b)), CONV, 2,
    ),
    "(x @ w) * b -> x @ (w*b)": Example(
        lambda x, w, b: ops.mul(product(x, w), wide(b)),
        lambda x, w, b: ops.mul(product(x, w), ops.add(product(x, w), wide(b))), MATMUL, 2,
    ),
    "(x @ w') * b -> x @ (w*b)'": Example(
        lambda x, w, b: ops.mul(product(x, w, transpose_b=True), wide(b)),
        lambda x, w, b: ops.mul(product(x, w, transpose_b=True),
                                wide(ops.reshape(ops.slice(b, (0,), (4,), (1,)), (4, 1)))),
        MATMUL_T, 2,
    ),
    "(x @ w) * k -> x @ (w*k)": Example(
        lambda x, w, k: ops.mul(product(x, w), wide(k)),
        lambda x, w, k: ops.add(product(x, w), wide(k)), SCALED, 2,
    ),
}  # fmt: skip

SAFETY = {rule.algebra: rule.safety for rule in RULES}


def data(shape: tuple[int, ...], dtype: DType, special: bool) -> Any:
    values = RNG.standard_normal(shape) * 3
    if dtype.is_float and special and values.size >= 12:
        odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 2.0**-130]
        values.reshape(-1)[: len(odd)] = odd
        values = RNG.permutation(values.reshape(-1)).reshape(shape)
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


def bits(array: Any) -> Any:
    """Return the bytes, with one NaN for all."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.tobytes()


def run(graph: Graph, values: list[Any]) -> Any:
    count = len(graph.inputs)
    names = [node.attrs["name"] for node in graph.parameters]
    outputs, _ = evaluate_updates(
        graph, values[:count], dict(zip(names, values[count:], strict=True))
    )
    return outputs[0]


def test_every_rule_has_an_example() -> None:
    assert set(EXAMPLES) == set(SAFETY)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_rule_fires_and_keeps_the_value(name: str) -> None:
    example = EXAMPLES[name]
    graph = example.graph(example.make)
    report = explain(FXGraph.from_graph(graph), ALL)
    assert not report.problem
    assert name in report.fired
    report.graph.verify()
    exact = SAFETY[name] == "exact"
    for _ in range(5):
        values = [data(shape, dtype, exact) for shape, dtype in example.types]
        before, after = run(graph, values), run(report.graph.to_graph(), values)
        assert before.dtype == after.dtype
        if exact:
            assert bits(before) == bits(after)
        else:
            np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", EXAMPLES)
def test_near_miss(name: str) -> None:
    example = EXAMPLES[name]
    report = explain(FXGraph.from_graph(example.graph(example.miss)), ALL)
    assert not report.problem
    assert name not in report.fired


@pytest.mark.parametrize("name", [name for name, safety in SAFETY.items() if safety == "fast"])
def test_fast_rules_ask_for_permission(name: str) -> None:
    example = EXAMPLES[name]
    graph = FXGraph.from_graph(example.graph(example.make))
    assert name not in explain(graph, Policy(frozen=True)).fired
    if example.frozen:
        assert name not in explain(graph, Policy(ALL.safety, frozen=False)).fired


BYTES: dict[str, Make] = {
    "x + (-y) -> x - y": lambda x, y: ops.add(x, ops.neg(y)),
    "(-x) + y -> y - x": lambda x, y: ops.add(ops.neg(x), y),
    "x - (-y) -> x + y": lambda x, y: ops.sub(x, ops.neg(y)),
    "(-x) * y -> -(x*y)": lambda x, y: ops.mul(ops.neg(x), y),
    "x * (-y) -> -(x*y)": lambda x, y: ops.mul(x, ops.neg(y)),
    "x o x -> x": lambda x, y: ops.bitwise_and(ops.maximum(x, x), y),
    "f(f(x)) -> x": lambda x, y: ops.add(ops.neg(ops.neg(x)), ops.bitwise_not(ops.bitwise_not(y))),
    "x * 0 -> 0": lambda x, y: ops.add(ops.mul(x, full(0, x)), y),
    "x o neutral -> x": lambda x, y: ops.maximum(ops.shl(x, full(0, x)), ops.mul(y, full(1, y))),
    "narrow(widen(x)) -> x": lambda x, y: ops.sub(ops.cast(ops.cast(x, tn.i32), x.dtype), y),
}


@pytest.mark.parametrize("dtype", [tn.i8, tn.u8])
@pytest.mark.parametrize("name", BYTES)
def test_integer_rules_hold_for_every_pair_of_bytes(name: str, dtype: DType) -> None:
    """A proof for eight bits: all values there are, those that wrap around included."""
    leaves = [ops.input(f"x{i}", (256, 256), dtype) for i in range(2)]
    graph = Graph("bytes", tuple(leaves), (), (BYTES[name](*leaves),))
    report = explain(FXGraph.from_graph(graph), Policy(frozenset(("exact",))))
    assert name in report.fired
    every = np.arange(int(dtype.min), int(dtype.max) + 1).astype(dtype.numpy)
    values = [np.repeat(every[:, None], 256, 1), np.repeat(every[None], 256, 0)]
    np.testing.assert_array_equal(run(report.graph.to_graph(), values), run(graph, values))


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_every_two_permutations_compose(rank: int) -> None:
    x = ops.input("x", (2, 3, 4, 5)[:rank], tn.i32)
    every = list(itertools.permutations(range(rank)))
    pairs = list(itertools.product(every, every))[:: 1 if rank < 4 else 19]
    graph = Graph("turns", (x,), (), tuple(turn(turn(x, p), q) for p, q in pairs))
    report = explain(FXGraph.from_graph(graph), Policy(frozenset(("exact",))))
    assert sum(node.op == "permute" for node in report.graph.nodes) < len(every)
    values = [np.arange(np.prod(x.shape), dtype=np.int32).reshape(x.shape)]
    after, _ = evaluate_updates(report.graph.to_graph(), values, {})
    for (p, q), found in zip(pairs, after, strict=True):
        np.testing.assert_array_equal(found, values[0].transpose(p).transpose(q))


@pytest.mark.parametrize("widths", [(64, 64, 64, 1), (1, 64, 64, 64)])
def test_chains_of_products_take_the_least_work(widths: tuple[int, ...]) -> None:
    leaves = [ops.input(f"x{i}", widths[i : i + 2], tn.f32) for i in range(3)]
    right = product(leaves[0], product(leaves[1], leaves[2]))
    left = product(product(leaves[0], leaves[1]), leaves[2])
    for chain in (left, right):
        report = explain(FXGraph.from_graph(Graph("chain", tuple(leaves), (), (chain,))), ALL)
        results = [node.shape for node in report.graph.nodes if node.op == "matmul"]
        assert all(1 in shape for shape in results)


def test_the_logarithm_of_a_softmax_does_not_underflow() -> None:
    x = ops.input("x", (2, 3), tn.f32)
    graph = Graph("log", (x,), (), (ops.log(softmax(x)),))
    report = explain(FXGraph.from_graph(graph), ALL)
    found = run(report.graph.to_graph(), [np.array([[0, 200, 0], [1, 1, -500]], np.float32)])
    wanted = [[-200, 0, -200], [-np.log(2), -np.log(2), -501 - np.log(2)]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_costs_are_cycles_at_the_peak_of_the_machine() -> None:
    avx2, avx512 = Peaks(256), Peaks(512)
    assert avx2.product(tn.f32) == 1 / 16  # two units of eight lanes
    assert avx512.product(tn.f32) == avx2.product(tn.f64) / 4 == 1 / 32
    assert avx2.product(tn.f16) == avx2.product(tn.f32)  # it is summed in f32
    assert Peaks(128, fused=False).product(tn.f32) == 2 / 8
    graph = FXGraph.from_graph(Example(turn, turn).graph(lambda x, y: ops.exp(x)))
    narrow, wide = (explain(graph, replace(ALL, peaks=Peaks(bits))).after for bits in (128, 512))
    assert narrow > wide


def test_threads_take_turns() -> None:
    graph = FXGraph.from_graph(EXAMPLES["f(f(x)) -> x"].graph(EXAMPLES["f(f(x)) -> x"].make))
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: explain(graph, ALL), range(12)))
    assert {report.graph for report in reports} == {reports[0].graph}
    assert not any(report.problem for report in reports)
    assert "f(f(x)) -> x" in str(reports[0])
