"""Movement ops as maps of views: how the reader of a result reads the operand.

A `Move` is a movement op apart from its operand. A chain of moves from a value outwards to its
reader, applied to the value's own view, says where each element that the reader wants lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from teeny_core import Attrs, Dim, Shape
from teeny_core import shape as shapes

from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.nest.view import View

MOVEMENT = frozenset(
    {"reshape", "permute", "broadcast_to", "slice", "flip", "pad", "concat", "after"}
)
"""Ops whose elements are those of the first operand, or of all; `after` moves nothing but waits."""


@dataclass(frozen=True)
class Move:
    """A movement op with its attributes and the shape of its result.

    `operand` is the node that it moves, where it comes from a graph.
    """

    op: str
    attrs: Attrs
    shape: Shape
    operand: int | None = None

    def apply(self, view: View) -> View | None:
        """Return the view of the result, given that of the operand; None: inexpressible."""
        return _applied(self.op, self.attrs, self.shape, view)


@lru_cache(maxsize=4096)
def reshape(shape: Shape) -> Move:
    """Make a move to another shape of the same elements in row-major order."""
    return Move("reshape", Attrs(shape=shape), shape)


@lru_cache(maxsize=4096)
def broadcast(shape: Shape) -> Move:
    """Make a move that repeats axes of extent 1."""
    return Move("broadcast_to", Attrs(shape=shape), shape)


def pad(low: Shape, high: Shape, inner: Shape) -> Move:
    """Make a move that surrounds `inner` with positions that do not exist."""
    shape = tuple(a + b + c for a, b, c in zip(low, inner, high, strict=True))
    return Move("pad", Attrs(low=low, high=high, value=0), shape)


def spread(shape: Shape, axes: tuple[int, ...]) -> tuple[Move, ...]:
    """Make the moves from a value without `axes` to one of `shape` that repeats it along them."""
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return reshape(kept), broadcast(shape)


def moves_of(graph: FXGraph, number: int) -> tuple[tuple[int, Move], ...]:
    """Return (operand, move) for each operand of a movement node; parts of a concat are pads."""
    node = graph.nodes[number]
    if node.op != "concat":
        operand = node.inputs[0]
        return ((operand, Move(node.op, node.attrs, node.shape, operand)),)
    axis: int = node.attrs["axis"]
    parts = []
    start: Dim = 0
    for operand in node.inputs:
        inner = graph.nodes[operand].shape
        end = start + inner[axis]
        low = _at(axis, len(inner), start)
        high = _at(axis, len(inner), node.shape[axis] - end)
        parts.append((operand, replace(pad(low, high, inner), operand=operand)))
        start = end
    return tuple(parts)


IN_ORDER = frozenset({"take_grad", "max_pool2d_grad"})
"""Template ops that read their operands row-major; the others take any strides."""


def template_bases(graph: FXGraph, number: int) -> tuple[int, ...]:
    """Return, for each operand of a template node, the node to keep in memory for it.

    It is the value under the movement ops when strides express them, else the moved value.
    """
    node = graph.nodes[number]
    return tuple(_base(graph, operand, node.op in IN_ORDER) for operand in node.inputs)


def awaited(graph: FXGraph, number: int) -> tuple[int, ...]:
    """Return the values that must be known before the operands of a template node are read."""
    found: list[int] = []
    node = graph.nodes[number]
    for operand, base in zip(node.inputs, template_bases(graph, number), strict=True):
        inner = operand
        while inner != base:
            found += graph.nodes[inner].inputs[1:]
            inner = graph.nodes[inner].inputs[0]
    return tuple(found)


def _base(graph: FXGraph, number: int, in_order: bool) -> int:
    chain: list[Move] = []
    base = number
    while graph.nodes[base].op in MOVEMENT and graph.nodes[base].op != "concat":
        ((inner, move),) = moves_of(graph, base)
        chain.append(move)
        view: View | None = View.contiguous(graph.nodes[inner].shape)
        for step in reversed(chain):
            view = None if view is None else step.apply(view)
        if view is None or view.flat_strides() is None:
            return base
        if in_order and view.simplified() != View.contiguous(view.shape).simplified():
            return base
        base = inner
    return base


def operand_view(graph: FXGraph, number: int, base: int) -> View:
    """Return how a template's operand `number` lies in the memory of its `base`."""
    chain = []
    inner = number
    while inner != base:
        ((inner, move),) = moves_of(graph, inner)
        chain.append(move)
    view: View | None = View.contiguous(graph.nodes[base].shape)
    for step in reversed(chain):
        view = None if view is None else step.apply(view)
    assert view is not None, "a base leaves only moves that strides express"
    assert shapes.same(view.shape, graph.nodes[number].shape)
    return view


def _at(axis: int, rank: int, value: Dim) -> Shape:
    return tuple(value if k == axis else 0 for k in range(rank))


@lru_cache(maxsize=32768)
def _applied(op: str, attrs: Attrs, shape: Shape, view: View) -> View | None:
    return _APPLY[op](view, Move(op, attrs, shape))


_APPLY: Mapping[str, Callable[[View, Move], View | None]] = {
    "after": lambda view, move: view,
    "reshape": lambda view, move: view.reshape(move.shape),
    "permute": lambda view, move: view.permute(move.attrs["axes"]),
    "broadcast_to": lambda view, move: view.broadcast(move.shape),
    "slice": lambda view, move: view.slice(
        move.attrs["starts"], move.attrs["limits"], move.attrs["steps"]
    ),
    "flip": lambda view, move: view.flip(move.attrs["axes"]),
    "pad": lambda view, move: view.pad(move.attrs["low"], move.attrs["high"]),
}
