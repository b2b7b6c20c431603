"""When each instruction of a nest runs: loop levels, phases, and what is kept between phases.

A reduction is known only after its loops, so a nest that normalises by one runs several *phases*
over the same row: softmax has three. An instruction belongs to the outermost *level* of loops at
which everything it depends on is known: level 0 is the row, then one level for each fold, and the
lanes when they are folded. A costly value that a later phase needs again is *kept* in memory:
in the place of a result of the nest where that will be written anyway, else in scratch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from teeny_core import DType

from teeny_compiler.lower.loops import LoopPlan
from teeny_compiler.nest.nest import COSTS, REDUCTIONS, Nest, Store, dims_of
from teeny_compiler.nest.view import View

KEEP_COST = 8
SCRATCH_BYTES = 64 * 1024


@dataclass(frozen=True)
class Kept:
    """Memory for a value from a phase on: an operand of the nest, or `scratch` elements."""

    phase: int
    operand: int
    view: View
    scratch: int = 0


@dataclass(frozen=True)
class Phases:
    """The order of a nest's work under a loop plan."""

    nest: Nest
    plan: LoopPlan

    @cached_property
    def inner(self) -> int:
        """The deepest level of loops inside of a row."""
        lane = self.plan.lane
        folded = lane is not None and self.nest.reduced[lane] and not self.plan.in_registers
        return len(self.plan.folds) + folded

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """For each instruction, the level at which it is computed."""
        return tuple(max(map(self.level_of, dims), default=0) for dims in self.nest.varies)

    def level_of(self, dim: int) -> int:
        """Return the level at which the index of a dim is known."""
        if dim in self.plan.folds:
            return self.plan.folds.index(dim) + 1
        return self.inner if self.nest.reduced[dim] else 0

    @cached_property
    def phase(self) -> tuple[int, ...]:
        """For each instruction, the first phase in which it can be computed."""
        found: list[int] = []
        for instruction in self.nest.instructions:
            first = max((found[arg] for arg in instruction.args), default=0)
            found.append(first + (instruction.op in REDUCTIONS))
        return tuple(found)

    @property
    def count(self) -> int:
        """Number of phases."""
        return max(self.phase, default=0) + 1

    def reductions(self, phase: int) -> tuple[int, ...]:
        """Return the reductions whose loops run in a phase."""
        return tuple(
            i
            for i, instruction in enumerate(self.nest.instructions)
            if instruction.op in REDUCTIONS and self.phase[i] == phase + 1
        )

    def loops(self, phase: int) -> bool:
        """Whether a phase has anything to do inside of a row."""
        return bool(self.reductions(phase) or self.stores(phase, of_rows=False))

    def stores(self, phase: int, of_rows: bool) -> tuple[Store, ...]:
        """Return the stores of a phase: of values of the row, or inside of the loops."""
        return tuple(
            store
            for store in self.nest.stores
            if self.store_phase(store) == phase and self.is_row_store(store) == of_rows
        )

    def store_phase(self, store: Store) -> int:
        """Return when a store happens: at once, or last when its operand is read, too."""
        return self.count - 1 if store.operand in self.read else self.phase[store.value]

    @cached_property
    def read(self) -> frozenset[int]:
        """The operands that are read as values."""
        return frozenset(i.operand for i in self.nest.instructions)

    @cached_property
    def read_back(self) -> frozenset[int]:
        """The operands in whose memory a value waits for later phases."""
        return frozenset(
            place.operand
            for i, place in self.kept.items()
            if any(i in work for work in self.work[place.phase + 1 :])
        )

    def is_row_store(self, store: Store) -> bool:
        """Whether a store happens once for each row."""
        level = max(map(self.level_of, dims_of(store.view)), default=0)
        return max(level, self.levels[store.value]) == 0

    @cached_property
    def work(self) -> tuple[frozenset[int], ...]:
        """For each phase, the instructions that its loops compute or read back."""
        return tuple(frozenset(self._needed(phase, self.kept)) for phase in range(self.count))

    def last(self, i: int) -> int:
        """Return the last phase whose loops compute an instruction or read it back."""
        return max(phase for phase, work in enumerate(self.work) if i in work)

    def _needed(self, phase: int, kept: dict[int, Kept]) -> set[int]:
        roots = [self.nest.instructions[i].args for i in self.reductions(phase)]
        roots.append(tuple(store.value for store in self.stores(phase, of_rows=False)))
        stack = [i for group in roots for i in group]
        needed: set[int] = set()
        while stack:
            i = stack.pop()
            if self.levels[i] == 0 or i in needed:
                continue
            needed.add(i)
            if not (i in kept and kept[i].phase < phase):
                stack += self.nest.instructions[i].args
        return needed

    @cached_property
    def kept(self) -> dict[int, Kept]:
        """Values that a phase leaves in memory for later ones."""
        kept: dict[int, Kept] = {}
        for store in self.nest.stores:
            at_once = self.store_phase(store) == self.phase[store.value]
            if at_once and self.levels[store.value] > 0:
                place = Kept(self.store_phase(store), store.operand, store.view)
                kept.setdefault(store.value, place)
        computed: dict[int, int] = {}  # the first phase that needs a value
        for phase in range(self.count):
            needed = self._needed(phase, kept)
            again = {i for i in needed if i in computed and i not in kept}
            outer = again - {a for i in again for a in self.nest.instructions[i].args}
            for i in sorted(outer):
                if self._cost(i) >= KEEP_COST:
                    found = self._place(i, computed[i], kept)
                    kept |= {} if found is None else {i: found}
            for i in self._needed(phase, kept):
                computed.setdefault(i, phase)
        return kept

    def _cost(self, root: int) -> int:
        cone, stack = {root}, [root]
        while stack:
            new = {a for a in self.nest.instructions[stack.pop()].args if self.levels[a] > 0}
            stack += new - cone
            cone |= new
        return sum(COSTS.get(self.nest.instructions[i].op, 1) for i in cone)

    def _place(self, value: int, first: int, kept: dict[int, Kept]) -> Kept | None:
        """Return scratch for a value, or memory of a result where rows are of any length."""
        dtype = self.nest.instructions[value].dtype
        return self._scratch(first, dtype) or self._destination(value, first, kept)

    def _destination(self, value: int, first: int, kept: dict[int, Kept]) -> Kept | None:
        """Return the place of a result of the type that is written when the value is done with.

        What is read there must have been read before, at the same index or in earlier phases.
        """
        dtype = self.nest.instructions[value].dtype
        for store in self.nest.stores:
            place = Kept(first, store.operand, store.view)
            level = max(map(self.level_of, dims_of(store.view)), default=0)
            if self.nest.dtypes[store.operand] != dtype or level != self.levels[value]:
                continue
            later = {p: self._needed(p, {**kept, value: place}) for p in range(first, self.count)}
            last = max(p for p, needed in later.items() if value in needed)
            held = [i for i, other in kept.items() if other.operand == store.operand]
            free = all(kept[i].phase >= last and i == store.value for i in held)
            if free and self.store_phase(store) >= last > first:
                del later[first]
                if not self._is_read(store.operand, value, frozenset().union(*later.values())):
                    return place
        return None

    def _is_read(self, operand: int, value: int, later: frozenset[int]) -> bool:
        """Whether an operand is read after a value is computed, in its phase or `later`."""
        return any(
            instruction.operand == operand and (i > value or i in later or self.levels[i] == 0)
            for i, instruction in enumerate(self.nest.instructions)
        )

    def _scratch(self, first: int, dtype: DType) -> Kept | None:
        """Row-major over the folded dims with the lanes innermost, rounded up to whole tiles."""
        lane, tile, dims = self.plan.lane, self.plan.tile, self.nest.dims
        strides = [0] * len(dims)
        size = 1
        for dim in (*(() if lane is None else (lane,)), *reversed(self.plan.folds)):
            extent = tile if dim == lane and not self.nest.reduced[dim] else dims[dim]
            if not isinstance(extent, int):
                return None
            strides[dim] = size
            size *= -(-extent // tile) * tile if dim == lane else extent
        if size * dtype.itemsize > SCRATCH_BYTES:
            return None
        return Kept(first, -1, View(dims, tuple(strides), (len(dims),)), scratch=size)
