"""Where a load or a store goes: addresses, masks, and what they tell of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from teeny_triton.ir import Op, Pointer

from teeny_compiler.codegen.builder import LType, Operand, constant
from teeny_compiler.codegen.cpu import access
from teeny_compiler.codegen.cpu.context import Context, Pending
from teeny_compiler.codegen.cpu.emitter import Emitter
from teeny_compiler.codegen.cpu.lanes import Chunk, LaneMask
from teeny_compiler.codegen.cpu.layout import Indices, Piece
from teeny_compiler.codegen.cpu.linear import ONE, Linear
from teeny_compiler.codegen.cpu.transpose import Transposed
from teeny_compiler.codegen.cpu.types import (
    Element,
    element_bytes,
    memory_scalar,
    register_scalar,
)
from teeny_compiler.codegen.cpu.values import Computed, Index, Lazy, Registers, Tile

MIN_TRANSPOSED = 4  # shortest run of consecutive addresses for which rows are read along it


@dataclass(frozen=True)
class Place:
    """What a memory operation addresses: pointers, who is active, and the element type."""

    pointers: Tile
    mask: Tile | None
    element: Element

    @property
    def align(self) -> int:
        """Alignment that every element has."""
        return element_bytes(self.element)

    @property
    def scalar(self) -> str:
        """LLVM type of an element in memory."""
        return memory_scalar(self.element)

    def active(self, c: Context, k: int, piece: Piece) -> LaneMask:
        """Return the mask of piece `k`; lanes past its elements are active or not."""
        return LaneMask(piece.width) if self.mask is None else self.mask.mask(c, k)

    def permuted(self, c: Context, order: tuple[int, ...]) -> Place:
        """Return the same places with the axes permuted."""
        mask = None if self.mask is None else permuted(c, self.mask, order)
        return Place(permuted(c, self.pointers, order), mask, self.element)

    def condition(self, c: Context, flat: int) -> Operand:
        """Return the mask of one element."""
        return Operand(LType("i1"), "true") if self.mask is None else self.mask.item(c, flat)


def place_of(e: Emitter, op: Op, mask_at: int) -> Place:
    """Return what an op addresses; its mask, if any, is operand `mask_at`."""
    pointers = e.tile(op.operands[0])
    mask = e.tile(op.operands[mask_at]) if len(op.operands) > mask_at else None
    kind = op.operands[0].type.element
    assert isinstance(kind, Pointer)
    return Place(pointers, mask, kind.pointee)


def root_of(c: Context, pointers: Tile) -> object:
    """Return the parameter or scratch memory that pointers derive from, None if unknown."""
    if isinstance(pointers, Index) and pointers.form.pointer is not None:
        return c.roots.get(pointers.form.pointer)
    return None


def zero_of(type: LType) -> Operand:
    """Return zero, or the null address."""
    if type.scalar == "ptr":
        return Operand(type, "null" if type.lanes == 1 else "zeroinitializer")
    return constant(type, 0)


def permuted(c: Context, tile: Tile, order: tuple[int, ...]) -> Tile:
    """Return a tile with its axes permuted."""
    shape = tuple(tile.shape[axis] for axis in order)
    index = np.arange(int(np.prod(tile.shape, dtype=np.int64))).reshape(tile.shape)
    index = index.transpose(order).reshape(-1)
    if isinstance(tile, Registers | Computed | Lazy | Pending) and len(order) > 1:
        return Transposed(shape, tile.element, (tile,), index, order)
    return tile.moved(c, shape, index)


def run_axis(pointers: Tile) -> int | None:
    """Return an axis of consecutive addresses, when that is not the last one."""
    if not isinstance(pointers, Index) or len(pointers.shape) < 2:
        return None
    steps = [_is_run(pointers.form, axis) for axis in range(len(pointers.shape))]
    if steps[-1]:
        return None
    runs = [axis for axis, run in enumerate(steps) if run]
    return max(runs, key=lambda axis: pointers.shape[axis], default=None)


def _is_run(form: Linear, axis: int) -> bool:
    """Whether neighbours along an axis of some length have consecutive addresses."""
    if form.shape[axis] < MIN_TRANSPOSED:
        return False
    for register, table in form.terms.items():
        if table.shape[axis] > 1 and (register != ONE or (np.diff(table, axis=axis) != 1).any()):
            return False
    return ONE in form.terms and form.terms[ONE].shape[axis] > 1


def runs_of(part: Chunk) -> list[tuple[int, int]]:
    """Cut the lanes of a piece into (first lane, length) of consecutive addresses."""
    breaks = np.diff(part.steps) != 1
    for _, factors in part.strides:
        breaks |= np.diff(factors) != 0
    starts = [0, *(int(i) + 1 for i in np.flatnonzero(breaks))]
    ends = [*starts[1:], part.steps.size]
    return [(start, end - start) for start, end in zip(starts, ends, strict=True)]


def lane_form(part: Chunk, lane: int) -> Linear:
    """Return the address of one lane as a scalar form."""
    terms: dict[Operand, Indices] = dict(part.base.terms)
    steps = [(ONE, part.steps), *part.strides]
    for register, factors in steps:
        extra = np.asarray(factors[lane])
        terms[register] = terms[register] + extra if register in terms else extra
    return Linear((), terms, part.base.pointer)


@dataclass(frozen=True)
class Run:
    """Some neighbouring lanes of a vector."""

    start: int
    count: int

    @property
    def width(self) -> int:
        """Lanes of a vector that holds the run."""
        return 1 << (self.count - 1).bit_length()

    @property
    def picks(self) -> list[int]:
        """Lanes of the whole vector for each lane of the run's vector."""
        return [self.start + i if i < self.count else -1 for i in range(self.width)]

    def of(self, c: Context, vector: Operand) -> Operand:
        """Cut the run out of a vector."""
        return c.b.shuffle(vector, None, self.picks)

    def put(self, c: Context, vector: Operand, run: Operand) -> Operand:
        """Replace the run in a vector."""
        width = vector.type.lanes
        if run.type.lanes == 1:
            return c.b.insert(vector, run, self.start)
        inside = range(self.start, self.start + self.count)
        spread = [lane - self.start if lane in inside else -1 for lane in range(width)]
        wide = c.b.shuffle(run, None, spread)
        picks = [width + lane if lane in inside else lane for lane in range(width)]
        return c.b.shuffle(vector, wide, picks)

    def mask(self, c: Context, mask: LaneMask) -> LaneMask:
        """Cut the run out of a mask."""
        bits = None
        if mask.bits is not None:
            bits = tuple(pick >= 0 and mask.bits[pick] for pick in self.picks)
        vector = None if mask.vector is None else self.of(c, mask.vector)
        return LaneMask(self.width, bits, mask.scalar, vector)


def within(mask: LaneMask, piece: Piece) -> LaneMask:
    """Switch off the lanes past the elements of a piece."""
    return access.limited(mask, piece.count)


def from_memory(c: Context, value: Operand, element: Element) -> Operand:
    """Turn what memory holds into what registers hold: bytes into truth values."""
    if register_scalar(element) == "i1" and value.type.scalar != "i1":
        return c.b.compare("icmp ne", value, constant(value.type, 0))
    return value


def to_memory(c: Context, value: Operand) -> Operand:
    """Turn what registers hold into what memory holds."""
    return c.b.convert("zext", value, "i8") if value.type.scalar == "i1" else value
