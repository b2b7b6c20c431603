"""Nest → tile IR: a kernel of explicit loops over tiles of a few vector registers.

    for each row of this program:
        for each phase:
            accumulators = neutral elements
            for each fold … for each tile of the lanes:  full tiles, then one masked tile
                evaluate, accumulate, store
            reduce the accumulators across the lanes
            store the values of the row

When the lanes are a kept dim they are walked outside of the phases, and a "row" is a tile of them.
Some rows are walked together, in the same loops: what each computes then waits less for itself, and
what is the same for all of them is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from teeny_core import Dim, Expr, i64, numel
from teeny_core import shape as shapes
from teeny_triton import language as tl
from teeny_triton.ir import Function, Pointer
from teeny_triton.language import Operand, Tile
from teeny_triton.target import Target

from teeny_compiler.lower.evaluate import Evaluator, symbolic_dims
from teeny_compiler.lower.loops import LoopPlan, plan_loops
from teeny_compiler.lower.phases import Kept, Phases
from teeny_compiler.lower.reductions import Accumulator, accumulator
from teeny_compiler.lower.turn import Square, plan_turn
from teeny_compiler.nest.nest import Nest, Store, dims_of


@dataclass(frozen=True)
class Kernel:
    """A generated kernel: its parameters are the nest's operands, then `scalars` (i64)."""

    function: Function
    grid: tuple[Dim, ...]
    scalars: tuple[Dim, ...]


def generate(nest: Nest, target: Target, name: str) -> Kernel:
    """Return a kernel that computes a nest on a machine."""
    plan = plan_loops(nest, target)
    turn = None if plan.lane is None else plan_turn(nest, plan.lane, target)
    scalars = symbolic_dims(nest, numel(nest.dims[d] for d in plan.rows))
    pointers = [(f"p{i}", Pointer(dtype)) for i, dtype in enumerate(nest.dtypes)]
    numbers = [(f"n{i}", i64) for i in range(len(scalars))]
    with tl.build_function(name, [*pointers, *numbers]) as build:
        addresses = dict(enumerate(build.arguments[: len(pointers)]))
        sizes = dict(zip(scalars, build.arguments[len(pointers) :], strict=True))
        if turn is not None:
            Square(nest, turn, addresses, sizes).program()
        else:
            Generator(nest, plan, addresses, sizes, target).program()
    return Kernel(build.function, (turn or plan).grid(nest), scalars)


class Generator(Evaluator):
    """Emits the loops of a kernel around the evaluation of its instructions."""

    def __init__(
        self,
        nest: Nest,
        plan: LoopPlan,
        addresses: Mapping[int, Tile],
        sizes: Mapping[Expr, Tile],
        target: Target,
    ) -> None:
        super().__init__(nest, plan.lane, plan.tile, addresses, sizes)
        self.plan = plan
        self.cache_line = target.cache_line
        self.phases = Phases(nest, plan)
        traffic = nest.traffic
        self.streams = isinstance(traffic, int) and traffic >= target.l3_bytes
        self.rows: list[dict[int, Operand]] = []  # the indices of the rows walked together
        self.turn = 0  # which of them is at work
        self.keeping = {
            i: tl.scratch(place.scratch * plan.together, nest.instructions[i].dtype)
            for i, place in self.phases.kept.items()
            if place.scratch
        }

    # --- the grid ----------------------------------------------------------------------------

    def program(self) -> None:
        """Emit one program: its run of rows, and of each its block of lanes."""
        count, run = numel(self.nest.dims[d] for d in self.plan.rows), self.plan.rows_per_program
        together = self.plan.together
        if shapes.equal(count, 1):
            self.walk(0)
            return
        first = tl.program_id(0).to(i64) * run
        whole = together == 1 or (isinstance(count, int) and count % together == 0)
        if run == together and whole:
            self.walk(first, together)
            return
        last = _minimum(first + run, self.dim(count))
        middle = last
        if not whole:
            middle = first + (last - first) // together * together
        with tl.loop(first, middle, together) as (row, _):
            self.walk(row, together)
            tl.yield_()
        if not whole:
            with tl.loop(middle, last) as (row, _):
                self.walk(row)
                tl.yield_()

    def walk(self, first: Operand, together: int = 1) -> None:
        """Emit the work of some rows; the number of each gives its index of each row dim."""
        with self.scope():
            self.rows = [
                self.row_index(first + turn if turn else first)  # type: ignore[operator]
                for turn in range(together)
            ]
            next(self.turns())
            lane = self.plan.lane
            if self.plan.in_registers and lane is not None:
                whole = self.nest.dims[lane] == self.plan.tile
                mask = None if whole else self._lanes_below(0, self.dim(self.nest.dims[lane]))
                with self.at(lane, 0, mask):
                    self.run_phases()
            elif lane is None or self.nest.reduced[lane]:
                self.run_phases()
            else:
                self.lane_blocks(lane)

    def row_index(self, row: Operand) -> dict[int, Operand]:
        """Return the index of each row dim at a row."""
        index: dict[int, Operand] = {}
        rest = row
        for dim in reversed(self.plan.rows[1:]):
            extent = self.dim(self.nest.dims[dim])
            index[dim] = rest % extent  # type: ignore[operator]
            rest = rest // extent  # type: ignore[operator]
        if self.plan.rows:
            index[self.plan.rows[0]] = rest
        return index

    def turns(self) -> Iterator[int]:
        """Let each of the rows that are walked together be at work in turn."""
        for turn, index in enumerate(self.rows):
            self.turn = turn
            self.index.update(index)
            yield turn

    def name(self, key: object) -> object:
        """Tell what is computed of one row from the same of the others."""
        if len(self.rows) < 2:
            return key
        dims = self.nest.varies[key] if isinstance(key, int) else key[2]  # type: ignore[index]
        return (self.turn, key) if any(d in self.plan.rows for d in dims) else key

    def lane_blocks(self, lane: int) -> None:
        """Emit the tiles of a kept lane dim that belong to this program."""
        extent, block = self.nest.dims[lane], self.plan.lane_block
        low: Operand = 0
        high = self.dim(extent)
        if block:
            low = tl.program_id(1).to(i64) * block
            high = _minimum(low + block, high)
        whole = isinstance(extent, int) and extent % self.plan.tile == 0

        def body(_: tuple[Tile, ...]) -> tuple[Tile, ...]:
            self.run_phases()
            return ()

        self.tiles(lane, low, high, whole, (), body)

    # --- phases ------------------------------------------------------------------------------

    def run_phases(self) -> None:
        """Emit all phases of a row."""
        with self.scope():
            for phase in range(self.phases.count):
                for _ in self.turns():
                    self.row_values(phase)
                if self.phases.loops(phase):
                    self.fold(phase)
                for _ in self.turns():
                    for store in self.phases.stores(phase, of_rows=True):
                        self.store(store)

    def row_values(self, phase: int) -> None:
        """Compute what is known of the row before the loops of a phase."""
        for i, level in enumerate(self.phases.levels):
            if level == 0 and self.phases.phase[i] == phase and self.known(i) is None:
                self.compute(i)

    def fold(self, phase: int) -> None:
        """Emit the loops of a phase, and finish its reductions."""
        reductions = self.phases.reductions(phase)
        tiles = [self.accumulator(i) for i in reductions]
        shape = () if self.lanes is None else self.lanes.shape
        inits = [part for _ in self.rows for a in tiles for part in a.start(shape)]
        for _ in self.turns():
            self.prepare(phase)
        if self.phases.inner:
            results = self.level(phase, 1, tiles, tuple(inits))
        else:
            results = self.innermost(phase, tiles, None)
        folded_lanes = self.plan.lane is not None and self.nest.reduced[self.plan.lane]
        split = iter(_split(results, tiles * len(self.rows)))
        for _ in self.turns():
            for i, accumulator_ in zip(reductions, tiles, strict=True):
                self.remember(i, accumulator_.finish(next(split), across_lanes=folded_lanes))

    def accumulator(self, i: int) -> Accumulator:
        """Return how a reduction accumulates."""
        instruction = self.nest.instructions[i]
        source = self.nest.instructions[instruction.args[0]].dtype
        return accumulator(instruction.op, source, instruction.dtype)

    def level(
        self, phase: int, level: int, tiles: list[Accumulator], carried: tuple[Tile, ...]
    ) -> tuple[Tile, ...]:
        """Emit the loop of a level and all loops inside of it; return the accumulators."""
        if level > self.phases.inner:
            return self.innermost(phase, tiles, carried)

        def body(values: tuple[Tile, ...]) -> tuple[Tile, ...]:
            for _ in self.turns():
                self.loop_values(phase, level)
            return self.level(phase, level + 1, tiles, values)

        if level > len(self.plan.folds):
            lane = self.plan.lane
            assert lane is not None
            extent = self.nest.dims[lane]
            whole = isinstance(extent, int) and extent % self.plan.tile == 0
            return self.tiles(lane, 0, self.dim(extent), whole, carried, body)
        dim = self.plan.folds[level - 1]
        counted = tl.loop(_wide(0), self.dim(self.nest.dims[dim]), 1, carried)
        with counted as (i, now), self.scope(), self.at(dim, i):
            tl.yield_(*body(now))
        return counted.results

    def loop_values(self, phase: int, level: int) -> None:
        """Compute, or read back, what is known once the index of a level is."""
        self.prepare(phase)
        for i in sorted(self.phases.work[phase]):
            if self.phases.levels[i] != level or self.known(i) is not None:
                continue
            place = self.phases.kept.get(i)
            if place is not None and place.phase < phase:
                pointer = self.kept_address(i, place)
                self.remember(i, tl.load(pointer, None if place.scratch else self.mask))
                continue
            self.compute(i)
            if phase and phase == self.phases.last(i):
                self.prefetch_next_row(i)
            if place is not None and (place.scratch or not self.is_stored_now(i, place, phase)):
                value = self.value(i)
                shape = () if self.lanes is None else self.lanes.shape
                mask = None if place.scratch else self.mask
                tl.store(self.kept_address(i, place), value.broadcast_to(shape), mask)

    def prefetch_next_row(self, i: int) -> None:
        """Ask for what a load of a full tile will read in the next row.

        The first phase of a row waits for memory, the later ones run from the cache; so the last
        that loads, as a rule the longest, has the time to bring the next row in. Rows lie one
        stride apart where one dim counts them.
        """
        instruction, plan = self.nest.instructions[i], self.plan
        view, whole = instruction.view, self.mask is None
        if instruction.op != "load" or view is None or not whole or plan.lane is None:
            return
        if len(plan.rows) != 1 or view.strides[plan.rows[0]] == 0 or view.strides[plan.lane] != 1:
            return
        step = self.dim(view.strides[plan.rows[0]]) * len(self.rows)  # type: ignore[operator]
        pointer = self.addresses[instruction.operand] + self.affine(view.strides, view.offset)
        for ahead in range(0, plan.tile, max(1, self.cache_line // instruction.dtype.itemsize)):
            tl.prefetch(pointer + step + ahead)

    def is_stored_now(self, i: int, place: Kept, phase: int) -> bool:
        """Whether a store of the nest puts the value in its place in this phase anyway."""
        stores = self.phases.stores(phase, of_rows=False)
        return any(s.value == i and s.operand == place.operand for s in stores)

    def kept_address(self, i: int, place: Kept) -> Tile:
        """Return where a value waits for later phases."""
        if not place.scratch:
            return self.address(place.operand, place.view)
        lane = self.plan.lane
        skipped = lane if lane is not None and not self.nest.reduced[lane] else None
        strides = tuple(0 if d == skipped else s for d, s in enumerate(place.view.strides))
        pointer = self.keeping[i] + self.turn * place.scratch + self.affine(strides, 0)
        return pointer if self.lanes is None else pointer + self.lanes

    def prepare(self, phase: int) -> None:
        """Compute the parts of addresses that are known outside of the loops to come."""
        instructions = (self.nest.instructions[i] for i in self.phases.work[phase])
        stores = self.phases.stores(phase, of_rows=False)
        for view in (*(i.view for i in instructions), *(store.view for store in stores)):
            if view is not None and dims_of(view) & self.index.keys():
                self.affine(view.strides, view.offset)

    def innermost(
        self, phase: int, tiles: list[Accumulator], carried: tuple[Tile, ...] | None
    ) -> tuple[Tile, ...]:
        """Emit the stores and accumulations at one index, which is the only one without carried."""
        shape = () if self.lanes is None else self.lanes.shape
        folded_lanes = self.plan.lane is not None and self.nest.reduced[self.plan.lane]
        mask = self.mask if folded_lanes else None
        updated: list[Tile] = []
        reductions = self.phases.reductions(phase)
        count = len(tiles) * len(self.rows)
        held = iter([None] * count if carried is None else _split(carried, tiles * len(self.rows)))
        for _ in self.turns():
            for store in self.phases.stores(phase, of_rows=False):
                self.store(store)
            for i, acc in zip(reductions, tiles, strict=True):
                args = [self.value(a).broadcast_to(shape) for a in self.nest.instructions[i].args]
                parts = next(held)
                updated += acc.first(args, mask) if parts is None else acc.add(parts, args, mask)
        return tuple(updated)

    def store(self, store: Store) -> None:
        """Write a value at this index: past the caches where these cannot hold what is touched.

        What was written first would leave them before the last; and a line that is written as a
        whole need not be read before.
        """
        value = self.value(store.value)
        tiled = self.is_tiled(store.view)
        if tiled and self.lanes is not None:
            value = value.broadcast_to(self.lanes.shape)
        mask = self.mask if tiled else None
        again = store.operand in self.phases.read | self.phases.read_back
        past = ".cs" if tiled and self.streams and not again else ""
        tl.store(self.address(store.operand, store.view), value, mask, cache_modifier=past)

    # --- loops -------------------------------------------------------------------------------

    @contextmanager
    def at(self, dim: int, index: Operand, mask: Tile | None = None) -> Iterator[None]:
        """Know the index of a dim, and which lanes exist, for a while."""
        outer = self.mask
        self.index[dim] = index
        self.mask = mask if mask is not None else outer
        yield
        del self.index[dim]
        self.mask = outer

    def tiles(
        self,
        lane: int,
        low: Operand,
        high: Operand,
        whole: bool,
        carried: tuple[Tile, ...],
        body: Callable[[tuple[Tile, ...]], tuple[Tile, ...]],
    ) -> tuple[Tile, ...]:
        """Emit `body` for full tiles of [low, high), then under a mask for what is left."""
        tile = self.plan.tile

        def step(start: Operand, mask: Tile | None, values: tuple[Tile, ...]) -> tuple[Tile, ...]:
            with self.scope(), self.at(lane, start, mask):
                return body(values)

        def repeat(
            first: Operand, last: Operand, masked: bool, values: tuple[Tile, ...]
        ) -> tuple[Tile, ...]:
            with (counted := tl.loop(_wide(first), last, tile, values)) as (start, now):
                mask = self._lanes_below(start, high) if masked else None
                tl.yield_(*step(start, mask, now))
            return counted.results

        if isinstance(low, int) and isinstance(high, int):
            full = (high - low) // tile * tile
            if full == tile:
                carried = step(low, None, carried)
            elif full:
                carried = repeat(low, low + full, False, carried)
            if low + full < high:
                carried = step(low + full, self._lanes_below(low + full, high), carried)
            return carried
        if whole:
            return repeat(low, high, False, carried)
        middle = low + (high - low) // tile * tile  # type: ignore[operator]
        carried = repeat(low, middle, False, carried)
        return repeat(middle, high, True, carried)

    def _lanes_below(self, start: Operand, high: Operand) -> Tile:
        assert self.lanes is not None
        rest = high - start  # type: ignore[operator]
        return self.lanes < rest


def _wide(x: Operand) -> Operand:
    return tl.full((), x, i64) if isinstance(x, int) else x


def _minimum(a: Operand, b: Operand) -> Operand:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else tl.minimum(a, b)


def _split(values: tuple[Tile, ...], tiles: list[Accumulator]) -> list[tuple[Tile, ...]]:
    parts, position = [], 0
    for accumulator_ in tiles:
        parts.append(values[position : position + accumulator_.width])
        position += accumulator_.width
    return parts
