"""The schedule: kernel launches in order over planned buffers, as frozen plain data.

`buffers` lists first the external ones, in the order in which a compiled program takes their
addresses (inputs, parameters, outputs, prepared), then constants, then slices of the arena.
`steps` run in order at every call; `prepare` steps, when there are any, read only constants and
frozen parameters, write only `prepared` buffers, and run once before the first call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from teeny_core import CompileError, Dim, DType, Shape, numel
from teeny_triton.ir import Function
from teeny_triton.launch import ScalarArg

BufferKind = Literal["input", "parameter", "output", "prepared", "constant", "arena"]
EXTERNAL: tuple[BufferKind, ...] = ("input", "parameter", "output", "prepared")

ARENA_ALIGNMENT = 64


@dataclass(frozen=True)
class Buffer:
    """A row-major region of memory of `shape` elements of `dtype`.

    `offset` is the byte offset into the arena (kind "arena"); `data` the bytes of a "constant".
    Inputs and parameters are passed contiguous; outputs are allocated by the caller.
    """

    name: str
    kind: BufferKind
    shape: Shape
    dtype: DType
    offset: Dim = 0
    data: bytes = b""

    @property
    def nbytes(self) -> Dim:
        """Size in bytes."""
        return numel(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        place = f" @ {self.offset}" if self.kind == "arena" else ""
        return f"{self.name}: {self.kind} {self.dtype.name}[{shape}]{place}"


@dataclass(frozen=True)
class BufferRef:
    """The address of element `offset` of buffer number `buffer`."""

    buffer: int
    offset: Dim = 0


@dataclass(frozen=True)
class Step:
    """One kernel launch: `function` over `grid` (1 to 3 sizes), arguments resolved.

    `reads` and `writes` are the buffers that it touches; `flops` and `bytes` estimate the whole
    launch, from which the driver decides whether threads pay. `label` says what was fused.
    """

    label: str
    function: Function
    grid: tuple[Dim, ...]
    arguments: tuple[BufferRef | ScalarArg, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flops: Dim = 0
    bytes: Dim = 0


@dataclass(frozen=True)
class Schedule:
    """What a program does: `steps` over `buffers` for any value of `symbols`.

    `outputs` are buffer numbers in the order of the graph's outputs (a number may repeat).
    `arena` is the size in bytes of the scratch memory that holds all "arena" buffers, and
    `arena_bound` the lower bound of that size: the most bytes that are live at one time.
    """

    name: str
    symbols: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    arena: Dim = 0
    arena_bound: Dim = 0
    prepare: tuple[Step, ...] = ()

    def of_kind(self, *kinds: BufferKind) -> tuple[int, ...]:
        """Return the numbers of the buffers of some kinds, in order."""
        return tuple(i for i, buffer in enumerate(self.buffers) if buffer.kind in kinds)

    @property
    def external(self) -> tuple[int, ...]:
        """The buffers whose addresses the caller passes, in order."""
        return self.of_kind(*EXTERNAL)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The buffers of the graph's inputs, in call order."""
        return self.of_kind("input")

    @property
    def parameters(self) -> tuple[int, ...]:
        """The buffers of the graph's parameters."""
        return self.of_kind("parameter")

    @property
    def functions(self) -> tuple[Function, ...]:
        """The distinct kernels, in order of first use."""
        unique = {id(s.function): s.function for s in (*self.prepare, *self.steps)}
        return tuple(unique.values())

    def verify(self) -> None:
        """Raise `CompileError` unless every step's arguments fit its function and the buffers."""
        for problem in _problems(self):
            raise CompileError(
                f"schedule {self.name!r}: {problem}",
                hint="this is a defect of the scheduler; report the graph that shows it",
            )

    def __str__(self) -> str:
        lines = [f"schedule {self.name}({', '.join(self.symbols)})"]
        lines += [f"  arena {self.arena} bytes, at least {self.arena_bound}"]
        lines += [f"  %{i} {buffer}" for i, buffer in enumerate(self.buffers)]
        for title, steps in (("prepare", self.prepare), ("run", self.steps)):
            if steps:
                lines.append(f"  {title}")
            lines += [f"    {_print_step(step)}" for step in steps]
        lines.append(f"  return {', '.join(f'%{i}' for i in self.outputs)}")
        return "\n".join(lines)


def _print_step(step: Step) -> str:
    grid = " x ".join(map(str, step.grid))
    arguments = ", ".join(_print_argument(argument) for argument in step.arguments)
    return f"{step.function.name}[{grid}]({arguments})  # {step.label}"


def _print_argument(argument: BufferRef | ScalarArg) -> str:
    if isinstance(argument, ScalarArg):
        return f"{argument.dtype.name} {argument.value}"
    return f"%{argument.buffer}" + (f"+{argument.offset}" if argument.offset != 0 else "")


def _problems(schedule: Schedule) -> Iterator[str]:
    ranks = [("constant", "arena").index(b.kind) if b.kind not in EXTERNAL else -1
             for b in schedule.buffers]  # fmt: skip
    if ranks != sorted(ranks):
        yield "buffers must be external first, then constants, then the arena"
    for buffer in schedule.buffers:
        if buffer.kind == "constant" and len(buffer.data) != buffer.nbytes:
            yield f"constant {buffer.name} has {len(buffer.data)} bytes of {buffer.nbytes}"
    for output in schedule.outputs:
        if not 0 <= output < len(schedule.buffers):
            yield f"output %{output} does not exist"
    for step in (*schedule.prepare, *schedule.steps):
        yield from _step_problems(schedule, step)


def _step_problems(schedule: Schedule, step: Step) -> Iterator[str]:
    name = step.function.name
    if not 1 <= len(step.grid) <= 3:
        yield f"{name} has a grid of {len(step.grid)} sizes"
    if len(step.arguments) != len(step.function.parameters):
        yield f"{name} takes {len(step.function.parameters)} arguments, not {len(step.arguments)}"
    for parameter, argument in zip(step.function.parameters, step.arguments, strict=False):
        element = parameter.value.type.element
        if isinstance(argument, ScalarArg):
            if element != argument.dtype:
                yield f"{name}: {parameter.name} is {element}, not {argument.dtype.name}"
            continue
        if not 0 <= argument.buffer < len(schedule.buffers):
            yield f"{name}: {parameter.name} is %{argument.buffer}, which does not exist"
            continue
        if not parameter.value.type.is_pointer:
            yield f"{name}: {parameter.name} is a scalar, not an address"
        buffer = schedule.buffers[argument.buffer]
        if parameter.written and buffer.kind in ("input", "constant"):
            yield f"{name} writes {buffer.kind} {buffer.name}"
        touched = step.writes if parameter.written else (*step.reads, *step.writes)
        if argument.buffer not in touched:
            yield f"{name} touches %{argument.buffer} unsaid"
