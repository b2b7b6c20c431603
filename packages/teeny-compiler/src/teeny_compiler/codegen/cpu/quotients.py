"""Quotients and remainders of index tiles by constants, which stay linear where they can.

`i // 32 * stride + i % 32` walks a layout of blocks, such as those of quantised weights. Within a
block, neighbours stay neighbours: of `i = register + constants`, where the register is known to be
a multiple of 16, `i // 32` is one number for constants 0 to 15, and `i % 32` grows by one.
"""

from __future__ import annotations

import math

import numpy as np

from teeny_compiler.codegen.arith import integer
from teeny_compiler.codegen.builder import I64, Operand, constant
from teeny_compiler.codegen.cpu import linear
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.linear import ONE, Linear

MOST_QUOTIENTS = 8
"""Quotients of one tile that are computed as scalars."""


def floordiv(c: Context, x: Linear, y: Linear) -> Linear | None:
    """Return x // y, None where that is no linear form."""
    parts = _divided(c, x, _number(y))
    return None if parts is None else parts[0]


def mod(c: Context, x: Linear, y: Linear) -> Linear | None:
    """Return x % y, None where that is no linear form."""
    parts = _divided(c, x, _number(y))
    return None if parts is None else parts[1]


def shift_right(c: Context, x: Linear, y: Linear) -> Linear | None:
    """Return x >> y, None where that is no linear form."""
    shift = _number(y)
    parts = _divided(c, x, 1 << shift) if 0 < shift < 31 else None
    return None if parts is None else parts[0]


def low_bits(c: Context, x: Linear, y: Linear) -> Linear | None:
    """Return x & y, None where that is no linear form."""
    if _number(x):
        x, y = y, x
    size = _number(y) + 1
    parts = _divided(c, x, size) if size > 1 and size & (size - 1) == 0 else None
    return None if parts is None else parts[1]


def _number(form: Linear) -> int:
    """Return the constant that all elements are, 0 if they are none."""
    return int(form.values()[0]) if form.is_static and form.is_uniform else 0


def _divided(c: Context, x: Linear, divisor: int) -> tuple[Linear, Linear] | None:
    """Return quotient and remainder, rounded down."""
    registers = {register: table for register, table in x.terms.items() if register != ONE}
    if x.pointer is not None or not divisor:
        return None
    exact = {r: table for r, table in registers.items() if not (table % divisor).any()}
    others = {r: table for r, table in registers.items() if r not in exact}
    quotient = Linear(x.shape, {r: table // divisor for r, table in exact.items()})
    rest = x.terms.get(ONE, np.zeros((1,) * len(x.shape), np.int64))
    if not others:
        static = (linear.static(x.shape, part) for part in (rest // divisor, rest % divisor))
        whole, remainder = static
        return quotient + whole, remainder
    base = Linear((), {r: table.reshape(-1)[:1].reshape(()) for r, table in others.items()})
    grain = math.gcd(divisor, linear.divisor(c.multiples, base))
    if grain == 1 or divisor < 0 or any(table.size > 1 for table in others.values()):
        return None
    steps = rest // grain
    numbers = np.unique(steps)
    if numbers.size > MOST_QUOTIENTS:
        return None
    remainder = linear.static(x.shape, rest % grain)
    for number in map(int, numbers):
        here = linear.thin((steps == number).astype(np.int64))
        start = base + linear.static((), np.array(grain * number, np.int64))
        for_all, left = _scalars(c, start, divisor, grain)
        quotient += Linear(x.shape, {for_all: here})
        remainder += Linear(x.shape, {left: here})
    return quotient, remainder


def _scalars(c: Context, form: Linear, divisor: int, grain: int) -> tuple[Operand, Operand]:
    """Write quotient and remainder of a scalar that is a multiple of `grain`."""
    value, by = linear.integer(c.b, form), constant(I64, divisor)
    low, high = linear.bounds(form, c.known)
    if divisor & (divisor - 1) == 0:
        quotient = c.b.binary("ashr", value, constant(I64, divisor.bit_length() - 1))
    else:
        quotient = integer.divide(c.b, value, by, signed=low < 0)
    remainder = c.b.binary("sub", value, c.b.binary("mul", quotient, by))
    least, most = (x if math.isinf(x) else x // divisor for x in (low, high))  # inf // y is NaN
    c.known[quotient] = (least, most)
    c.known[remainder] = (0.0, float(divisor - grain))
    c.multiples[remainder] = grain
    return quotient, remainder
