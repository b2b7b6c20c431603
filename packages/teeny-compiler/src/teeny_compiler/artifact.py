"""A compiled program as plain data: object code, and what a driver must know to call it.

An artifact is written as a JSON header and the objects' bytes, one after another. It holds no
weights and nothing of the process that made it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from teeny_core import CompileError, Dim, DType, Graph, Shape, dtype, substitute, symbol
from teeny_core.shape import Atom, Expr, FloorDiv, Max, Min, Mod, Symbol

if TYPE_CHECKING:  # a warm start has no use for the scheduler
    from teeny_compiler.schedule.plan import BufferKind, Schedule

PREFIX_BYTES = 8


@dataclass(frozen=True)
class Port:
    """A buffer whose address the caller passes; `written` when the program stores to it."""

    name: str
    kind: BufferKind
    shape: Shape
    dtype: DType
    written: bool

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.name}: {self.kind} {self.dtype}[{shape}]{' written' if self.written else ''}"


@dataclass(frozen=True)
class Work:
    """What the launches of a call do, as the scheduler counts it; bytes of memory.

    `planned` is the size of the arena that holds what lives between launches, `bound` the most of
    it that lives at one time.
    """

    flops: Dim = 0
    bytes: Dim = 0
    planned: Dim = 0
    bound: Dim = 0
    constants: Dim = 0

    @property
    def figures(self) -> tuple[Dim, ...]:
        """The fields in order."""
        return (self.flops, self.bytes, self.planned, self.bound, self.constants)


@dataclass(frozen=True)
class Artifact:
    """A compiled program.

    `symbols` are the dimensions bound at a call, in order; `ports` the external buffers, in order;
    `outputs` the numbers of the ports that the program returns; `arena` the size in bytes of the
    scratch memory of one running call. `prepares` says whether `teeny_prepare` exists, `kernels`
    how many launches there are, `work` what they do.
    """

    name: str
    symbols: tuple[str, ...]
    ports: tuple[Port, ...]
    outputs: tuple[int, ...]
    arena: Dim
    prepares: bool
    kernels: int
    work: Work
    objects: tuple[bytes, ...]

    def verify(self) -> None:
        """Check that nothing is lost in the written form.

        Raises:
            CompileError: when it is.
        """
        if Artifact.from_bytes(self.to_bytes()) != self:
            raise CompileError(f"the artifact {self.name!r} does not survive writing")

    def anonymous(self, graph: Graph) -> Artifact:
        """Return the artifact of `graph` with its symbols numbered, for any graph of its structure.

        Graphs of one structure have their symbols in one order.
        """
        return self._with_symbols({name: f"s{i}" for i, name in enumerate(graph.symbols)})

    def renamed(self, graph: Graph) -> Artifact:
        """Return an anonymous artifact with the names of a graph of its structure."""
        leaves = [node.attrs["name"] for node in (*graph.inputs, *graph.parameters)]
        rest = [port.name for port in self.ports[len(leaves) :]]
        ports = (
            replace(port, name=name)
            for port, name in zip(self.ports, (*leaves, *rest), strict=True)
        )
        named = replace(self, name=graph.name, ports=tuple(ports))
        return named._with_symbols({f"s{i}": name for i, name in enumerate(graph.symbols)})

    def _with_symbols(self, names: Mapping[str, str]) -> Artifact:
        sizes = {old: symbol(new) for old, new in names.items()}
        ports = (replace(port, shape=substitute(port.shape, sizes)) for port in self.ports)
        return replace(
            self,
            symbols=tuple(names[name] for name in self.symbols),
            ports=tuple(ports),
            arena=substitute(self.arena, sizes),
            work=Work(*substitute(self.work.figures, sizes)),
        )

    def __str__(self) -> str:
        symbols = ", ".join(self.symbols)
        lines = [f"program {self.name}({symbols}), {self.kernels} kernels, arena {self.arena}"]
        lines += [f"  %{i} {port}" for i, port in enumerate(self.ports)]
        lines += [f"  object of {len(data)} bytes" for data in self.objects]
        return "\n".join((*lines, f"  return {', '.join(f'%{i}' for i in self.outputs)}"))

    @classmethod
    def of(cls, schedule: Schedule, arena: Dim, objects: Sequence[bytes]) -> Artifact:
        """Describe `schedule`, compiled to `objects`."""
        external = schedule.external
        steps = (*schedule.prepare, *schedule.steps)
        written = {buffer for step in steps for buffer in step.writes}
        buffers = [(index, schedule.buffers[index]) for index in external]
        ports = (Port(b.name, b.kind, b.shape, b.dtype, i in written) for i, b in buffers)
        return cls(
            schedule.name,
            schedule.symbols,
            tuple(ports),
            tuple(external.index(output) for output in schedule.outputs),
            arena,
            bool(schedule.prepare),
            len(steps),
            _work(schedule),
            tuple(objects),
        )

    def to_bytes(self) -> bytes:
        """Return the artifact as bytes."""
        header = {
            "name": self.name,
            "symbols": self.symbols,
            "ports": [
                [port.name, port.kind, [*map(_plain, port.shape)], port.dtype.name, port.written]
                for port in self.ports
            ],
            "outputs": self.outputs,
            "arena": _plain(self.arena),
            "prepares": self.prepares,
            "kernels": self.kernels,
            "work": [*map(_plain, self.work.figures)],
            "objects": [len(data) for data in self.objects],
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        return b"".join((len(text).to_bytes(PREFIX_BYTES, "little"), text, *self.objects))

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        """Read what `to_bytes` wrote.

        Raises:
            CompileError: these bytes are no artifact.
        """
        try:
            return cls._parse(data)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise CompileError(
                f"not a compiled program: {error}", hint="compile it again with this version"
            ) from error

    @classmethod
    def _parse(cls, data: bytes) -> Artifact:
        end = PREFIX_BYTES + int.from_bytes(data[:PREFIX_BYTES], "little")
        header = json.loads(data[PREFIX_BYTES:end])
        objects = []
        for size in header["objects"]:
            objects.append(data[end : end + size])
            end += size
        if end != len(data):
            raise ValueError(f"{len(data)} bytes where {end} were written")
        return cls(
            header["name"],
            tuple(header["symbols"]),
            tuple(
                Port(name, kind, tuple(map(_dim, shape)), dtype(element), written)
                for name, kind, shape, element, written in header["ports"]
            ),
            tuple(header["outputs"]),
            _dim(header["arena"]),
            header["prepares"],
            header["kernels"],
            Work(*map(_dim, header["work"])),
            tuple(objects),
        )


def _work(schedule: Schedule) -> Work:
    flops: Dim = 0
    traffic: Dim = 0
    for step in schedule.steps:
        flops, traffic = flops + step.flops, traffic + step.bytes
    constants = sum(len(buffer.data) for buffer in schedule.buffers)
    return Work(flops, traffic, schedule.arena, schedule.arena_bound, constants)


# --- dimensions as JSON: an int, or [[coefficient, [[atom, power], ...]], ...] --------------------

Plain: TypeAlias = Any
BINARY: Mapping[str, type[FloorDiv | Mod | Max | Min]] = {
    "floordiv": FloorDiv,
    "mod": Mod,
    "max": Max,
    "min": Min,
}
NAMES = {kind: name for name, kind in BINARY.items()}


def _plain(dim: Dim) -> Plain:
    if isinstance(dim, int):
        return dim
    return [[c, [[_plain_atom(atom), power] for atom, power in powers]] for c, powers in dim.terms]


def _plain_atom(atom: Atom) -> Plain:
    if isinstance(atom, Symbol):
        return atom.name
    left, right = vars(atom).values()
    return [NAMES[type(atom)], _plain(left), _plain(right)]


def _dim(plain: Plain) -> Dim:
    if isinstance(plain, int):
        return plain
    return Expr(tuple((c, tuple((_atom(a), power) for a, power in powers)) for c, powers in plain))


def _atom(plain: Plain) -> Atom:
    if isinstance(plain, str):
        return Symbol(plain)
    name, left, right = plain
    return BINARY[name](_dim(left), _dim(right))
