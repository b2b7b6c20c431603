"""A schedule as one native function: sizes, addresses, grids, and kernel calls in order.

    i32 @teeny_program(ptr buffers, ptr dims, ptr arena, ptr pool)

`buffers` holds the addresses of the schedule's external buffers, `dims` the values of its symbols
(i64). `arena` is 64-byte aligned, as long as `arena_bytes(schedule)` says: the planned slices, then
the calling thread's scratch. `@teeny_prepare` has the same signature and runs the steps that are
done once. Both return 0.

Each step computes its work from the symbolic estimates, hands it to the thread pool in pieces of
about `GRAIN` femtoseconds, and is left out when its grid is empty.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from teeny_core import Dim, DType, bounds, i64, numel
from teeny_core.shape import Atom, Expr, FloorDiv, Max, Min, Mod, Symbol
from teeny_triton.ir import Function
from teeny_triton.launch import ScalarArg
from teeny_triton.target import Target

from teeny_compiler.codegen.builder import I64, Builder
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.elementwise import convert
from teeny_compiler.schedule.plan import BufferRef, Schedule, Step

ALIGNMENT = 64
GRAIN = 8_000_000_000  # femtoseconds of estimated work in a piece: a few times what a steal costs
FLOPS_PER_LANE_NS = 2  # of f32, sustained by a plain kernel: far under the peak of a product
BYTES_PER_NS = 12  # one core's share of the bandwidth between the caches and memory
FEMTOSECONDS = 1_000_000  # in a nanosecond

DECLARATIONS = """\
declare void @teeny_parallel_for(ptr, ptr, ptr, i64, i64, ptr, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

define internal i64 @floordiv(i64 %a, i64 %b) nounwind alwaysinline {
  %q = sdiv i64 %a, %b
  %r = srem i64 %a, %b
  %inexact = icmp ne i64 %r, 0
  %signs = xor i64 %r, %b
  %opposite = icmp slt i64 %signs, 0
  %down = and i1 %inexact, %opposite
  %one = zext i1 %down to i64
  %result = sub i64 %q, %one
  ret i64 %result
}

define internal i64 @floormod(i64 %a, i64 %b) nounwind alwaysinline {
  %q = call i64 @floordiv(i64 %a, i64 %b)
  %whole = mul i64 %q, %b
  %result = sub i64 %a, %whole
  ret i64 %result
}
"""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel: its symbol and the bytes of scratch that a thread needs for it."""

    symbol: str
    scratch: int = 0


def scratch_bytes(kernels: Mapping[Function, Kernel]) -> int:
    """Return the scratch that the calling thread needs at the end of the arena."""
    return max((kernel.scratch for kernel in kernels.values()), default=0)


def arena_bytes(schedule: Schedule, kernels: Mapping[Function, Kernel]) -> Dim:
    """Return the size of a program's `arena`: the planned slices, then one thread's scratch."""
    return _aligned(schedule.arena) + scratch_bytes(kernels)


def emit_program(
    schedule: Schedule,
    kernels: Mapping[Function, Kernel],
    target: Target,
    body: type[Body] | None = None,
) -> str:
    """Return the LLVM module of `schedule`, which calls `kernels` (each function's symbol).

    Args:
        schedule: what runs in which order.
        kernels: the code that the steps call.
        target: the machine.
        body: what emits the function that runs at each call, `Body` unless another is given.
    """
    symbols = sorted({kernel.symbol for kernel in kernels.values()})
    parts = [f'target triple = "{target.triple}"', DECLARATIONS]
    parts += [f"declare void @{symbol}(ptr, i64, i64, ptr)" for symbol in symbols]
    parts += [_conversion(dtype, target) for dtype in _float_sizes(schedule)]
    parts += [_constant(i, schedule) for i in schedule.of_kind("constant")]
    parts += [(body or Body)(schedule, kernels, target).emit("teeny_program", schedule.steps)]
    if schedule.prepare:
        parts += [Body(schedule, kernels, target).emit("teeny_prepare", schedule.prepare)]
    return "\n".join(parts)


def _aligned(size: Dim) -> Dim:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _constant(index: int, schedule: Schedule) -> str:
    data = schedule.buffers[index].data
    text = "".join(f"\\{byte:02x}" for byte in data)
    return (
        f"@constant.{index} = private unnamed_addr constant "
        f'[{len(data)} x i8] c"{text}", align {ALIGNMENT}'
    )


def _float_sizes(schedule: Schedule) -> list[DType]:
    """Return the floating dtypes in which kernels take a symbolic size."""
    arguments = (a for step in (*schedule.steps, *schedule.prepare) for a in step.arguments)
    sizes = (a for a in arguments if isinstance(a, ScalarArg) and isinstance(a.value, Expr))
    return sorted({size.dtype for size in sizes if size.dtype.is_float}, key=lambda d: d.name)


def _conversion(dtype: DType, target: Target) -> str:
    """Return `i64 @size_as_DTYPE(i64)`: the bits of a size as a floating-point number."""
    c = Context(Builder(), target, lanes=1)
    number = convert(c, c.b.parameter(I64, "size"), i64, dtype)
    bits = c.b.convert("bitcast", number, f"i{dtype.bits}")
    c.b.block.terminator = f"ret {c.b.convert('zext', bits, 'i64')}"
    head = f"define internal i64 @size_as_{dtype.name}(i64 %size) nounwind"
    return f"{head} {{\n{c.b.body()}\n}}\n"


def _scalar_bits(value: float, dtype: DType) -> int:
    """Return the bits of a Python number as `dtype`, in an unsigned slot of eight bytes."""
    data = np.array(value).astype(dtype.numpy).tobytes()
    return int(struct.unpack("<Q", data.ljust(8, b"\0"))[0])


@dataclass
class Body:
    """The text of one function, built from the top; equal dimensions are computed once.

    What later steps may reuse is computed outside of the blocks that an empty grid skips, so
    every value in `memo` dominates the rest of the function.
    """

    schedule: Schedule
    kernels: Mapping[Function, Kernel]
    target: Target
    lines: list[str] = field(default_factory=list)
    memo: dict[object, str] = field(default_factory=dict)
    count: int = 0

    def emit(self, name: str, steps: Sequence[Step]) -> str:
        """Return the text of a function that runs steps."""
        slots = max((3 + len(step.arguments) for step in steps), default=0)
        self.line(f"%args = alloca [{slots} x i64], align {ALIGNMENT}")
        scratch = self.dim(_aligned(self.schedule.arena))
        self.line(f"%scratch = getelementptr i8, ptr %arena, i64 {scratch}")
        for step in steps:
            self.step(step)
        body = "\n".join(self.lines)
        return (
            f"define i32 @{name}(ptr noalias %buffers, ptr noalias %dims, ptr noalias %arena, "
            f"ptr noalias %pool) nounwind {{\nentry:\n{body}\n  ret i32 0\n}}\n"
        )

    def line(self, text: str) -> None:
        """Append an instruction."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """Append an instruction with a result; return the result's name."""
        self.count += 1
        name = f"%v{self.count}"
        self.line(f"{name} = {text}")
        return name

    # --- steps ----------------------------------------------------------------------------------

    def step(self, step: Step) -> None:
        """Append a step: its sizes, addresses and grid, and the call of its kernel."""
        self.lines.append(f"  ; {step.label}")
        grid = (*step.grid, *(1,) * (3 - len(step.grid)))
        programs = numel(grid)
        if programs == 0:
            return
        slots = [self.dim(size) for size in grid]
        slots += [self.argument(argument) for argument in step.arguments]
        total = self.dim(programs)
        chunk = self.chunk(step, programs)
        after = self.skip_when_empty(programs, total)
        for index, slot in enumerate(slots):
            kind = "ptr" if slot.startswith(("%p", "@")) else "i64"
            self.line(f"%s{self.count}.{index} = getelementptr i64, ptr %args, i64 {index}")
            self.line(f"store {kind} {slot}, ptr %s{self.count}.{index}")
        kernel = self.kernels[step.function]
        symbol = self.symbol(step)
        if chunk is None:
            self.line(f"call void @{symbol}(ptr %args, i64 0, i64 {total}, ptr %scratch)")
        else:
            self.line(
                f"call void @teeny_parallel_for(ptr %pool, ptr @{symbol}, ptr %args, "
                f"i64 {total}, i64 {chunk}, ptr %scratch, i64 {kernel.scratch})"
            )
        self.count += 1
        if after is not None:
            self.line(f"br label %{after}")
            self.lines.append(f"{after}:")

    def symbol(self, step: Step) -> str:
        """Return the function that a step calls."""
        return self.kernels[step.function].symbol

    def skip_when_empty(self, programs: Dim, total: str) -> str | None:
        """Open a block for a grid that is not empty; return the label after it, if it may be."""
        low, _ = bounds(programs)
        if low is not None and low > 0:
            return None
        self.count += 1
        run, after = f"run{self.count}", f"after{self.count}"
        empty = self.value(f"icmp eq i64 {total}, 0")
        self.line(f"br i1 {empty}, label %{after}, label %{run}")
        self.lines.append(f"{run}:")
        return after

    def chunk(self, step: Step, programs: Dim) -> str | None:
        """Return the least number of programs worth a piece, None to run all in this thread."""
        lanes = max(1, self.target.vector_bits // 32)
        work = step.flops * (FEMTOSECONDS // (FLOPS_PER_LANE_NS * lanes))
        work = work + step.bytes * (FEMTOSECONDS // BYTES_PER_NS)
        if isinstance(work, int) and isinstance(programs, int):
            size = max(1, GRAIN // max(1, work // programs))
            return None if size >= programs else str(size)
        each = self.value(f"sdiv i64 {self.dim(work)}, {self.at_least_one(programs)}")
        least = self.value(f"call i64 @llvm.smax.i64(i64 {each}, i64 1)")
        size_text = self.value(f"udiv i64 {GRAIN}, {least}")
        return self.value(f"call i64 @llvm.umax.i64(i64 {size_text}, i64 1)")

    def at_least_one(self, dim: Dim) -> str:
        """Return the value of a dimension, 1 where that is less."""
        low, _ = bounds(dim)
        if low is not None and low > 0:
            return self.dim(dim)
        return self.value(f"call i64 @llvm.smax.i64(i64 {self.dim(dim)}, i64 1)")

    # --- arguments ------------------------------------------------------------------------------

    def argument(self, argument: BufferRef | ScalarArg) -> str:
        """Return the contents of an argument's slot: a pointer or 64 bits."""
        if isinstance(argument, BufferRef):
            return self.address(argument)
        if isinstance(argument.value, Expr):
            return self.symbolic_scalar(self.dim(argument.value), argument.dtype)
        return str(_scalar_bits(argument.value, argument.dtype))

    def symbolic_scalar(self, value: str, dtype: DType) -> str:
        """Return the bits of a size as an argument of a dtype."""
        if not dtype.is_float:
            return value
        return self.value(f"call i64 @size_as_{dtype.name}(i64 {value})")

    def address(self, reference: BufferRef) -> str:
        """Return the address of an element of a buffer."""
        buffer = self.schedule.buffers[reference.buffer]
        base = self.base(reference.buffer)
        if reference.offset == 0:
            return base
        return self.pointer(base, reference.offset * buffer.dtype.itemsize)

    def base(self, index: int) -> str:
        """Return the address of a buffer."""
        buffer = self.schedule.buffers[index]
        if buffer.kind == "constant":
            return f"@constant.{index}"
        if buffer.kind == "arena":
            return self.pointer("%arena", buffer.offset)
        key = ("external", index)
        if key not in self.memo:
            slot = self.schedule.external.index(index)
            place = self.value(f"getelementptr ptr, ptr %buffers, i64 {slot}")
            name = f"%p{self.count}"
            self.line(f"{name} = load ptr, ptr {place}")
            self.memo[key] = name
        return self.memo[key]

    def pointer(self, base: str, offset: Dim) -> str:
        """Return an address some bytes after another."""
        key = (base, offset)
        if key not in self.memo:
            distance = self.dim(offset)
            self.count += 1
            name = f"%p{self.count}"
            self.line(f"{name} = getelementptr i8, ptr {base}, i64 {distance}")
            self.memo[key] = name
        return self.memo[key]

    # --- dimensions -----------------------------------------------------------------------------

    def dim(self, dim: Dim) -> str:
        """Return the i64 value of a dimension."""
        if isinstance(dim, int):
            return str(dim)
        if dim not in self.memo:
            terms = [self.term(coefficient, powers) for coefficient, powers in dim.terms]
            total = terms[0]
            for term in terms[1:]:
                total = self.value(f"add i64 {total}, {term}")
            self.memo[dim] = total
        return self.memo[dim]

    def term(self, coefficient: int, powers: Sequence[tuple[Atom, int]]) -> str:
        """Return the value of a product."""
        factors = [self.atom(atom) for atom, exponent in powers for _ in range(exponent)]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient))
        product = factors[0]
        for factor in factors[1:]:
            product = self.value(f"mul i64 {product}, {factor}")
        return product

    def atom(self, atom: Atom) -> str:
        """Return the value of a symbol, or of a function of dimensions."""
        if atom in self.memo:
            return self.memo[atom]
        match atom:
            case Symbol(name):
                index = self.schedule.symbols.index(name)
                place = self.value(f"getelementptr i64, ptr %dims, i64 {index}")
                value = self.value(f"load i64, ptr {place}")
            case FloorDiv(a, b):
                value = self.value(f"call i64 @floordiv(i64 {self.dim(a)}, i64 {self.dim(b)})")
            case Mod(a, b):
                value = self.value(f"call i64 @floormod(i64 {self.dim(a)}, i64 {self.dim(b)})")
            case Max(a, b):
                value = self.value(f"call i64 @llvm.smax.i64(i64 {self.dim(a)}, i64 {self.dim(b)})")
            case Min(a, b):
                value = self.value(f"call i64 @llvm.smin.i64(i64 {self.dim(a)}, i64 {self.dim(b)})")
        self.memo[atom] = value
        return value
