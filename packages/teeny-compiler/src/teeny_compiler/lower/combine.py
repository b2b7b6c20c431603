"""Several kernels as one: each program runs the part to which its number belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate

from teeny_core import Dim, DType, Expr, i32, i64, numel
from teeny_triton.builder import Builder
from teeny_triton.ir import Block, Function, Op, Parameter, Type, Value

from teeny_compiler.lower.kernels import NAME_LENGTH

AXES = 3  # of a grid


@dataclass(frozen=True)
class Part:
    """A kernel and its grid."""

    function: Function
    grid: tuple[Dim, ...]


@dataclass(frozen=True)
class Combined:
    """A kernel whose parameters are those of its parts one after another, then `scalars` (i64)."""

    function: Function
    grid: tuple[Dim, ...]
    scalars: tuple[Dim, ...]


def combine(parts: Sequence[Part]) -> Combined:
    """Return the kernel that does what the parts do, none of which reads what another writes.

    The programs of all parts are numbered one after another. Within a part the first axis of its
    grid is the fastest.
    """
    ends = list(accumulate(numel(part.grid) for part in parts))
    starts: list[Dim] = [0, *ends[:-1]]
    sizes = [extent for part in parts for extent in part.grid]
    scalars = tuple(dict.fromkeys(dim for dim in (*ends, *sizes) if isinstance(dim, Expr)))
    numbers = [Parameter(Value(Type((), i64), f"n{i}"), f"n{i}") for i in range(len(scalars))]
    cloned = [_parameters(part.function, number) for number, part in enumerate(parts)]
    body = Block()
    writer = _Writer(body, dict(zip(scalars, (p.value for p in numbers), strict=True)))
    (program,) = writer.builder.emit("program_id", (), {"axis": 0}, (Type((), i32),))
    writer.parts(list(zip(parts, cloned, starts, ends, strict=True)), writer.cast(program, i64))
    parameters = (*(p for parameters in cloned for p in parameters), *numbers)
    name = _name(part.function.name for part in parts)
    return Combined(Function(name, parameters, body), (ends[-1],), scalars)


def _parameters(function: Function, number: int) -> tuple[Parameter, ...]:
    """Return the parameters of a part under names, and with values, of their own."""
    return tuple(
        replace(p, value=Value(p.value.type, f"{p.name}_{number}"), name=f"{p.name}_{number}")
        for p in function.parameters
    )


def _name(names: Iterable[str]) -> str:
    return "_and_".join(dict.fromkeys(names))[:NAME_LENGTH].rstrip("_")


_Member = tuple[Part, tuple[Parameter, ...], Dim, Dim]


class _Writer:
    """Writes the parts, at sizes that are constants or parameters."""

    def __init__(self, block: Block, sizes: Mapping[Dim, Value]) -> None:
        self.block = block
        self.builder = Builder(block)
        self.sizes = sizes

    def parts(self, members: Sequence[_Member], program: Value) -> None:
        """Write a choice between parts."""
        (part, parameters, start, end), *rest = members
        if not rest:
            self.part(part, parameters, start, program)
            return
        here, there = Block(), Block()
        with self.inside(here):
            self.part(part, parameters, start, program)
        with self.inside(there):
            self.parts(rest, program)
        belongs = self.builder.op("lt", program, self.size(end))
        self.builder.emit("if", (belongs,), {}, (), (here, there))

    def part(
        self, part: Part, parameters: tuple[Parameter, ...], start: Dim, program: Value
    ) -> None:
        """Write a copy of the body of a part."""
        pairs = zip(part.function.parameters, parameters, strict=True)
        known = {old.value: new.value for old, new in pairs}
        place = self.builder.op("sub", program, self.size(start))
        grid = (*part.grid, *(1,) * (AXES - len(part.grid)))
        answers = {
            "program_id": [self.cast(x, i32) for x in self.places(place, grid)],
            "num_programs": [self.cast(self.size(extent), i32) for extent in grid],
        }
        self.block.ops += _copies(part.function.body, known, answers)

    def places(self, place: Value, grid: tuple[Dim, ...]) -> list[Value]:
        """Return the index on each axis of a grid of the program at a place in it."""
        found = []
        for axis, extent in enumerate(grid):
            if all(later == 1 for later in grid[axis + 1 :]):
                found.append(place)
                place = self.size(0)
                continue
            found.append(self.builder.op("mod", place, self.size(extent)))
            place = self.builder.op("floordiv", place, self.size(extent))
        return found

    def size(self, dim: Dim) -> Value:
        """Return a size as an i64."""
        return self.builder.constant(dim, i64) if isinstance(dim, int) else self.sizes[dim]

    def cast(self, value: Value, dtype: DType) -> Value:
        """Return a scalar in another type."""
        return self.builder.op("cast", value, wanted=Type((), dtype))

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Write into a block, and end it."""
        outer, self.block = self.block, block
        with self.builder.inside(block):
            yield
            self.builder.emit("yield")
        self.block = outer


def _copies(
    block: Block, known: dict[Value, Value], answers: Mapping[str, Sequence[Value]]
) -> list[Op]:
    """Return the ops of a block anew, operands replaced by those that are `known`.

    What they ask of their grid is answered, for each axis.
    """
    ops = []
    for op in block.ops:
        if op.opcode in answers:
            known[op.result] = answers[op.opcode][op.attrs["axis"]]
            continue
        results = tuple(Value(result.type, result.name) for result in op.results)
        known.update(zip(op.results, results, strict=True))
        operands = tuple(known.get(operand, operand) for operand in op.operands)
        regions = []
        for region in op.regions:
            arguments = tuple(Value(argument.type, argument.name) for argument in region.arguments)
            known.update(zip(region.arguments, arguments, strict=True))
            regions.append(Block(arguments, _copies(region, known, answers)))
        ops.append(Op(op.opcode, operands, results, op.attrs, tuple(regions), op.location))
    return ops
