"""The contract between the graph compiler and kernel templates.

The compiler asks a `Template` to implement one primitive op of a graph: it hands over a `Request`
(shapes, strides, dtypes, an optional epilogue) and gets `Launch`es, in order, of tile-IR functions
over the request's operands and over temporary buffers. Templates are found by the entry-point
group `teeny.kernels`; a template that cannot serve a request returns None and the next is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from teeny_core import Dim, DType, Shape

from teeny_triton.ir import Function
from teeny_triton.language.tile import Tile
from teeny_triton.target import Target


@dataclass(frozen=True)
class Operand:
    """A buffer as a template sees it: `strides` count elements and may be 0 (broadcast)."""

    shape: Shape
    strides: Shape
    dtype: DType
    constant: bool = False  # holds frozen weights: a launch over constants alone runs once

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
    """The address of an operand: `kind` is input, extra (epilogue), output or temp."""

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
    """One op to implement: `inputs` and `output` as they lie in memory."""

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[Operand, ...]
    output: Operand
    epilogue: Epilogue | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Template(Protocol):
    """A kernel library's offer for one or more ops."""

    name: str
    ops: tuple[str, ...]

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launches for `request`, or None when this template does not serve it."""
        ...
