"""Single vectors of index tiles and of masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teeny_compiler.codegen.builder import (
    FALSE,
    TRUE,
    LType,
    Operand,
    constant,
    constants,
)
from teeny_compiler.codegen.cpu import linear
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.layout import Indices, Piece
from teeny_compiler.codegen.cpu.linear import ONE, Linear


@dataclass(frozen=True)
class Chunk:
    """A piece of a linear form: `base` at its first lane, and what each lane adds to it.

    `steps` are constants; `strides` are registers with a factor for each lane.
    """

    base: Linear
    steps: Indices
    strides: tuple[tuple[Operand, Indices], ...]

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes are equal."""
        return not self.strides and not self.steps.any()

    @property
    def is_consecutive(self) -> bool:
        """Whether lane i is the base plus i."""
        return not self.strides and bool((self.steps == np.arange(self.steps.size)).all())

    def offsets(self) -> Chunk:
        """Return the differences from the first lane as a piece of their own."""
        return Chunk(Linear((), {}), self.steps, self.strides)


def chunk(form: Linear, piece: Piece) -> Chunk:
    """Cut a piece out of a linear form."""
    span = slice(piece.start, piece.start + piece.count)
    strides = []
    steps = np.zeros(piece.count, np.int64)
    for register, table in form.terms.items():
        if table.size == 1:
            continue
        lanes = form.table(register)[span]
        lanes = lanes - lanes[0]
        if register == ONE:
            steps = lanes
        elif lanes.any():
            strides.append((register, lanes))
    return Chunk(form.at(piece.start), steps, tuple(strides))


def lanes_of(c: Context, part: Chunk, scalar: str, width: int) -> Operand:
    """Write a piece of integers as a vector of `scalar` (exact modulo its size)."""
    pad = width - part.steps.size
    base = narrowed(c, linear.integer(c.b, part.base), scalar)
    steps = constants(scalar, [*map(int, part.steps), *[int(part.steps[-1])] * pad])
    if base.is_constant and not part.strides:
        values = part.steps + int(base.text)
        return constants(scalar, [*map(int, values), *[int(values[-1])] * pad])
    result = c.b.splat(base, width)
    if part.steps.any():
        result = c.b.binary("add", result, steps)
    for register, factors in part.strides:
        multiple = constants(scalar, [*map(int, factors), *[int(factors[-1])] * pad])
        stride = c.b.splat(narrowed(c, register, scalar), width)
        result = c.b.binary("add", result, c.b.binary("mul", stride, multiple))
    return result


def narrowed(c: Context, value: Operand, scalar: str) -> Operand:
    """Truncate a 64-bit integer."""
    if value.type.scalar == scalar:
        return value
    if value.is_constant:
        return constant(LType(scalar), int(value.text))
    return c.b.convert("trunc", value, scalar)


@dataclass(frozen=True, eq=False)
class LaneMask:
    """Which lanes are active: all for which each part that is given holds."""

    width: int
    bits: tuple[bool, ...] | None = None
    scalar: Operand | None = None
    vector: Operand | None = None

    @property
    def is_full(self) -> bool:
        """Whether all lanes are known to be active."""
        return self.bits is None and self.scalar is None and self.vector is None

    @property
    def is_empty(self) -> bool:
        """Whether no lane can be active."""
        return self.bits is not None and not any(self.bits)

    @property
    def known_count(self) -> int | None:
        """How many lanes `bits` leave, where those are the first ones."""
        count = sum(self.bits or ())
        return count if self.bits is not None and all(self.bits[:count]) else None

    def also(self, condition: Operand) -> LaneMask:
        """Restrict to a scalar condition."""
        if condition.text == "true":
            return self
        if condition.text == "false":
            return LaneMask(self.width, (False,) * self.width)
        return LaneMask(self.width, self.bits, condition, self.vector)

    def lane(self, c: Context, lane: int) -> Operand:
        """Return the condition of one lane."""
        if self.bits is not None and not self.bits[lane]:
            return FALSE
        parts = [] if self.scalar is None else [self.scalar]
        if self.vector is not None:
            parts.append(c.b.extract(self.vector, lane))
        if not parts:
            return TRUE
        return parts[0] if len(parts) == 1 else c.b.binary("and", parts[0], parts[1])

    def to_vector(self, c: Context) -> Operand:
        """Return the mask as <width x i1>."""
        parts = []
        if self.bits is not None:
            parts.append(constants("i1", self.bits))
        if self.scalar is not None:
            parts.append(c.b.splat(self.scalar, self.width))
        if self.vector is not None:
            parts.append(self.vector)
        if not parts:
            return constant(LType("i1", self.width), True)
        result = parts[-1]
        for part in parts[:-1]:
            result = c.b.binary("and", result, part)
        return result


def both(c: Context, a: LaneMask, b: LaneMask) -> LaneMask:
    """Return the lanes active in both masks."""
    if a.is_empty or b.is_full:
        return a
    if b.is_empty or a.is_full:
        return b
    bits = a.bits if b.bits is None else b.bits
    if a.bits is not None and b.bits is not None:
        bits = tuple(x and y for x, y in zip(a.bits, b.bits, strict=True))
    scalar = _conjunction(c, a.scalar, b.scalar)
    return LaneMask(a.width, bits, scalar, _conjunction(c, a.vector, b.vector))


def _conjunction(c: Context, a: Operand | None, b: Operand | None) -> Operand | None:
    if a is None or b is None:
        return b if a is None else a
    return c.b.binary("and", a, b)
