"""The contract between the graph compiler and kernel templates.

The compiler asks a `Template` to implement one primitive op of a graph: it hands over a `Request`
(shapes, strides, dtypes, an optional epilogue) and gets `Launch`es, in order, of tile-IR functions
over the request's operands and over temporary buffers. Templates are found by the entry-point
group `teeny.kernels`; a template that cannot serve a request returns None and the next is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from teeny_core import Dim, DType, Shape, symbols_of

from teeny_triton.ir import Function
from teeny_triton.language.tile import Tile
from teeny_triton.target import Target


@dataclass(frozen=True)
class Operand:
    """A buffer as a template sees it: `strides` count elements and may be 0 (broadcast).

    With a `prologue` there is no such buffer: the kernel makes the elements where it reads them,
    and the strides say in which order that is best.
    """

    shape: Shape
    strides: Shape
    dtype: DType
    constant: bool = False  # holds frozen weights: a launch over constants alone runs once
    prologue: Prologue | None = None

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        expected: Dim = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return False
            expected = expected * extent
        return True


@dataclass(frozen=True)
class BufferArg:
    """The address of an operand: `kind` is input, output, temp, extra of an epilogue or made of
    what a prologue reads."""

    kind: str
    index: int = 0


@dataclass(frozen=True)
class ScalarArg:
    """A number: a Python constant or an expression over the symbolic dims."""

    value: Dim | float
    dtype: DType


@dataclass(frozen=True)
class Epilogue:
    """Elementwise work on the result before it is stored.

    The kernel takes, after its own parameters, one for each of `arguments`: a pointer for each of
    `operands` (whose shapes are the output's), then the `scalars`. While the kernel is built it
    calls `apply(tile, index, mask, arguments)` with the tile of results (of the accumulation
    dtype), one integer index tile or scalar for each axis of the output, broadcastable to the
    tile, the mask under which it will store (None: all lanes), and the values of `arguments`;
    `apply` returns the tile to store, of `dtype`. It is called once for each stored element, for
    it may itself store through the operands listed in `written`. `key` names it for caches. The
    output may lie where one of `operands` does, which it then replaces element by element.
    """

    apply: Callable[[Tile, Sequence[Tile], Tile | None, Sequence[Tile]], Tile]
    operands: tuple[Operand, ...]
    dtype: DType
    key: str
    scalars: tuple[ScalarArg, ...] = ()
    written: frozenset[int] = frozenset()

    @property
    def arguments(self) -> tuple[BufferArg | ScalarArg, ...]:
        """What a launch passes for the epilogue's parameters."""
        extra = tuple(BufferArg("extra", i) for i in range(len(self.operands)))
        return (*extra, *self.scalars)


@dataclass(frozen=True)
class Prologue:
    """Elementwise work that makes an operand from what lies in memory, where it is read.

    The kernel takes one parameter for each of `arguments`: a pointer for each of `operands`, then
    the `scalars`. While it is built it calls `apply(index, mask, arguments)` with an integer index
    tile or scalar for each axis of the operand, a mask (None: all lanes are inside) and the values
    of `arguments`; `apply` returns the tile, of the operand's dtype, undefined where the mask does
    not hold. `key` names it for caches.
    """

    apply: Callable[[Sequence[Tile], Tile | None, Sequence[Tile]], Tile]
    operands: tuple[Operand, ...]
    key: str
    scalars: tuple[ScalarArg, ...] = ()

    @property
    def arguments(self) -> tuple[BufferArg | ScalarArg, ...]:
        """What a launch passes for the prologue's parameters."""
        made = tuple(BufferArg("made", i) for i in range(len(self.operands)))
        return (*made, *self.scalars)

    @property
    def swapped(self) -> Prologue:
        """The same for the operand with its two axes exchanged."""

        def apply(index: Sequence[Tile], mask: Tile | None, arguments: Sequence[Tile]) -> Tile:
            return self.apply(index[::-1], mask, arguments)

        return replace(self, apply=apply, key=f"{self.key} swapped")


@dataclass(frozen=True)
class Temp:
    """Memory that a template needs between its launches, `size` elements."""

    size: Dim
    dtype: DType


@dataclass(frozen=True)
class Launch:
    """One kernel over a grid. `flops` and `bytes` estimate the whole launch for the scheduler."""

    function: Function
    grid: tuple[Dim, ...]
    arguments: tuple[BufferArg | ScalarArg, ...]
    flops: Dim = 0
    bytes: Dim = 0


@dataclass(frozen=True)
class Plan:
    """What a template answers: launches in order and the temporaries they share."""

    launches: tuple[Launch, ...]
    temps: tuple[Temp, ...] = ()


@dataclass(frozen=True)
class Request:
    """One op to implement: `inputs` and `output` as they lie in memory.

    `options` are those of the compilation that libraries heed: `fast` lets results round more than
    the definition's would, `direct` wants convolutions by their definition.
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    output: Operand
    epilogue: Epilogue | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Template(Protocol):
    """A kernel library's offer for one or more ops.

    One with an attribute `prologues`, a set of numbers, makes these of its operands by a prologue
    where it is asked to.
    """

    name: str
    ops: tuple[str, ...]

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launches for `request`, or None when this template does not serve it."""
        ...


class Choices(Template, Protocol):
    """A template that knows several ways to serve a request."""

    def plans(self, request: Request, target: Target) -> Iterable[Plan]:
        """Return the ways that are worth a measurement, that of `plan` first."""
        ...


def prologues(template: Template) -> frozenset[int]:
    """Return the numbers of the operands for which a template takes a prologue."""
    found: frozenset[int] = getattr(template, "prologues", frozenset())
    return found


Choose: TypeAlias = Callable[[Request, Sequence[Plan]], int]
"""Says which of some plans for a request, the default first, is best."""


def plans(template: Template, request: Request, target: Target) -> Iterable[Plan]:
    """Return the ways in which a template serves a request, the default first, maybe none."""
    if request.op not in template.ops:
        return ()
    several = getattr(template, "plans", None)
    if several is not None:
        found: Iterable[Plan] = several(request, target)
        return found
    plan = template.plan(request, target)
    return () if plan is None else (plan,)


def launches_once(plan: Plan, request: Request) -> frozenset[int]:
    """Return the launches that only pack fixed operands into the template's own memory."""
    fixed = {BufferArg("input", i) for i, x in enumerate(request.inputs) if x.constant}
    found: set[int] = set()
    for number, launch in enumerate(plan.launches):
        numbers = [a.value for a in launch.arguments if isinstance(a, ScalarArg)]
        reads, writes = _touched(launch)
        packs = bool(reads) and reads <= fixed and all(a.kind == "temp" for a in writes)
        if packs and not symbols_of((launch.grid, tuple(numbers))):
            found.add(number)
            fixed |= writes
    others = [_touched(x)[1] for k, x in enumerate(plan.launches) if k not in found]
    mixed = frozenset().union(*others)
    return frozenset(k for k in found if not _touched(plan.launches[k])[1] & mixed)


def _touched(launch: Launch) -> tuple[set[BufferArg], set[BufferArg]]:
    """Return what a launch reads and what it writes."""
    reads: set[BufferArg] = set()
    writes: set[BufferArg] = set()
    for parameter, argument in zip(launch.function.parameters, launch.arguments, strict=True):
        if isinstance(argument, BufferArg):
            (writes if parameter.written else reads).add(argument)
    return reads, writes
