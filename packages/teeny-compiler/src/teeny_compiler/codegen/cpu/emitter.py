"""The state of writing one kernel: which tile each SSA value is, and how ops are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from teeny_core import CompileError
from teeny_triton.ir import Block, Op, Value

from teeny_compiler.codegen.builder import Operand
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.values import Tile

EmitOp = Callable[["Emitter", Op], None]
SCRATCH_ALIGN = 64


@dataclass
class Emitter:
    """Writes ops in program order; values are tiles in whatever form their op gave them."""

    c: Context
    table: Mapping[str, EmitOp]
    repeated: frozenset[Value]
    tiles: dict[Value, Tile] = field(default_factory=dict)
    programs: dict[int, Operand] = field(default_factory=dict)
    scratch_bytes: int = 0
    _scratch: dict[Op, int] = field(default_factory=dict)

    def tile(self, value: Value) -> Tile:
        """Return what stands for a value."""
        return self.tiles[value]

    def define(self, value: Value, tile: Tile) -> None:
        """Say what stands for a value."""
        self.tiles[value] = tile

    def is_repeated(self, value: Value) -> bool:
        """Whether the elements of a tile are only ever wanted in all lanes at once."""
        return value in self.repeated

    def reserve(self, op: Op, size: int) -> int:
        """Return the offset of the `size` bytes of scratch memory that belong to an op."""
        start = self._scratch.get(op)
        if start is None:
            start = self._scratch[op] = self.scratch_bytes
            self.scratch_bytes += -(-size // SCRATCH_ALIGN) * SCRATCH_ALIGN
        return start

    def run(self, block: Block) -> tuple[Tile, ...]:
        """Write the ops of a block and return what it yields."""
        for op in block.ops:
            if op.opcode == "yield":
                return tuple(map(self.tile, op.operands))
            emit = self.table.get(op.opcode)
            if emit is None:
                raise CompileError(
                    f"the CPU back end has no lowering for {op.opcode!r}",
                    hint="the opcodes are listed in teeny_triton.ir.OPCODES",
                )
            emit(self, op)
        return ()


def repeated_values(body: Block) -> frozenset[Value]:
    """Find the tiles whose elements are only repeated along the last axis of larger tiles.

    Such a tile, a column of A against rows of B say, is best loaded as scalars: each becomes a
    broadcast that folds into the instruction that uses it.
    """
    users: dict[Value, list[tuple[Op, int]]] = {}
    for op in _walk(body):
        for position, operand in enumerate(op.operands):
            users.setdefault(operand, []).append((op, position))

    def repeats(value: Value) -> bool:
        uses = users.get(value, [])
        return bool(uses) and all(_repeats(op, position, repeats) for op, position in uses)

    loads = (op for op in _walk(body) if op.opcode in ("load", "cast"))
    return frozenset(op.result for op in loads if op.result.type.shape and repeats(op.result))


def _repeats(op: Op, position: int, repeats: Callable[[Value], bool]) -> bool:
    if op.opcode == "dot":
        return position == 0
    if op.opcode == "broadcast":
        before, after = op.operands[0].type.shape, op.result.type.shape
        return (before[-1] == 1 and after[-1] > 1) or (before[-1] == 1 and repeats(op.result))
    if op.opcode in ("expand_dims", "reshape"):
        return op.result.type.shape[-1:] == (1,) and repeats(op.result)
    return op.opcode == "cast" and repeats(op.result)


def _walk(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _walk(region)
