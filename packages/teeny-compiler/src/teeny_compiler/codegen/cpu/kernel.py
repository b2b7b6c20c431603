"""A tile-IR function as an LLVM function that runs a range of its programs.

    void @NAME(ptr args, i64 lo, i64 hi, ptr scratch)

`args` are 8-byte slots: the three extents of the grid, then the parameters. Program `i` of the
grid has index `i mod n0` along axis 0, which runs fastest. `@NAME` unpacks the slots and calls the
body, whose pointer parameters carry what a launch guarantees of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from teeny_core import DType, i64
from teeny_triton import Target
from teeny_triton.ir import Function, Op, Parameter, Pointer, Type, walk

from teeny_compiler.codegen.builder import I64, Builder, LType, Operand, Phi, constant
from teeny_compiler.codegen.cpu import (
    access,
    control,
    debug,
    elementwise,
    linear,
    memory,
    reduce,
    shape,
    words,
)
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter, repeated_values
from teeny_compiler.codegen.cpu.types import memory_scalar, register_scalar
from teeny_compiler.codegen.cpu.values import Index, Tile, Uniform
from teeny_compiler.codegen.llvm import function_attributes

GRID = ("%n0", "%n1", "%n2")
MOST_PROGRAMS = float((1 << 31) - 1)


@dataclass(frozen=True)
class Kernel:
    """LLVM IR of a function, and the scratch memory that a thread must give it."""

    name: str
    text: str
    scratch_bytes: int


def emit(function: Function, target: Target, lanes: int) -> Kernel:
    """Lower a function as it is, whatever the size of its tiles, to vectors of some lanes."""
    b = Builder()
    c = Context(b, target, lanes)
    e = Emitter(c, TABLE, repeated_values(function.body))
    for number, parameter in enumerate(function.parameters):
        e.define(parameter.value, _parameter(c, parameter, f"p{number}"))
    for extent in GRID:
        c.known[Operand(I64, extent)] = (1.0, MOST_PROGRAMS)
    _programs(e, function)
    attributes = function_attributes(target)
    asserts = any(op.opcode == "device_assert" for op in walk(function.body))
    text = "\n".join(
        [
            *sorted(b.declarations.values()),
            *b.constants,
            _body(function, b, attributes),
            _wrapper(function, attributes),
            *([debug.listener(function.name)] if asserts else []),
        ]
    )
    return Kernel(function.name, text, e.scratch_bytes)


def lanes_of(function: Function, target: Target) -> int:
    """Choose the number of elements in a vector: a register of the type that arithmetic is in.

    Floats decide, f64 only where there is no f32; without floats, the widest integers in memory
    or that small ones are widened to.
    """
    if not target.vector_bits:
        return 1
    ops = list(walk(function.body))
    tiles = [x.type for op in ops for x in (*op.operands, *op.results) if x.type.shape]
    pointees = [kind.element.pointee for kind in tiles if isinstance(kind.element, Pointer)]
    elements = [kind.element for kind in tiles if isinstance(kind.element, DType)]
    floats = [max(dtype.bits, 32) for dtype in (*pointees, *elements) if dtype.is_float]
    if floats:
        return max(1, target.vector_bits // min(floats))
    widened = [_widened(op) for op in ops if op.opcode == "cast" and op.result.type.shape]
    bits = max((*(dtype.bits for dtype in pointees), *widened), default=32)
    return max(1, target.vector_bits // bits)


def _widened(op: Op) -> int:
    """Return the size that a cast gives to small integers, 0 for other casts."""
    source, result = op.operands[0].type.element, op.result.type.element
    small = isinstance(source, DType) and source.bits < 32
    return result.bits if small and isinstance(result, DType) else 0


def _parameter(c: Context, parameter: Parameter, name: str) -> Tile:
    """Return a parameter as a tile, with what is known of it."""
    element = parameter.value.type.element
    scalar = register_scalar(element)
    operand = Operand(LType(scalar), f"%{name}")
    if isinstance(element, Pointer):
        c.roots[operand] = parameter
        if parameter.noalias:
            c.private.add(parameter)
        return Index((), element, linear.Linear((), {}, operand))
    return Uniform((), element, operand)


# -- the loop over programs


def _programs(e: Emitter, function: Function) -> None:
    """Write the loop over programs [lo, hi), counting the indices of used axes along."""
    c, b = e.c, e.c.b
    first, last = Operand(I64, "%lo"), Operand(I64, "%hi")
    used = set().union(*(_axes(op) for op in walk(function.body)))
    start = _indices(b, first)
    runs = b.compare("icmp slt", first, last)
    before, header, after = b.block, b.new_block(), b.new_block()
    with b.scope(is_loop=True):
        b.branch(runs, header, after)
        b.place(header)
        program = b.phi(I64)
        phis = [b.phi(I64) for _ in range(max(used, default=-1) + 1)]
        for axis, phi in enumerate(phis):
            c.known[phi.result] = (0.0, MOST_PROGRAMS - 1)
            e.programs[axis] = phi.result
        e.run(function.body)
        latch = b.block
        following = b.pure(I64, f"add nsw {program.result}, 1", program.result)
        _join(program, (first, before.label), (following, latch.label))
        for phi, begin, moved in zip(phis, start, _advance(b, phis), strict=False):
            _join(phi, (begin, before.label), (moved, latch.label))
        b.branch(b.compare("icmp slt", following, last), header, after)
    b.place(after)
    access.fence(c)
    b.block.terminator = "ret void"


def _axes(op: Op) -> set[int]:
    """Return the axes of the grid of which an op wants the index."""
    if op.opcode in ("device_print", "device_assert"):
        return {0, 1, 2}
    return {op.attrs["axis"]} if op.opcode == "program_id" else set()


def _join(phi: Phi, *edges: tuple[Operand, str]) -> None:
    phi.incoming.extend(edges)


def _indices(b: Builder, program: Operand) -> list[Operand]:
    """Split the number of a program into its indices."""
    indices = []
    rest = program
    for extent in (Operand(I64, text) for text in GRID[:2]):
        some = b.intrinsic("umax", extent, constant(I64, 1))  # an empty grid runs no program
        quotient = b.pure(I64, f"udiv {rest}, {some.text}", rest, some)
        indices.append(b.binary("sub", rest, b.binary("mul", quotient, extent)))
        rest = quotient
    return [*indices, rest]


def _advance(b: Builder, phis: list[Phi]) -> list[Operand]:
    """Return the indices of the next program."""
    moved = []
    step = constant(I64, 1)
    for axis, phi in enumerate(phis):
        following = b.binary("add", phi.result, step)
        if axis == 2:
            moved.append(following)
            break
        wraps = b.compare("icmp eq", following, Operand(I64, GRID[axis]))
        moved.append(b.select(wraps, constant(I64, 0), following))
        step = b.convert("zext", wraps, "i64")
    return moved


def program_id(e: Emitter, op: Op) -> None:
    """Emit `program_id`."""
    form = linear.scalar(e.programs[op.attrs["axis"]])
    e.define(op.result, Index((), op.result.type.element, form))


def num_programs(e: Emitter, op: Op) -> None:
    """Emit `num_programs`."""
    form = linear.scalar(Operand(I64, GRID[op.attrs["axis"]]))
    e.define(op.result, Index((), op.result.type.element, form))


# -- the two functions


def _body(function: Function, b: Builder, attributes: str) -> str:
    parameters = ["i64 %lo", "i64 %hi", *(f"i64 {extent}" for extent in GRID)]
    parameters += [
        _declaration(parameter, f"%p{number}")
        for number, parameter in enumerate(function.parameters)
    ]
    parameters.append("ptr noalias align 64 %scratch")
    head = f"define internal void @{function.name}.body({', '.join(parameters)}) {attributes} {{"
    return f"{head}\n{b.body()}\n}}"


def _declaration(parameter: Parameter, name: str) -> str:
    scalar = register_scalar(parameter.value.type.element)
    if scalar != "ptr":
        return f"{scalar} {name}"
    facts = ["ptr"]
    if parameter.noalias:
        facts.append("noalias")
    if parameter.alignment & (parameter.alignment - 1) == 0 and parameter.alignment:
        facts.append(f"align {parameter.alignment}")
    if not parameter.written:
        facts.append("readonly")
    return f"{' '.join(facts)} {name}"


def _wrapper(function: Function, attributes: str) -> str:
    lines = [
        f"define void @{function.name}(ptr %args, i64 %lo, i64 %hi, ptr %scratch) {attributes} {{"
    ]
    arguments = ["i64 %lo", "i64 %hi"]
    slots: list[tuple[str, Type]] = [(extent, Type((), i64)) for extent in GRID]
    slots += [(f"%p{i}", parameter.value.type) for i, parameter in enumerate(function.parameters)]
    for number, (name, kind) in enumerate(slots):
        scalar, memory_type = register_scalar(kind.element), memory_scalar(kind.element)
        lines.append(f"  {name}.slot = getelementptr i64, ptr %args, i64 {number}")
        if scalar == "i1":
            lines.append(f"  {name}.byte = load i8, ptr {name}.slot")
            lines.append(f"  {name} = icmp ne i8 {name}.byte, 0")
        else:
            lines.append(f"  {name} = load {memory_type}, ptr {name}.slot")
        arguments.append(f"{scalar} {name}")
    arguments.append("ptr %scratch")
    lines += [f"  call void @{function.name}.body({', '.join(arguments)})", "  ret void", "}", ""]
    return "\n".join(lines)


TABLE: Mapping[str, EmitOp] = {
    **elementwise.EMITTERS,
    **shape.EMITTERS,
    **memory.EMITTERS,
    **reduce.EMITTERS,
    **words.EMITTERS,
    **control.EMITTERS,
    **debug.EMITTERS,
    "program_id": program_id,
    "num_programs": num_programs,
}
