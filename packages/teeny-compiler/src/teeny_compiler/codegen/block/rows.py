"""Groups with reductions along the last axis, and reductions along other axes.

Rows are walked in strips, as many as a vector has lanes where they are short. In a strip the passes
alternate: all rows of a pass, then what the rows give, a vector of it at a time, then the next
pass. A long row keeps several vectors of partial results, which a strip transposes at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import teeny_triton.language as tl
from teeny_core import DType
from teeny_triton.ir import Value

from teeny_compiler.codegen.block.accumulate import Accumulator, Fold
from teeny_compiler.codegen.block.evaluate import Buffer, Place, Window, in_memory, plus
from teeny_compiler.codegen.block.limits import limits_of_rows
from teeny_compiler.codegen.block.masks import Bound
from teeny_compiler.codegen.block.nests import Nest, bound_of, clipped, masks_of
from teeny_compiler.codegen.block.plan import Group, Root

STRIP_ELEMENTS = 4096  # elements of rows whose passes alternate: the first cache holds them


def emit_rows(nest: Nest, group: Group) -> None:
    """Write the loops of a group, and make the results of its rows known."""
    _Rows(nest, group).emit()


@dataclass
class _Rows:
    nest: Nest
    group: Group

    def emit(self) -> None:
        outer = self.group.outer
        self.results = {
            root: self.nest.scratch(root.op.result.type.shape, root.op.result.type.element)
            for root in self.group.roots()
            if root.kind == "reduce" and outer and root.op is not None
            if isinstance(root.op.result.type.element, DType)
        }
        self.local: dict[Value, Buffer] = {}
        if not outer:
            for roots in self.group.passes:
                self._row(roots, (), 1)
            return
        widest = max(root.space[-1] for root in self.group.roots() if root.outer == outer)
        most = min(max(self.nest.lanes, 1), max(1, STRIP_ELEMENTS // widest))
        self.strip = max(n for n in range(1, most + 1) if outer[-1] % n == 0)
        self._versioned()

    def _versioned(self) -> None:
        """Write all rows: twice where masks limit the rows, once without those masks."""
        e, roots = self.nest.e, list(self.group.roots())
        masks = [mask for root in roots for mask in masks_of(self.nest.facts, root)]
        limits = limits_of_rows(self.nest.facts, masks, self.group.outer)
        met = limits.are_met(e)
        if met is None:
            self._along(0, ())
            return

        before = dict(e.buffers)

        def version(assumptions: set[Value]) -> None:
            self.local = {}
            e.buffers.clear()
            e.buffers.update(before)
            with e.assuming(assumptions):
                self._along(0, ())
            for value in self.local:
                e.buffers.pop(value)

        tl.if_(met, lambda: version(limits.assumptions), lambda: version(set()))

    def _along(self, axis: int, prefix: tuple[Place, ...]) -> None:
        outer = self.group.outer
        if axis < len(outer) - 1:
            self.nest.loop(outer[axis], 1, lambda i: self._along(axis + 1, (*prefix, i)))
        else:
            self.nest.loop(outer[-1], self.strip, lambda i: self._strip((*prefix, i)))

    def _strip(self, origin: tuple[Place, ...]) -> None:
        """Write all passes over a strip of rows."""
        for roots in self.group.passes:
            columns = [root for root in roots if len(root.space) > len(origin)]
            self._row(columns, origin, self.strip)
            single = [root for root in roots if len(root.space) == len(origin)]
            window = Window(origin, (*(1,) * (len(origin) - 1), self.strip))
            inputs = self.nest.inputs(single, window)
            for root, values in zip(single, inputs, strict=True):
                self.nest.write(root, window, values)
                if root.value is not None and root.buffer is not None:
                    self.nest.e.buffers[root.value] = root.buffer

    def _row(self, roots: list[Root], origin: tuple[Place, ...], strip: int) -> None:
        """Write one pass over a strip: equal lengths of rows together."""
        for length in dict.fromkeys(root.space[-1] for root in roots):
            same = [root for root in roots if root.space[-1] == length]
            _Pass(self, same, length, origin, strip).emit()


@dataclass
class _Pass:
    """One loop along the rows of a strip."""

    rows: _Rows
    roots: list[Root]
    length: int
    origin: tuple[Place, ...]
    strip: int

    def emit(self) -> None:
        nest, e = self.rows.nest, self.rows.nest.e
        self.nest = nest
        self.folds = [
            (root, Fold(root.op)) for root in self.roots if root.kind == "reduce" and root.op
        ]
        for root in self.roots:
            if root.is_local and root.value is not None:
                self._localise(root)
        if self.length <= nest.block:
            self._short()
        else:
            self._long()
        for root in self.roots:
            if root.value is not None:
                buffer = self.rows.local.get(root.value) or root.buffer
                assert buffer is not None
                e.buffers[root.value] = buffer
        for root, _ in self.folds:
            assert root.op is not None
            if root in self.rows.results:
                e.buffers[root.op.result] = self.rows.results[root]

    def _localise(self, root: Root) -> None:
        """Give a value that only this group wants memory for one strip."""
        assert root.value is not None
        known = self.rows.local.get(root.value)
        rank = len(root.space)
        if known is None:
            assert root.buffer is not None
            shape = (self.strip, self.length)
            known = self.nest.scratch(shape, root.buffer.dtype)
        strides = (*(0,) * (rank - 2), self.length, 1) if rank > 1 else (1,)
        first = (*self.origin, 0)
        self.rows.local[root.value] = Buffer(known.pointer, known.dtype, strides, first)

    # -- rows no longer than a block

    def _short(self) -> None:
        """Take as many rows at once as fit in two blocks."""
        room = max(1, 2 * self.nest.block // self.length)
        count = max(n for n in range(1, min(room, self.strip) + 1) if self.strip % n == 0)

        def visit(row: Place) -> None:
            window = self._window(row, count, 0, self.length)
            for (root, fold), block in zip(self.folds, self._block(window), strict=True):
                self._deliver(root, row, count, fold.finish(fold.fold(block, 1)))

        self.nest.loop(self.strip, count, visit)

    def _window(self, row: Place, count: int, column: Place, width: int) -> Window:
        if not self.origin:
            return Window((column,), (width,))
        *prefix, first = self.origin
        origin = (*prefix, plus(first, row), column)
        return Window(origin, (*(1,) * len(prefix), count, width))

    def _block(self, window: Window) -> list[Accumulator]:
        """Do the work of stores and kept values for a window; return it to the reductions."""
        inputs = self.nest.inputs(self.roots, window)
        blocks = []
        width = window.extent[-1]
        for root, values in zip(self.roots, inputs, strict=True):
            if root.kind == "reduce":
                assert root.op is not None
                tile = tl.Tile(values[0]).reshape(-1, width)
                blocks.append(Fold(root.op).block(tile, 1, window.origin[-1]))
            elif root.value is not None and root.value in self.rows.local:
                tl.store(self.rows.local[root.value].at(window), in_memory(values[0]))
            else:
                self.nest.write(root, window, values)
        return blocks

    def _deliver(self, root: Root, row: Place, count: int, result: tl.Tile) -> None:
        """Make the results of `count` rows known: in memory, or as a scalar."""
        assert root.op is not None
        e = self.nest.e
        if not self.origin:
            e.scalars[root.op.result] = result.reshape(()).value
            return
        *prefix, first = self.origin
        window = Window((*prefix, plus(first, row)), (*(1,) * len(prefix), count))
        tl.store(self.rows.results[root].at(window), result.reshape(*window.extent))
        if count == self.strip:
            e.remember(root.op.result, window, result.reshape(*window.extent).value)

    # -- long rows

    def _long(self) -> None:
        lanes = max(self.nest.lanes, 1)
        block = self.nest.block
        if self.strip == 1 or not self.folds or self.length % block:
            self.nest.loop(self.strip, 1, self._one_row)
            return
        partial = [
            [self.nest.scratch((self.strip, lanes), dtype) for dtype in fold.dtypes]
            for _, fold in self.folds
        ]

        def visit(row: Place) -> None:
            for (_, fold), buffers, total in zip(
                self.folds, partial, self._sweep(row), strict=True
            ):
                parts = tuple(tile.reshape(block // lanes, lanes) for tile in total)
                folded = fold.fold(parts, 0)
                for buffer, tile in zip(buffers, folded, strict=True):
                    tl.store(buffer.at(Window((row, 0), (1, lanes))), tile.reshape(1, lanes))

        self.nest.loop(self.strip, 1, visit)
        for (root, fold), buffers in zip(self.folds, partial, strict=True):
            square = Window((0, 0), (self.strip, lanes))
            tiles = tuple(tl.load(buffer.at(square)) for buffer in buffers)
            self._deliver(root, 0, self.strip, fold.finish(fold.fold(tiles, 1)))

    def _one_row(self, row: Place) -> None:
        totals = self._sweep(row)
        for (root, fold), total in zip(self.folds, totals, strict=True):
            folded = fold.fold(total, 1)
            rest = self._rest.get(root)
            if rest is not None:
                folded = fold.add(folded, fold.fold(rest, 1))
            self._deliver(root, row, 1, fold.finish(folded))

    def _sweep(self, row: Place) -> list[Accumulator]:
        """Walk one row by blocks; return the accumulators, and keep those of a shorter rest."""
        block = self.nest.block
        self._rest: dict[Root, Accumulator] = {}
        starts = [fold.start((1, block)) for _, fold in self.folds]
        flat = tuple(tile for start in starts for tile in start)
        bound = None
        if self.length % block == 0:
            rank = len(self.roots[0].space)
            bound = bound_of(self.nest.facts, self.rows.group, self.roots, rank - 1)
        if bound is not None:
            return self._split(self._bounded(bound, row, flat))
        whole = self.length // block * block
        flat = self._blocks(row, 0, whole, flat)
        if whole < self.length:
            with self.nest.e.region():
                rest = self._block(self._window(row, 1, whole, self.length - whole))
            self._rest = {root: r for (root, _), r in zip(self.folds, rest, strict=True)}
        return self._split(flat)

    def _bounded(self, bound: Bound, row: Place, flat: Accumulator) -> Accumulator:
        """Walk blocks inside the bound without its mask, then one with it."""
        e, block = self.nest.e, self.nest.block
        places = self._window(row, 1, 0, 1).origin
        limit = clipped(bound.limit(e, places), self.length)
        main = limit // block * block
        with e.assuming({bound.comparison}):
            flat = self._blocks(row, 0, main, flat)

        def tail() -> Accumulator:
            with e.region():
                return self._add(flat, self._block(self._window(row, 1, main.value, block)))

        return tl.if_(main < limit, tail, lambda: flat)

    def _blocks(
        self, row: Place, start: int, stop: int | tl.Tile, flat: Accumulator
    ) -> Accumulator:
        block = self.nest.block

        def run(column: tl.Tile, *carried: tl.Tile) -> Accumulator:
            with self.nest.e.region():
                return self._add(carried, self._block(self._window(row, 1, column.value, block)))

        if isinstance(stop, int) and stop - start <= block:
            with self.nest.e.region():
                return self._add(flat, self._block(self._window(row, 1, start, block)))
        return tl.for_(start, stop, block, flat, run)

    def _add(self, flat: Accumulator, blocks: Sequence[Accumulator]) -> Accumulator:
        totals = self._split(flat)
        result: list[tl.Tile] = []
        for (_, fold), total, block in zip(self.folds, totals, blocks, strict=True):
            result.extend(fold.add(total, block))
        return tuple(result)

    def _split(self, flat: Accumulator) -> list[Accumulator]:
        """Cut a flat list of tiles into accumulators."""
        totals = []
        at = 0
        for _, fold in self.folds:
            totals.append(tuple(flat[at : at + len(fold.dtypes)]))
            at += len(fold.dtypes)
        return totals


# -- reductions along another axis than the last


def emit_columns(nest: Nest, root: Root) -> None:
    """Reduce an axis: blocks of the last axis are kept in registers while the axis is walked."""
    assert root.op is not None
    fold, space, axis = Fold(root.op), root.space, root.axis
    kind = root.op.result.type
    assert isinstance(kind.element, DType)
    result = nest.scratch(kind.shape, kind.element)
    width = min(space[-1], nest.block)
    depth = max(1, min(space[axis], nest.block // width))
    kept = [a for a in range(len(space) - 1) if a != axis]

    def along(number: int, places: dict[int, Place]) -> None:
        if number < len(kept):
            a = kept[number]
            nest.loop(space[a], 1, lambda i: along(number + 1, {**places, a: i}))
            return
        whole = space[-1] // width * width
        nest.loop(whole, width, lambda j: block(places, j, width))
        if whole < space[-1]:
            with nest.e.region():
                block(places, whole, space[-1] - whole)

    def block(places: dict[int, Place], column: Place, count: int) -> None:
        def part(start: Place, size: int) -> Accumulator:
            origin = tuple(
                start if a == axis else column if a == len(space) - 1 else places[a]
                for a in range(len(space))
            )
            extent = tuple(
                size if a == axis else count if a == len(space) - 1 else 1
                for a in range(len(space))
            )
            assert root.op is not None
            x = tl.Tile(nest.e(root.op.operands[0], Window(origin, extent)))
            return fold.block(x.reshape(size, count), 0, start)

        def run(start: tl.Tile, *carried: tl.Tile) -> Accumulator:
            with nest.e.region():
                return fold.add(carried, part(start.value, depth))

        whole = space[axis] // depth * depth
        total = tl.for_(0, whole, depth, fold.start((depth, count)), run)
        folded = fold.fold(total, 0)
        if whole < space[axis]:
            folded = fold.add(folded, fold.fold(part(whole, space[axis] - whole), 0))
        origin = tuple(
            column if a == len(space) - 1 else places[a] for a in (*kept, len(space) - 1)
        )
        window = Window(origin, (*(1,) * len(kept), count))
        tl.store(result.at(window), fold.finish(folded).reshape(*window.extent))

    along(0, {})
    nest.e.buffers[root.op.result] = result
