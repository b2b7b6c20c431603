"""Copies of the factors of a product, as its innermost loop wants them.

Both are made by the same evaluation as everything else, so that masks, casts and transposes cost
one pass over a factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import teeny_triton.language as tl
from teeny_core import i32
from teeny_triton.ir import Value

from teeny_compiler.codegen.block.evaluate import Buffer, Place, Window
from teeny_compiler.codegen.block.factors import Factors, tile
from teeny_compiler.codegen.block.limits import Limits
from teeny_compiler.codegen.block.words import Words, as_words


@dataclass(frozen=True)
class Panel:
    """B, copied: numbers or words (see `pack_right`), and what results are too large by."""

    memory: Buffer
    excess: Buffer | None = None


def copy_left(f: Factors, limits: Limits) -> Buffer:
    """Copy A to rows without gaps, all turns side by side."""
    rows, words = f.a.type.shape[0], f.words
    steps = f.turns.most * f.steps
    copy = f.nest.scratch((rows, steps * f.step), words.left if words else f.factor)
    size = _lines_at_once(f, f.a)

    def each(turn: Place) -> None:
        def block(row: Place, k: Place, rows: int, width: int) -> None:
            part = tl.Tile(f.nest.e(f.a, Window((row, k), (rows, width))))
            part = words.of_left(part) if words else part.to(f.factor)
            at = f.along(turn, k, f.steps * f.step)
            tl.store(copy.at(Window((row, at), (rows, width))), part)

        _blocks(f, rows, f.depth, size, f.nest.block if size == 1 else size, block)

    f.each_turn(_versioned(f, limits, each))
    return Buffer(as_words(copy), i32, (steps, 1)) if words else copy


def pack_right(f: Factors, width: int) -> Panel:
    """Copy B into panels of `width` columns; element (k, j) of panel p lies at (p w, k, j)."""
    columns, words = f.b.type.shape[1], f.words
    panels = -(-columns // width)
    element = words.right if words else f.factor
    turn_depth = f.steps * f.step
    depth = f.turns.most * turn_depth
    memory = f.nest.scratch((panels * depth * width,), element)
    panel = Buffer(memory.pointer, element, (depth, width, 1))
    size = _lines_at_once(f, f.b)

    def each(turn: Place) -> None:
        def block(k: Place, column: Place, size: int, count: int) -> None:
            part = tl.Tile(f.nest.e(f.b, Window((k, column), (size, count))))
            at = Window((column, f.along(turn, k, turn_depth), 0), (1, size, count))
            tl.store(panel.at(at), part.to(element).reshape(1, size, count))

        def clear(column: Place) -> None:
            rows = turn_depth - f.depth
            at = Window((column, f.along(turn, f.depth, turn_depth), 0), (1, rows, width))
            tl.store(panel.at(at), tl.zeros((1, rows, width), element))

        _blocks(f, f.depth, columns, max(size, 2), width, block)
        if turn_depth > f.depth:
            f.nest.loop(panels * width, width, clear)

    f.each_turn(_versioned(f, f.limits(f.b), each))
    return _interleaved(f, words, panel, panels, width) if words else Panel(panel)


def _interleaved(f: Factors, words: Words, panel: Buffer, panels: int, width: int) -> Panel:
    """Turn rows of integers, some after one another, into rows of words in the same memory."""
    joined = Buffer(as_words(panel), i32, (f.turns.most * f.steps, width, 1))
    excess = f.nest.scratch((1, panels * width), i32) if words.bias else None
    row = (1, 1, width)
    ones = tl.full(row, 0x01010101, i32)
    steps = tile(f.turns.count) * f.steps

    def work(column: Place) -> None:
        def step(k: tl.Tile, *sums: tl.Tile) -> tuple[tl.Tile, ...]:
            places = [(k * words.count + part).value for part in range(words.count)]
            parts = [tl.load(panel.at(Window((column, at, 0), row))) for at in places]
            word = words.joined(parts)
            tl.store(joined.at(Window((column, k.value, 0), row)), word)
            return tuple(words.multiply_add(ones, word, total) for total in sums)

        start = (tl.zeros(row, i32),) if excess else ()
        for total in tl.for_(0, steps, 1, start, step):
            assert excess is not None
            place = excess.at(Window((0, column), (1, width)))
            tl.store(place, total.reshape(1, width) * words.bias)

    f.nest.loop(panels * width, width, work)
    return Panel(joined, excess)


def _versioned(
    f: Factors, limits: Limits, work: Callable[[Place], None]
) -> Callable[[Place], None]:
    """Return work that is written twice: for what meets its limits, and for what does not."""

    def run(turn: Place) -> None:
        met = limits.are_met(f.nest.e)
        if met is None:
            work(turn)
            return

        def plain() -> None:
            with f.nest.e.assuming(limits.assumptions):
                work(turn)

        def masked() -> None:
            with f.nest.e.region():
                work(turn)

        tl.if_(met, plain, masked)

    return run


def _blocks(
    f: Factors,
    height: int,
    width: int,
    rows: int,
    columns: int,
    work: Callable[[Place, Place, int, int], None],
) -> None:
    """Call `work(row, column, rows, columns)` for all blocks of a space, also those cut off."""

    def line(row: Place, rows: int) -> None:
        whole = width // columns * columns
        f.nest.loop(whole, columns, lambda column: work(row, column, rows, columns))
        if whole < width:
            with f.nest.e.region():
                work(row, whole, rows, width - whole)

    whole = height // rows * rows
    f.nest.loop(whole, rows, lambda row: line(row, rows))
    if whole < height:
        with f.nest.e.region():
            line(whole, height - whole)


def _lines_at_once(f: Factors, matrix: Value) -> int:
    """Take as many rows as a transposition in registers wants where columns lie in memory."""
    facts, extent = f.nest.facts, min(matrix.type.shape)
    value: Value | None = matrix
    axis = 0
    while value is not None:
        op = facts.definition.get(value)
        if op is None:
            return 1
        if op.opcode == "load":
            across = facts.step(op.operands[0], axis) == 1
            return min(f.lanes, extent) if across else 1
        if op.opcode == "trans":
            axis = tuple(op.attrs["order"])[axis]
        tiles = [operand for operand in op.operands if operand.type.shape == value.type.shape]
        turned = op.opcode == "trans"
        value = op.operands[0] if turned else tiles[-1] if tiles else None
    return 1
