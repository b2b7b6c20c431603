"""`teeny bench compile`: what it takes to compile one kernel, alone and from cold.

The process that compiles runs already, nothing is found in a cache, and the best of a few rounds
counts: what LLVM does by itself, on a machine that others share.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import teeny_core as tn
from teeny_compiler.internal import WORKERS, emit_function, host_target
from teeny_triton import Target
from teeny_triton.ir import Function

from teeny_bench.programs import DEVICE

if TYPE_CHECKING:
    from rich.table import Table

ROUNDS = 3


class Use(Protocol):
    """A representative use of a kernel library."""

    @property
    def name(self) -> str:
        """What it is."""

    def functions(self, target: Target) -> Sequence[Function]:
        """Return its kernels for a machine."""
        ...


@dataclass(frozen=True)
class Compilation:
    """One kernel, in seconds.

    Attributes:
        name: the use that it was made for, the first of several.
        kernel: the name of its function.
        read_s: choosing the kernels of the use and reading their Python source, for all of them,
            and for examples to run them; None for all but the first.
        emit_s: from tile IR to LLVM IR.
        llvm_s: from LLVM IR to object code, in a process of its own.
        lines: length of the LLVM IR.
        bytes: size of the object code.
    """

    name: str
    kernel: str
    read_s: float | None
    emit_s: float
    llvm_s: float
    lines: int
    bytes: int

    @property
    def seconds(self) -> float:
        """From tile IR to object code."""
        return self.emit_s + self.llvm_s


def measured(only: str = "") -> Iterator[Compilation]:
    """Compile each kernel of the uses whose names hold `only`, and yield what it took.

    Raises:
        CompileError: a kernel does not compile.
    """
    target = host_target()
    seen: set[str] = set()
    for use in _uses():
        if only not in use.name:
            continue
        start = time.perf_counter()
        with tn.default_device(DEVICE):
            functions = use.functions(target)
        read: float | None = time.perf_counter() - start
        for function in functions:
            if function.key not in seen:
                seen.add(function.key)
                yield _compiled(use.name, function, read, target)
            read = None


def _uses() -> Iterator[Use]:
    """Yield what the kernel libraries list as `USES` in their modules `uses`."""
    for library in entry_points(group="teeny.kernels"):
        yield from import_module(f"{library.module}.uses").USES


def _compiled(name: str, function: Function, read: float | None, target: Target) -> Compilation:
    symbol = function.name
    rounds: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        text = emit_function(function, "llvm", target)
        middle = time.perf_counter()
        code = WORKERS.compile({symbol: text}, target)[symbol]
        rounds.append((middle - start, time.perf_counter() - middle))
    emit, llvm = map(min, zip(*rounds, strict=True))
    return Compilation(name, symbol, read, emit, llvm, text.count("\n"), len(code))


def table(rows: Sequence[Compilation]) -> Table:
    """Lay out `rows`, in milliseconds, the slowest first, then the median and the most."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = "Milliseconds to compile one kernel"
    result = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    result.add_column("kernel")
    for heading in ("both", "emit", "LLVM", "lines", "reading"):
        result.add_column(heading, justify="right", no_wrap=True)
    for row in sorted(rows, key=attrgetter("seconds"), reverse=True):
        read = "" if row.read_s is None else _milliseconds(row.read_s)
        times = (_milliseconds(of(row)) for of in COLUMNS)
        result.add_row(f"{row.name}: {row.kernel}", *times, str(row.lines), read)
    result.add_section()
    for label, summary in (("median", statistics.median), ("most", max)):
        result.add_row(label, *(_milliseconds(summary(map(of, rows))) for of in COLUMNS))
    return result


COLUMNS: Sequence[Callable[[Compilation], float]] = (
    attrgetter("seconds"),
    attrgetter("emit_s"),
    attrgetter("llvm_s"),
)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}"


def to_json(rows: Sequence[Compilation]) -> str:
    """Return `rows` as a JSON list of objects."""
    return json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n"
