"""Blocking of whole functions: roots are gathered in program order and written as loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import teeny_triton.language as tl
from teeny_core import CompileError, DType
from teeny_triton import Builder, Target
from teeny_triton.ir import Block, Op, Type, Value
from teeny_triton.passes import EFFECTS

from teeny_compiler.codegen.block.carried import Carried
from teeny_compiler.codegen.block.dot import Product
from teeny_compiler.codegen.block.evaluate import Buffer, Evaluator, Window, memory_dtype
from teeny_compiler.codegen.block.factors import Once
from teeny_compiler.codegen.block.facts import COSTLY, Facts
from teeny_compiler.codegen.block.nests import Nest
from teeny_compiler.codegen.block.plan import Group, Root, groups, must_keep, reached, roots_of
from teeny_compiler.codegen.block.pointwise import emit_pointwise
from teeny_compiler.codegen.block.rounds import Rounds, Turns, rounds_of
from teeny_compiler.codegen.block.rows import emit_columns, emit_rows
from teeny_compiler.codegen.block.small import captured, is_small, renamed


@dataclass
class Program:
    """The new body of a function under construction."""

    facts: Facts
    target: Target
    lanes: int
    builder: Builder
    e: Evaluator = field(init=False)
    nest: Nest = field(init=False)
    roots: list[Root] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.e = Evaluator(self.facts, self.builder)
        self.nest = Nest(self.e, self.lanes)

    def run(self, block: Block) -> tuple[Value, ...]:
        """Write a block; return the old values that it yields."""
        for op in block.ops:
            if op.opcode == "yield":
                self.flush()
                return op.operands
            handler = _HANDLERS.get(op.opcode)
            if op.opcode in ("reshape", "split") and not op.results[0].type.shape:
                self.elements(op)
            elif handler is not None and _is_tiled(op):
                handler(self, op)
            elif op.regions:
                self.flush()
                region = _copied if is_small(op, self.target, self.lanes) else _REGIONS[op.opcode]
                region(self, op)
            elif _is_tiled(op):
                self._lazy(op)
            else:
                self.scalar(op)
        self.flush()
        return ()

    # -- straight code

    def scalar(self, op: Op) -> None:
        """Copy an op on scalars, after the roots whose results it wants."""
        waiting = {root.result for root in self.roots}
        if op.opcode in _ORDERED or not waiting.isdisjoint(op.operands):
            self.flush()
        operands = [self.e.scalar(operand) for operand in op.operands]
        results = self.builder.emit(
            op.opcode, operands, op.attrs, [result.type for result in op.results]
        )
        for old, new in zip(op.results, results, strict=True):
            self.e.scalars[old] = new
            if op.opcode == "const" and isinstance(old.type.element, DType):
                self.e.scalars[old] = self.builder.constant(op.attrs["value"], old.type.element)

    def elements(self, op: Op) -> None:
        """Take the one element of a tile, or its two, as scalars."""
        self.flush()
        (x,) = op.operands
        for number, result in enumerate(op.results):
            origin = (*(0,) * (len(x.type.shape) - 1), number) if x.type.shape else ()
            self.e.scalars[result] = self.e.element(x, origin)

    def _lazy(self, op: Op) -> None:
        """Note a lazy value; put it into memory where that is cheaper or needed."""
        for result in op.results:
            if not self.facts.is_lazy(result):
                raise CompileError(f"blocking does not know {op.opcode!r} of {result.type}")
        if (op.opcode == "load" and must_keep(self.facts, op)) or (
            len(op.results) == 1 and self._is_worth_keeping(op.result)
        ):
            self.keep(op.result)

    def _is_worth_keeping(self, value: Value) -> bool:
        """Whether loops that cannot be one would compute a costly value more than once."""
        users = self.facts.users.get(value, [])
        if self.facts.cost(value) < COSTLY or not isinstance(value.type.element, DType):
            return False
        home = self.facts.parent.get(self.facts.definition[value])
        ends = list(dict.fromkeys(roots_of(self.facts, value)))
        if any(self.facts.parent.get(end) is not home for end in ends):
            return True
        return len(users) > 1 and len({self._depth(end) for end in ends}) > 1

    def _depth(self, op: Op) -> tuple[int, tuple[int, ...]]:
        """Return how many reductions follow on one another up to a root, and its space."""
        depth = 0
        for value, _ in reached(self.facts, op.operands, _axes(op)):
            inner = self.facts.definition.get(value)
            if inner is not None and inner.opcode == "reduce" and inner is not op:
                depth = max(depth, self._depth(inner)[0] + 1)
        return depth, op.operands[0].type.shape

    def keep(self, value: Value, buffer: Buffer | None = None) -> None:
        """Schedule the copy of a value into memory."""
        if buffer is None:
            buffer = self.reserve(value.type)
        self.roots.append(Root(value.type.shape, value=value, buffer=buffer))

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Forget after it which tiles lie where: the code may not run, or the memory may change."""
        known = dict(self.e.buffers)
        yield
        self.e.buffers.clear()
        self.e.buffers.update(known)

    def reserve(self, kind: Type) -> Buffer:
        """Reserve memory for a tile."""
        return self.nest.scratch(kind.shape, memory_dtype(kind.element))

    def root(self, op: Op) -> None:
        """Schedule a store, a reduction or another op that acts on elements."""
        space = op.operands[0].type.shape
        if op.results and op.opcode != "reduce" and op.result in self.facts.users:
            kind = op.result.type
            assert isinstance(kind.element, DType)
            self.e.buffers[op.result] = self.nest.scratch(kind.shape, kind.element)
        self.roots.append(Root(space, op))

    def flush(self) -> None:
        """Write the loops of all roots so far."""
        scheduled, self.roots = self.roots, []
        for group in groups(self.facts, scheduled):
            _mark_local(self.facts, group)
            roots = list(group.roots())
            if not roots[0].is_by_rows:
                emit_columns(self.nest, roots[0])
            elif any(root.kind == "reduce" for root in roots):
                emit_rows(self.nest, group)
            else:
                emit_pointwise(self.nest, group)

    # -- whole tiles in memory

    def in_memory(self, value: Value) -> Buffer:
        """Return where a tile lies, after putting it there if need be."""
        self.flush()
        known = self.e.buffers.get(value)
        if known is None:
            self.keep(value)
            self.flush()
            known = self.e.buffers[value]
        return known

    def reshape(self, op: Op) -> None:
        """A reshape of a tile in memory is the same memory."""
        if self.facts.is_lazy(op.result):
            return
        source = self.in_memory(op.operands[0])
        if source.first or source.strides != _row_major(op.operands[0].type.shape):
            source = self.reserve(op.operands[0].type)
            with self.apart():
                self.copy(op.operands[0], source)
        strides = _row_major(op.result.type.shape)
        self.e.buffers[op.result] = Buffer(source.pointer, source.dtype, strides)

    def cat(self, op: Op) -> None:
        """Copy two tiles into one."""
        kind, axis = op.result.type, op.attrs["axis"]
        whole = self.reserve(kind)
        at = 0
        for operand in op.operands:
            start = tl.Tile(whole.pointer) + at * whole.strides[axis]
            with self.apart():
                self.copy(operand, Buffer(start.value, whole.dtype, whole.strides))
            at += operand.type.shape[axis]
        self.e.buffers[op.result] = whole

    def dot(self, op: Op) -> None:
        """Write a product; in place where its accumulator is a carried tile."""
        self.flush()
        acc, kind = op.operands[2], op.result.type
        assert isinstance(kind.element, DType)
        target = self.e.buffers.get(acc) if self._may_overwrite(op, acc) else None
        zero = self.facts.constant_float(acc) == 0.0
        if target is None and not zero:
            target = self._accumulator(op, acc)
        result = target or self.nest.scratch(kind.shape, kind.element)
        Product(self.nest, op, self.target, Once(), result, zero).emit()
        self.e.buffers[op.result] = result

    def _may_overwrite(self, op: Op, acc: Value) -> bool:
        """Whether nothing but this product wants a tile that lies in memory."""
        return self.facts.users.get(acc) == [op] and acc not in op.operands[:2]

    def _accumulator(self, op: Op, acc: Value) -> Buffer:
        """Put the start of a sum into memory: over a carried tile that nothing else wants."""
        kind = acc.type
        assert isinstance(kind.element, DType)
        buffer = None
        axes = tuple(range(len(kind.shape)))
        factors = {value for value, _ in reached(self.facts, op.operands[:2], axes)}
        for value, follows in reached(self.facts, (acc,), axes):
            known = self.e.buffers.get(value)
            whole = value.type == kind and follows == axes and value not in factors
            if known is not None and whole and set(roots_of(self.facts, value)) == {op}:
                buffer = known
        buffer = buffer or self.nest.scratch(kind.shape, kind.element)
        before = self.e.buffers.get(acc)
        self.copy(acc, buffer)
        if before is None:
            del self.e.buffers[acc]
        return buffer

    def whole(self, op: Op) -> None:
        """Copy an op that takes whole tiles, such as a print."""
        self.flush()
        operands = [self.e(x, Window((0,) * len(x.type.shape), x.type.shape)) for x in op.operands]
        self.builder.emit(op.opcode, operands, op.attrs)

    # -- regions

    def for_(self, op: Op) -> None:
        """Write a loop: scalars are carried, tiles stay in memory."""
        rounds = rounds_of(self.facts, op)
        if rounds is not None:
            self.sum_of_products(rounds)
            return
        (body,) = op.regions
        bounds = [tl.Tile(self.e.scalar(x)) for x in op.operands[:3]]
        carried = Carried(self, op.operands[3:], body.arguments[1:], body, op.results)

        def run(index: tl.Tile, *values: tl.Tile) -> tuple[tl.Tile, ...]:
            self.e.scalars[body.arguments[0]] = index.value
            return carried.round(values)

        with self.apart(), self.e.region():
            results = tl.for_(bounds[0], bounds[1], bounds[2], carried.starts, run)
        carried.finish(results)

    def sum_of_products(self, rounds: Rounds) -> None:
        """Write a loop that adds up products, some rounds at once."""
        kind = rounds.product.result.type
        assert isinstance(kind.element, DType)
        result = self.nest.scratch(kind.shape, kind.element)
        with self.apart():
            self.copy(rounds.start, result)
        with self.e.region():
            for op in rounds.invariant:
                self.scalar(op)
            turns = Turns(self, rounds, rounds.at_once(self.target))
            number = turns.number()

            def some(first: tl.Tile) -> None:
                with self.e.region():
                    turns.begin(first, number)
                    Product(self.nest, rounds.product, self.target, turns, result, False).emit()

            tl.for_(0, number, turns.most, (), some)
        turns.carry(rounds.loop.results, number)
        self.e.buffers[rounds.loop.results[rounds.sum]] = result

    def while_(self, op: Op) -> None:
        """Write a loop with a condition."""
        test, body = op.regions
        carried = Carried(self, op.operands, body.arguments, body, op.results, test)

        def check(*values: tl.Tile) -> tl.Tile:
            carried.enter(values, test.arguments)
            (condition,) = self.run(test)
            return tl.Tile(self.e.scalar(condition))

        with self.apart(), self.e.region():
            results = tl.while_(carried.starts, check, lambda *values: carried.round(values))
        carried.finish(results)

    def if_(self, op: Op) -> None:
        """Write a branch; its tiles are put into the same memory by both sides."""
        buffers: dict[int, Buffer] = {}
        for number, result in enumerate(op.results):
            if result.type.shape:
                buffers[number] = self.reserve(result.type)

        def side(region: Block) -> Callable[[], tuple[tl.Tile, ...]]:
            def run() -> tuple[tl.Tile, ...]:
                with self.apart(), self.e.region():
                    values = self.run(region)
                    for number, buffer in buffers.items():
                        self.copy(values[number], buffer)
                    scalars = [v for n, v in enumerate(values) if n not in buffers]
                    return tuple(tl.Tile(self.e.scalar(v)) for v in scalars)

            return run

        condition = tl.Tile(self.e.scalar(op.operands[0]))
        results = iter(tl.if_(condition, side(op.regions[0]), side(op.regions[1])))
        for number, result in enumerate(op.results):
            if number in buffers:
                self.e.buffers[result] = buffers[number]
            else:
                self.e.scalars[result] = next(results).value

    def copy(self, value: Value, buffer: Buffer) -> None:
        """Put a tile into given memory, whether or not it lies in memory already."""
        known = self.e.buffers.get(value)
        if known == buffer:
            return
        self.keep(value, buffer)
        self.flush()
        if known is not None:
            self.e.buffers[value] = known


def _mark_local(facts: Facts, group: Group) -> None:
    """Mark the kept values that only their own group wants."""
    own = {root.op for root in group.roots()}
    for roots in group.passes:
        for place, root in enumerate(roots):
            if root.value is None or root.value not in facts.definition:
                continue
            if set(roots_of(facts, root.value)) <= own and len(root.space) > len(group.outer):
                roots[place] = replace(root, is_local=True)


def _axes(op: Op) -> tuple[int, ...]:
    return tuple(range(max((len(x.type.shape) for x in op.operands), default=0)))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = []
    size = 1
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    return tuple(reversed(strides))


def _is_tiled(op: Op) -> bool:
    """Whether an op takes or gives tiles, not counting loops and branches."""
    return not op.regions and any(x.type.shape for x in (*op.operands, *op.results))


def _copied(program: Program, op: Op) -> None:
    """Copy an op whose regions need no blocking."""
    e = program.e
    tiles = {x: e(x, Window((0,) * len(x.type.shape), x.type.shape)) for x in captured(op)}
    same = renamed(op, lambda x: tiles[x] if x in tiles else e.scalar(x))
    types = [result.type for result in op.results]
    results = program.builder.emit(op.opcode, same.operands, op.attrs, types, same.regions)
    e.scalars.update(zip(op.results, results, strict=True))


_ORDERED = EFFECTS | {"load"}

_HANDLERS: Mapping[str, Callable[[Program, Op], None]] = {
    "store": Program.root,
    "reduce": Program.root,
    "atomic_rmw": Program.root,
    "atomic_cas": Program.root,
    "prefetch": Program.root,
    "reshape": Program.reshape,
    "cat": Program.cat,
    "dot": Program.dot,
    "device_assert": Program.whole,
    "device_print": Program.whole,
}
_REGIONS: Mapping[str, Callable[[Program, Op], None]] = {
    "for": Program.for_,
    "while": Program.while_,
    "if": Program.if_,
}
