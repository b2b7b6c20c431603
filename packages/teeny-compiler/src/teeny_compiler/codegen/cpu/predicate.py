"""Bool tiles that are not computed: comparisons of index tiles, and conjunctions."""
# ruff: noqa: D102 - the methods are documented once, on Tile

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from teeny_core import bool_

from teeny_compiler.codegen.builder import (
    FALSE,
    I64,
    TRUE,
    Operand,
    constant,
    constants,
)
from teeny_compiler.codegen.cpu import linear
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.lanes import Chunk, LaneMask, both, chunk, lanes_of
from teeny_compiler.codegen.cpu.layout import Indices, Piece
from teeny_compiler.codegen.cpu.linear import Linear
from teeny_compiler.codegen.cpu.values import Tile

_RELATIONS = {"lt": "icmp slt", "eq": "icmp eq", "ne": "icmp ne"}
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Predicate(Tile):
    """A bool tile: where a linear form is below zero (`lt`), zero (`eq`) or not zero (`ne`)."""

    form: Linear
    relation: str

    def mask(self, c: Context, k: int) -> LaneMask:
        made = c.b.remember((self, k), lambda: self._mask(c, k))
        assert isinstance(made, LaneMask)
        return made

    def _mask(self, c: Context, k: int) -> LaneMask:
        piece = c.pieces(self.shape)[k]
        part = chunk(self.form, piece)
        always, never = self._decided(c, part)
        if (always | never).all():
            bits = (*map(bool, always), *(False,) * (piece.width - piece.count))
            return LaneMask(piece.width, None if all(bits) else bits)
        if part.is_uniform:
            return LaneMask(piece.width).also(self._scalar(c, part.base))
        return LaneMask(piece.width, vector=self._compare(c, part, piece))

    def _decided(self, c: Context, part: Chunk) -> tuple[Flags, Flags]:
        """Return the lanes that hold and those that fail whatever the registers are."""
        low, high = linear.bounds(part.base, c.known) if not part.strides else linear.ANY
        below, above = high + part.steps < 0, low + part.steps > 0
        zero = (low + part.steps == 0) & (high + part.steps == 0)
        if self.relation == "lt":
            return below, above | (low + part.steps == 0)
        decided = (zero, below | above)
        return decided if self.relation == "eq" else decided[::-1]

    def _scalar(self, c: Context, form: Linear) -> Operand:
        always, never = self._decided(c, Chunk(form, np.zeros(1, np.int64), ()))
        if always[0] or never[0]:
            return TRUE if always[0] else FALSE
        opcode = _RELATIONS[self.relation]
        return c.b.compare(opcode, linear.integer(c.b, form), constant(I64, 0))

    def _compare(self, c: Context, part: Chunk, piece: Piece) -> Operand:
        """Compare lanes; by 32-bit numbers where the lanes differ by constants only."""
        if part.strides or piece.width == 1:
            values = lanes_of(c, part, "i64", piece.width)
            opcode = _RELATIONS[self.relation]
            return c.b.compare(opcode, values, constant(values.type, 0))
        least, most = int(part.steps.min()), int(part.steps.max())
        limit = linear.integer(c.b, -part.base)
        limit = c.b.intrinsic("smax", limit, constant(I64, least - 1))
        limit = c.b.intrinsic("smin", limit, constant(I64, most + 1))
        pad = [most] * (piece.width - piece.count)
        steps = constants("i32", [*map(int, part.steps), *pad])
        bound = c.b.splat(c.b.convert("trunc", limit, "i32"), piece.width)
        opcode = _RELATIONS[self.relation]
        return c.b.compare(opcode, steps, bound)

    def vector(self, c: Context, k: int) -> Operand:
        return self.mask(c, k).to_vector(c)

    def item(self, c: Context, flat: int) -> Operand:
        return self._scalar(c, self.form.at(flat))

    @property
    def is_uniform(self) -> bool:
        return self.form.is_uniform

    def moved(self, c: Context, shape: tuple[int, ...], index: Indices) -> Tile:
        return Predicate(shape, bool_, self.form.moved(shape, index), self.relation)


@dataclass(frozen=True, eq=False)
class Both(Tile):
    """A bool tile: where two others hold."""

    a: Tile
    b: Tile

    def mask(self, c: Context, k: int) -> LaneMask:
        return both(c, self.a.mask(c, k), self.b.mask(c, k))

    def vector(self, c: Context, k: int) -> Operand:
        return self.mask(c, k).to_vector(c)

    def item(self, c: Context, flat: int) -> Operand:
        a, b = self.a.item(c, flat), self.b.item(c, flat)
        if FALSE in (a, b):
            return FALSE
        return b if a == TRUE else a if b == TRUE else c.b.binary("and", a, b)

    @cached_property
    def is_uniform(self) -> bool:
        return self.a.is_uniform and self.b.is_uniform

    def moved(self, c: Context, shape: tuple[int, ...], index: Indices) -> Tile:
        return Both(shape, bool_, self.a.moved(c, shape, index), self.b.moved(c, shape, index))
