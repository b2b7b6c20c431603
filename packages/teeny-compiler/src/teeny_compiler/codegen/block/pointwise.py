"""Groups without reductions: equal spaces, walked in blocks of whole trailing axes."""

from __future__ import annotations

import teeny_triton.language as tl
from teeny_triton.ir import Value

from teeny_compiler.codegen.block.evaluate import Place, Window
from teeny_compiler.codegen.block.facts import Axes, Facts
from teeny_compiler.codegen.block.masks import Bound
from teeny_compiler.codegen.block.nests import Nest, bound_of, clipped
from teeny_compiler.codegen.block.plan import Group, Root, Shape, reached

SHORTEST = 4  # lanes and extents from which on turning a block in registers pays


def emit_pointwise(nest: Nest, group: Group) -> None:
    """Write the loops of a group of stores and kept values."""
    for roots in group.passes:
        for space in dict.fromkeys(root.space for root in roots):
            _Walk(nest, group, [root for root in roots if root.space == space], space).emit()
        for root in roots:
            if root.value is not None and root.buffer is not None:
                nest.e.buffers[root.value] = root.buffer


class _Walk:
    """The loops over one space."""

    def __init__(self, nest: Nest, group: Group, roots: list[Root], space: Shape) -> None:
        self.nest, self.roots, self.space = nest, roots, space
        self.extent = _extent(space, nest.block)
        turned = _turned(nest.facts, roots, len(space))
        if turned is not None and min(nest.lanes, space[turned], space[-1]) >= SHORTEST:
            self.extent = _square(space, turned, nest.lanes)
        rank = len(space)
        cut = space[-1] > self.extent[-1] and space[-1] % self.extent[-1] == 0
        wide = [axis for axis in range(rank - 1) if self.extent[axis] > 1]
        self.columns = bound_of(nest.facts, group, roots, rank - 1, wide) if cut else None
        by_rows = rank > 1 and self.extent[-2] == 1 and space[-2] > 1
        wide.append(rank - 1)
        self.rows = bound_of(nest.facts, group, roots, rank - 2, wide) if by_rows else None

    def emit(self) -> None:
        """Write the loops."""
        self._along(0, (), ())

    def _along(self, axis: int, origin: tuple[Place, ...], size: Shape) -> None:
        if axis == len(self.space):
            window = Window(origin, size)
            inputs = self.nest.inputs(self.roots, window)
            for root, values in zip(self.roots, inputs, strict=True):
                self.nest.write(root, window, values)
        elif axis == len(self.space) - 1 and self.columns is not None:
            self._bounded(self.columns, origin, size)
        else:
            self._whole(axis, origin, size)

    def _whole(self, axis: int, origin: tuple[Place, ...], size: Shape) -> None:
        """Walk an axis by blocks, then by what is left; rows up to their bound."""
        step, extent = self.extent[axis], self.space[axis]
        whole = extent // step * step
        stop: int | tl.Tile = whole
        known: set[Value] = set()
        if self.rows is not None and axis == len(self.space) - 2:
            places = (*origin, *(0,) * (len(self.space) - axis))
            stop = clipped(self.rows.limit(self.nest.e, places), extent)
            known = {self.rows.comparison}
        with self.nest.e.assuming(known):
            self.nest.loop(stop, step, lambda i: self._along(axis + 1, (*origin, i), (*size, step)))
        if whole < extent:
            with self.nest.e.region():
                self._along(axis + 1, (*origin, whole), (*size, extent - whole))

    def _bounded(self, bound: Bound, origin: tuple[Place, ...], size: Shape) -> None:
        """Walk the last axis: blocks inside the bound without its mask, then one with it."""
        e, step = self.nest.e, self.extent[-1]
        limit = clipped(bound.limit(e, (*origin, 0)), self.space[-1])
        main = limit // step * step
        last = len(self.space)
        with e.assuming({bound.comparison}):
            self.nest.loop(main, step, lambda j: self._along(last, (*origin, j), (*size, step)))

        def tail() -> None:
            with e.region():
                self._along(last, (*origin, main.value), (*size, step))

        tl.if_(main < limit, tail)


def _turned(facts: Facts, roots: list[Root], rank: int) -> int | None:
    """Return an axis other than the last along which some root walks memory element by element."""
    axes = tuple(range(rank))
    pointers: list[tuple[Value, Axes]]
    for root in roots:
        pointers = [(root.op.operands[0], axes)] if root.op is not None else []
        for value, follows in reached(facts, root.inputs, axes):
            op = facts.definition.get(value)
            if op is not None and op.opcode == "load" and value.type.shape:
                pointers.append((op.operands[0], follows))
        for pointer, follows in pointers:
            for place, axis in enumerate(follows):
                if axis not in (None, rank - 1) and facts.step(pointer, place) == 1:
                    return axis
    return None


def _square(space: Shape, axis: int, lanes: int) -> Shape:
    """Choose a block that registers turn: vectors along the last axis and along another."""
    wanted = {axis: lanes, len(space) - 1: lanes}
    return tuple(min(extent, wanted.get(a, 1)) for a, extent in enumerate(space))


def _extent(space: Shape, block: int) -> Shape:
    """Choose a block: trailing axes, whole as long as they fit."""
    extent = [1] * len(space)
    room = block
    for axis in reversed(range(len(space))):
        extent[axis] = min(space[axis], room)
        room //= extent[axis]
        if room <= 1 or extent[axis] < space[axis]:
            break
    return tuple(extent)
