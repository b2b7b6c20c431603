"""Pieces of a value: cut out of where they lie, and put together at once where they are summed.

    slice(concat(..., x, ...)) -> x                   slice(pad(x)) -> x, or 0 beside it
    pad(x) + pad(y) + ... + 0 -> concat(x, y, ...)    where they do not overlap
    a @ b + c @ d + ... -> concat(a, c, ...) @ concat(b, d, ...)

Gradients are made of such sums. What was cut into pieces gets one summand for each, zero elsewhere;
a weight that many steps use, as that of a recurrent layer, gets one product for each. So the sums
of a loop over steps become one concatenation and one product, which adds up in registers.

Only the order of additions changes, and the sign of a zero to which a zero was added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from teeny_core import Dim, Shape, equal, numel
from teeny_core import shape as shapes

from teeny_compiler.fxgraph import FxBuilder, FXGraph, FxNode, rewritten
from teeny_compiler.nest.estimate import estimate
from teeny_compiler.optimise.cost import BYTE, LAUNCH

SLICES = "slice(concat or pad of x) -> x"
PADS = "pad(x) + pad(y) -> concat(x, y)"
PRODUCTS = "a @ b + c @ d -> concat(a, c) @ concat(b, d)"
"""What reports call them."""


@dataclass(frozen=True)
class Joined:
    """A graph, and how often each rule changed it."""

    graph: FXGraph
    fired: Mapping[str, int] = field(default_factory=dict)


def join_pieces(graph: FXGraph) -> Joined:
    """Cut pieces out, then join sums of pieces, then sums of products."""
    fired: Counter[str] = Counter()
    graph = _with_slices(graph, fired)
    graph = _with_pads(graph, fired)
    return Joined(_with_products(graph, fired), fired)


# --- slices --------------------------------------------------------------------------------------


def _with_slices(graph: FXGraph, fired: Counter[str]) -> FXGraph:
    if not any(node.op == "slice" for node in graph.nodes):
        return graph

    def change(builder: FxBuilder, number: int, new: Sequence[int]) -> int | None:
        node = graph.nodes[number]
        if node.op != "slice" or any(step != 1 for step in node.attrs["steps"]):
            return None
        found = _cut(builder, new[node.inputs[0]], node.attrs["starts"], node.attrs["limits"])
        if found is not None:
            fired[SLICES] += 1
        return found

    return rewritten(graph, change)


def _cut(builder: FxBuilder, x: int, starts: Shape, limits: Shape) -> int | None:
    """Return the part [starts, limits) of a value as something else than its slice, if it is."""
    node = builder.nodes[x]
    match node.op:
        case "concat":
            return _cut_concat(builder, node, starts, limits)
        case "pad":
            return _cut_pad(builder, node, starts, limits)
        case "permute":
            axes: tuple[int, ...] = node.attrs["axes"]
            back = [axes.index(axis) for axis in range(len(axes))]
            inner = [tuple(bounds[k] for k in back) for bounds in (starts, limits)]
            found = _cut(builder, node.inputs[0], *inner)
            return None if found is None else builder.add("permute", [found], {"axes": axes})
    return None


def _slice(builder: FxBuilder, x: int, starts: Shape, limits: Shape) -> int:
    """Add a part of a value, which may be a part of its parts."""
    found = _cut(builder, x, starts, limits)
    if found is not None:
        return found
    how = {"starts": starts, "limits": limits, "steps": (1,) * len(starts)}
    return builder.add("slice", [x], how)


def _cut_concat(builder: FxBuilder, node: FxNode, starts: Shape, limits: Shape) -> int | None:
    axis: int = node.attrs["axis"]
    begin: Dim = 0
    for part in node.inputs:
        end = begin + builder.type(part).shape[axis]
        if shapes.at_least(starts[axis], begin) and shapes.at_least(end, limits[axis]):
            return _slice(builder, part, _less(starts, axis, begin), _less(limits, axis, begin))
        begin = end
    return None


def _less(bounds: Shape, axis: int, amount: Dim) -> Shape:
    return tuple(bound - amount if k == axis else bound for k, bound in enumerate(bounds))


def _cut_pad(builder: FxBuilder, node: FxNode, starts: Shape, limits: Shape) -> int | None:
    (x,) = node.inputs
    low: Shape = node.attrs["low"]
    ends = [a + b for a, b in zip(low, builder.type(x).shape, strict=True)]
    rows = list(zip(starts, limits, low, ends, strict=True))
    if all(shapes.at_least(start, a) and shapes.at_least(b, limit) for start, limit, a, b in rows):
        inner = [
            tuple(i - a for i, a in zip(bounds, low, strict=True)) for bounds in (starts, limits)
        ]
        return _slice(builder, x, *inner)
    if any(shapes.at_least(a, limit) or shapes.at_least(start, b) for start, limit, a, b in rows):
        shape = tuple(limit - start for start, limit in zip(starts, limits, strict=True))
        return _filled(builder, node.attrs["value"], node, shape)
    return None


def _filled(builder: FxBuilder, value: float, like: FxNode, shape: Shape) -> int:
    scalar = builder.add("constant", [], {"value": value, "dtype": like.dtype})
    return builder.add("broadcast_to", [scalar], {"shape": shape})


# --- sums ----------------------------------------------------------------------------------------


def _sums(graph: FXGraph) -> dict[int, list[int]]:
    """Return the terms, in order, of each sum of floats that is no term of a larger one."""
    results = set(graph.results)
    inner = {
        operand
        for node in graph.nodes
        if node.op == "add" and node.dtype.is_float
        for operand in node.inputs
        if graph.nodes[operand].op == "add" and _is_read_once(graph, operand, results)
    }
    sums: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        if node.op == "add" and node.dtype.is_float and number not in inner:
            sums[number] = _terms(graph, number, inner)
    return sums


def _is_read_once(graph: FXGraph, number: int, results: set[int]) -> bool:
    if number in results or len(graph.users[number]) != 1:
        return False
    return graph.nodes[graph.users[number][0]].inputs.count(number) == 1


def _terms(graph: FXGraph, number: int, inner: set[int]) -> list[int]:
    terms, stack = [], [number]
    while stack:
        i = stack.pop()
        if i == number or i in inner:
            stack += reversed(graph.nodes[i].inputs)
        else:
            terms.append(i)
    return terms


def _added(builder: FxBuilder, terms: Sequence[int], scope: str) -> int:
    total = terms[0]
    for term in terms[1:]:
        total = builder.add("add", [total, term], {}, scope)
    return total


def _is_zero(graph: FXGraph, number: int) -> bool:
    node = graph.nodes[number]
    if node.op == "broadcast_to":
        node = graph.nodes[node.inputs[0]]
    return node.op == "constant" and node.attrs["value"] == 0


# --- sums of pads --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """A term that is zero outside of [start, end) on one axis, and `node` inside."""

    node: int
    axis: int
    start: int
    end: int


def _with_pads(graph: FXGraph, fired: Counter[str]) -> FXGraph:
    sums = _sums(graph)
    plans = {number: _in_rows(graph, terms) for number, terms in sums.items()}
    changed = {n: plan for n, plan in plans.items() if len(plan[0]) + len(plan[1]) < len(sums[n])}
    if not changed:
        return graph

    def change(builder: FxBuilder, number: int, new: Sequence[int]) -> int | None:
        if number not in changed:
            return None
        rows, others = changed[number]
        node = graph.nodes[number]
        parts = [new[i] for i in others]
        parts += [_row(builder, node, row, new) for row in rows]
        fired[PADS] += 1
        return _added(builder, parts, node.scope)

    return rewritten(graph, change)


def _in_rows(graph: FXGraph, terms: Sequence[int]) -> tuple[list[list[_Piece]], list[int]]:
    """Gather terms into rows of pieces that do not overlap; return these and the other terms."""
    waiting, others = [], []
    for term in terms:
        piece = _piece(graph, term)
        if piece is not None:
            waiting.append(piece)
        elif not _is_zero(graph, term):
            others.append(term)
    waiting.sort(key=lambda piece: (piece.axis, piece.start))
    rows: list[list[_Piece]] = []
    while waiting:
        row: list[_Piece] = []
        for piece in waiting:
            if not row or (piece.axis == row[-1].axis and piece.start >= row[-1].end):
                row.append(piece)
        waiting = [piece for piece in waiting if piece not in row]
        rows.append(row)
    return (rows, others) if rows or others else ([], list(terms[:1]))


def _piece(graph: FXGraph, number: int) -> _Piece | None:
    node = graph.nodes[number]
    if node.op != "pad" or node.attrs["value"] != 0:
        return None
    low, high = node.attrs["low"], node.attrs["high"]
    padded = [k for k in range(len(low)) if not (equal(low[k], 0) and equal(high[k], 0))]
    if len(padded) != 1:
        return None
    (axis,) = padded
    (x,) = node.inputs
    start, extent = low[axis], graph.nodes[x].shape[axis]
    if not isinstance(start, int) or not isinstance(extent, int):
        return None
    return _Piece(x, axis, start, start + extent)


def _row(builder: FxBuilder, total: FxNode, row: Sequence[_Piece], new: Sequence[int]) -> int:
    """Add the concatenation of pieces, with zeros between them and beside them."""
    axis = row[0].axis
    shape = total.shape
    parts: list[int] = []
    end = row[0].start
    for piece in row:
        if piece.start > end:
            gap = (*shape[:axis], piece.start - end, *shape[axis + 1 :])
            parts.append(_filled(builder, 0.0, total, gap))
        parts.append(new[piece.node])
        end = piece.end
    joined = builder.add("concat", parts, {"axis": axis}, total.scope)
    sides = [
        tuple(amount if k == axis else 0 for k in range(len(shape)))
        for amount in (row[0].start, shape[axis] - end)
    ]
    return builder.add("pad", [joined], {"low": sides[0], "high": sides[1], "value": 0.0})


# --- sums of products ----------------------------------------------------------------------------


def _with_products(graph: FXGraph, fired: Counter[str]) -> FXGraph:
    plans: dict[int, tuple[list[list[int]], list[int]]] = {}
    for number, terms in _sums(graph).items():
        groups, others = _alike(graph, terms)
        if groups:
            plans[number] = groups, others
    if not plans:
        return graph
    lines: _Lines = {}

    def change(builder: FxBuilder, number: int, new: Sequence[int]) -> int | None:
        node = graph.nodes[number]
        if node.op == "concat":
            operands = [new[i] for i in node.inputs]
            found = builder.add("concat", operands, node.attrs, node.scope)
            if node.attrs["axis"] == 0:
                lines[found] = [_under(builder, i) for i in operands]
            return found
        if number not in plans:
            return None
        groups, others = plans[number]
        parts = [new[i] for i in others]
        for group in groups:
            parts.append(_product(builder, lines, [graph.nodes[i] for i in group], new))
            fired[PRODUCTS] += 1
        return _added(builder, parts, node.scope)

    return rewritten(graph, change)


_Lines = dict[int, list[int]]
"""Concatenations along the first axis: the values, apart from their shape, that they join."""


def _alike(graph: FXGraph, terms: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Gather products that pay as one; return the groups and the other terms."""
    groups: dict[object, list[int]] = {}
    others: list[int] = []
    results = set(graph.results)
    for term in terms:
        node = graph.nodes[term]
        single = node.op == "matmul" and _is_read_once(graph, term, results)
        if single and all(len(graph.nodes[i].shape) == 2 for i in node.inputs):
            groups.setdefault(node.attrs, []).append(term)
        else:
            others.append(term)
    paying = [group for group in groups.values() if _gain(graph, group) > 0]
    others += [term for group in groups.values() if group not in paying for term in group]
    return paying, others


def _gain(graph: FXGraph, group: Sequence[int]) -> float:
    """Return the cost of the launches and sums that are saved, less that of joining operands."""
    saved = sum(LAUNCH + 2 * BYTE * _nbytes(graph, i) for i in group[1:])
    return saved - sum(2 * BYTE * _nbytes(graph, i) for n in group for i in graph.nodes[n].inputs)


def _nbytes(graph: FXGraph, number: int) -> int:
    node = graph.nodes[number]
    return estimate(numel(node.shape)) * node.dtype.itemsize


def _product(builder: FxBuilder, lines: _Lines, group: Sequence[FxNode], new: Sequence[int]) -> int:
    attrs = group[0].attrs
    axes = (0 if attrs["transpose_a"] else 1, 1 if attrs["transpose_b"] else 0)
    orders = []
    for products in (group, group[::-1]):
        operands = [[new[node.inputs[side]] for node in products] for side in (0, 1)]
        found = [
            _in_line(builder, lines, values) if axis == 0 else None
            for values, axis in zip(operands, axes, strict=True)
        ]
        orders.append((sum(value is not None for value in found), found, operands))
    _, found, operands = max(orders, key=lambda order: order[0])
    inputs = [
        builder.add("concat", values, {"axis": axis}) if value is None else value
        for value, values, axis in zip(found, operands, axes, strict=True)
    ]
    return builder.add("matmul", inputs, attrs, group[0].scope)


def _in_line(builder: FxBuilder, lines: _Lines, values: Sequence[int]) -> int | None:
    """Return the part of a concatenation that joins some matrices already, if there is one."""
    wanted = [_under(builder, i) for i in values]
    for number, members in lines.items():
        places = [k for k, member in enumerate(members) if member == wanted[0]]
        for k in places:
            if members[k : k + len(wanted)] == wanted:
                return _part(builder, number, k, len(wanted), values)
    return None


def _part(builder: FxBuilder, number: int, first: int, count: int, values: Sequence[int]) -> int:
    extents = [builder.type(i).shape[0] for i in builder.nodes[number].inputs]
    start = sum(extents[:first], start=0)
    shape = builder.type(number).shape
    starts = (start, *(0 for _ in shape[1:]))
    limits = (start + sum(extents[first : first + count], start=0), *shape[1:])
    part = _slice(builder, number, starts, limits)
    rows = sum((builder.type(i).shape[0] for i in values), start=0)
    return builder.add("reshape", [part], {"shape": (rows, builder.type(values[0]).shape[1])})


def _under(builder: FxBuilder, number: int) -> int:
    """The value of which a value is another shape."""
    while builder.nodes[number].op == "reshape":
        (number,) = builder.nodes[number].inputs
    return number
