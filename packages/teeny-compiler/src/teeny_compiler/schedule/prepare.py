"""What a graph is turned into before fusion: more of it elementwise, and more of it parallel.

A sum or product of no elements is a constant. Of an index along one axis of extent 1 (the class
of each row, say)

- gathering from an elementwise value gathers from what that is computed of;
- scattering is a choice at each place: `where(iota == index, dy + 0, 0)`, where `+ 0` gives the
  zero that a sum with 0 has.

A large reduction to few values is made in two steps: over parts, which run in parallel, then over
their results. Ops that a library computes by one kernel become a compound (see `compound`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from teeny_core import DType, TensorType, ceildiv, equal, numel, ops

from teeny_compiler.fxgraph import FxBuilder, FXGraph, FxNode, rewritten
from teeny_compiler.nest.estimate import estimate
from teeny_compiler.schedule.compound import Serves, with_compounds

NEUTRAL = {"sum": 0, "prod": 1}
FEW_RESULTS = 4
MANY_ELEMENTS = 1 << 17
PARTS = 32


def prepare(graph: FXGraph, serves: Serves = lambda op, attrs, types: False) -> FXGraph:
    """Rewrite what has a better form for the scheduler.

    Args:
        graph: what to rewrite.
        serves: whether a library computes an op with some attributes, from the types of its
            operands and, last, of its result.
    """

    compounded = with_compounds(graph, serves)

    def change(builder: FxBuilder, number: int, new: Sequence[int]) -> int | None:
        node = compounded.nodes[number]
        make = _CHANGES.get(node.op)
        return None if make is None else make(builder, node, [new[i] for i in node.inputs])

    return rewritten(compounded, change)


# --- reductions ---------------------------------------------------------------------------------


def _reduction(builder: FxBuilder, node: FxNode, inputs: list[int]) -> int | None:
    kind = builder.type(inputs[0])
    if node.op in NEUTRAL and numel(kind.shape) == 0:
        return _filled(builder, NEUTRAL[node.op], node.type)
    many = estimate(numel(kind.shape)) >= MANY_ELEMENTS
    if many and estimate(numel(node.shape)) <= FEW_RESULTS:
        return _in_parts(builder, node, inputs[0])
    return None


def _in_parts(builder: FxBuilder, node: FxNode, x: int) -> int | None:
    """Fold an axis in parts: reduce(x) = reduce(reduce(x as [parts, rest])), padded to fit."""
    kind = builder.type(x)
    axes: tuple[int, ...] = node.attrs["axes"]
    long = [a for a in axes if estimate(kind.shape[a]) >= 2 * PARTS]
    if not long:
        return None
    axis, extent = long[0], kind.shape[long[0]]
    wide = node.dtype.accumulator
    x = builder.add("cast", [x], {"dtype": wide if node.op in NEUTRAL else kind.dtype})
    rest = ceildiv(extent, PARTS)
    missing = tuple(PARTS * rest - extent if a == axis else 0 for a in range(kind.rank))
    value = _neutral(node.op, builder.type(x).dtype)
    x = builder.add("pad", [x], {"low": (0,) * kind.rank, "high": missing, "value": value})
    shape = (*kind.shape[:axis], PARTS, rest, *kind.shape[axis + 1 :])
    x = builder.add("reshape", [x], {"shape": shape})
    inner = tuple(sorted(axis + 1 if a == axis else a + (a > axis) for a in axes))
    x = builder.add(node.op, [x], {"axes": inner}, node.scope)
    place = axis - sum(a < axis for a in axes)
    x = builder.add(node.op, [x], {"axes": (place,)}, node.scope)
    return builder.add("cast", [x], {"dtype": node.dtype})


def _neutral(op: str, dtype: DType) -> int | float:
    if op in NEUTRAL:
        return float(NEUTRAL[op]) if dtype.is_float else NEUTRAL[op]
    if dtype.is_float:
        return -math.inf if op == "max" else math.inf
    return dtype.min if op == "max" else dtype.max


def _filled(builder: FxBuilder, value: int, kind: TensorType) -> int:
    scalar = builder.add("constant", [], {"value": value, "dtype": kind.dtype})
    return builder.add("broadcast_to", [scalar], {"shape": kind.shape})


# --- indexing -----------------------------------------------------------------------------------


def _gather(builder: FxBuilder, node: FxNode, inputs: list[int]) -> int:
    return _take_along(builder, inputs[0], inputs[1], node.attrs["axis"])


def _scatter(builder: FxBuilder, node: FxNode, inputs: list[int]) -> int | None:
    axis = node.attrs["axis"]
    return _choose(builder, inputs, node) if _is_single(builder, inputs[0], axis) else None


def _is_single(builder: FxBuilder, index: int, axis: int) -> bool:
    return equal(builder.type(index).shape[axis], 1)


def _take_along(builder: FxBuilder, x: int, index: int, axis: int) -> int:
    """Gather single elements of an elementwise value by gathering from its operands."""
    node = builder.nodes[x]
    shape = builder.type(index).shape
    if not _is_single(builder, index, axis):
        return builder.add("take_along", [x, index], {"axis": axis})
    if node.op == "constant" or "elementwise" in ops.get(node.op).traits:
        inputs = [_take_along(builder, i, index, axis) for i in node.inputs]
        return builder.add(node.op, inputs, node.attrs, node.scope)
    if node.op == "broadcast_to" and _repeats(builder, x, axis):
        inner = node.inputs[0]
        return builder.add("broadcast_to", [inner], {"shape": shape})
    return builder.add("take_along", [x, index], {"axis": axis})


def _repeats(builder: FxBuilder, number: int, axis: int) -> bool:
    """Whether a broadcast makes `axis`, so that all its elements are the same."""
    node = builder.nodes[number]
    inner = builder.type(node.inputs[0]).shape
    place = axis - (len(node.shape) - len(inner))
    return place < 0 or equal(inner[place], 1)


def _choose(builder: FxBuilder, inputs: list[int], node: FxNode) -> int:
    index, dy = inputs
    shape, axis = node.shape, node.attrs["axis"]
    dtype = builder.type(index).dtype
    places = builder.add("iota", [], {"shape": shape, "axis": axis, "dtype": dtype})
    wanted = builder.add("broadcast_to", [index], {"shape": shape})
    zero = builder.add("constant", [], {"value": 0, "dtype": node.dtype})
    zero = builder.add("broadcast_to", [zero], {"shape": shape})
    value = builder.add("add", [builder.add("broadcast_to", [dy], {"shape": shape}), zero])
    here = builder.add("eq", [places, wanted])
    return builder.add("where", [here, value, zero], {}, node.scope)


_CHANGES: Mapping[str, Callable[[FxBuilder, FxNode, list[int]], int | None]] = {
    **dict.fromkeys(("sum", "prod", "max", "min"), _reduction),
    "take_along": _gather,
    "take_along_grad": _scatter,
}
