"""Products of one value with several weights, merged into one product with all of them.

    x @ w1 + b1, x @ w2 + b2, ... -> parts of x @ [w1 w2 ...] + [b1 b2 ...]

So are queries, keys and values projected at once, gates together with what they let through, and
convolutions side by side: x is read once, and one larger product fills the machine better. Weights
are joined before the first run where they are frozen; where they are neighbouring slices of one
parameter, in any program, for that is the parameter itself.

A result that elementwise work reads would have been finished in the registers of its own product;
after the merge that work is a pass over memory. Costs decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from teeny_core import Dim, Shape, equal, numel

from teeny_compiler.fxgraph import FxBuilder, FXGraph, FxNode, rewritten
from teeny_compiler.nest.estimate import estimate
from teeny_compiler.nest.moves import MOVEMENT
from teeny_compiler.optimise.cost import BYTE, LAUNCH

MERGE = "x @ w1, x @ w2, ... -> parts of x @ [w1 w2 ...]"
"""What reports call it."""

CHANNELS = {"matmul": -1, "conv2d": -3}
"""Products, and the axis of their results that weights extend."""


@dataclass(frozen=True)
class Product:
    """A product `node` of a value with `weight`, and its `result`, which becomes a part.

    That is the product itself; or the sum of `bias`, a value along the channels, and the product,
    which may be `reshaped` first.
    """

    node: int
    weight: int
    result: int
    bias: int | None = None
    reshaped: Shape | None = None


@dataclass(frozen=True)
class Merged:
    """A graph, the number of merged products in it, and the cost that they save."""

    graph: FXGraph
    count: int = 0
    saved: float = 0.0


def merge_products(graph: FXGraph, fixed: Set[int] = frozenset()) -> Merged:
    """Merge products where that pays; `fixed` values are the same in every run."""
    gains = [(group, _gain(graph, group)) for group in _groups(graph, fixed)]
    found = [group for group, gain in gains if gain > 0]
    if not found:
        return Merged(graph)
    ready, moved = _fixed_first(graph, fixed)
    first = {min(moved[p.node] for p in group): group for group in found}
    results: dict[int, int] = {}

    def change(builder: FxBuilder, number: int, new: Sequence[int]) -> int | None:
        group = first.get(number)
        if group is not None:
            parts = _merged(builder, graph, group, lambda i: new[moved[i]])
            results.update((moved[p.result], part) for p, part in zip(group, parts, strict=True))
        return results.get(number)

    return Merged(rewritten(ready, change), len(found), sum(max(gain, 0) for _, gain in gains))


# --- what can be merged --------------------------------------------------------------------------


def _groups(graph: FXGraph, fixed: Set[int]) -> Iterator[list[Product]]:
    """Yield products that differ in their weights only, and whose weights can be joined."""
    alike: dict[tuple[object, ...], list[Product]] = {}
    for number, node in enumerate(graph.nodes):
        if node.op not in CHANNELS or node.attrs.get("groups", 1) != 1 or number in fixed:
            continue
        product = _product(graph, number)
        weight = graph.nodes[product.weight]
        others = list(weight.shape)
        del others[_weight_axis(node)]
        rank = None if product.bias is None else len(graph.nodes[product.bias].shape)
        form = None if product.reshaped is None else product.reshaped[:-1]
        key = (node.op, node.attrs, node.inputs[0], tuple(others), weight.dtype, rank, form)
        alike.setdefault(key, []).append(product)
    for group in alike.values():
        distinct = list({p.weight: p for p in group}.values())
        if len(distinct) < 2:
            continue
        distinct.sort(key=lambda p: _start(graph, p.weight))
        axis = _weight_axis(graph.nodes[distinct[0].node])
        biases = [p.bias for p in distinct if p.bias is not None]
        if _can_join(graph, [p.weight for p in distinct], axis, fixed) and (
            not biases or _can_join(graph, biases, _bias_axis(graph, distinct[0]), fixed)
        ):
            yield distinct


def _product(graph: FXGraph, number: int) -> Product:
    """Describe a product, with the bias that is added to it if nothing else reads it."""
    node = graph.nodes[number]
    axis = CHANNELS[node.op]
    plain = Product(number, node.inputs[1], number)
    last, reader = number, _only_reader(graph, number)
    reshaped = None
    if node.op == "matmul" and reader is not None and graph.nodes[reader].op == "reshape":
        reshaped = graph.nodes[reader].shape
        if not reshaped or not equal(reshaped[-1], node.shape[-1]):
            return plain
        last, reader = reader, _only_reader(graph, reader)
    if reader is None or graph.nodes[reader].op != "add":
        return plain
    others = [i for i in graph.nodes[reader].inputs if i != last]
    if len(others) != 1 or graph.nodes[others[0]].op != "broadcast_to":
        return plain
    (bias,) = graph.nodes[others[0]].inputs
    shape = graph.nodes[bias].shape
    if numel(shape) == 1 or not equal(numel(shape), node.shape[axis]) or len(shape) < -axis:
        return plain
    if not equal(shape[axis], node.shape[axis]):
        return plain
    return Product(number, node.inputs[1], reader, bias, reshaped)


def _only_reader(graph: FXGraph, number: int) -> int | None:
    readers = graph.users[number]
    return readers[0] if len(readers) == 1 and number not in graph.results else None


def _weight_axis(node: FxNode) -> int:
    """The axis of the weight that holds the channels of the result."""
    if node.op == "conv2d":
        return 0
    return len(node.shape) - 2 if node.attrs["transpose_b"] else len(node.shape) - 1


def _bias_axis(graph: FXGraph, product: Product) -> int:
    assert product.bias is not None
    return len(graph.nodes[product.bias].shape) + CHANNELS[graph.nodes[product.node].op]


def _can_join(graph: FXGraph, parts: Sequence[int], axis: int, fixed: Set[int]) -> bool:
    """Whether values are joined before the first run, or lie side by side anyway."""
    return set(parts) <= fixed or _side_by_side([graph.nodes[i] for i in parts], graph, axis)


def _side_by_side(parts: Sequence[FxNode], graph: FXGraph, axis: int) -> bool:
    """Whether values are neighbouring slices of one leaf along an axis."""
    if not all(x.op == "slice" and x.inputs == parts[0].inputs for x in parts):
        return False
    base = graph.nodes[parts[0].inputs[0]]
    for x in parts:
        for k, extent in enumerate(base.shape):
            whole = equal(x.attrs["starts"][k], 0) and equal(x.attrs["limits"][k], extent)
            if x.attrs["steps"][k] != 1 or (k != axis and not whole):
                return False
    ends = all(equal(a.attrs["limits"][axis], b.attrs["starts"][axis]) for a, b in pairwise(parts))
    return base.op == "input" and ends


def _start(graph: FXGraph, number: int) -> tuple[int, ...]:
    node = graph.nodes[number]
    return tuple(map(estimate, node.attrs["starts"])) if node.op == "slice" else ()


# --- whether it pays -----------------------------------------------------------------------------


def _gain(graph: FXGraph, group: Sequence[Product]) -> float:
    """Return the cost of the launches and reads that are saved, less that of added passes."""
    operand = graph.nodes[graph.nodes[group[0].node].inputs[0]]
    saved = (len(group) - 1) * (LAUNCH + BYTE * _nbytes(operand))
    passes = (p for p in group if _is_computed_with(graph, p.result))
    return saved - sum(2 * BYTE * _nbytes(graph.nodes[p.result]) for p in passes)


def _is_computed_with(graph: FXGraph, number: int) -> bool:
    """Whether a value is read by more than products, as it lies or moved."""
    stack = [number]
    while stack:
        for reader in graph.users[stack.pop()]:
            op = graph.nodes[reader].op
            if op in MOVEMENT:
                stack.append(reader)
            elif op not in CHANNELS and op != "attention":
                return True
    return False


def _nbytes(node: FxNode) -> int:
    return estimate(numel(node.shape)) * node.dtype.itemsize


# --- merging -------------------------------------------------------------------------------------


def _fixed_first(graph: FXGraph, fixed: Set[int]) -> tuple[FXGraph, dict[int, int]]:
    """Return the graph with leaves, then fixed values before all others, and the new numbers."""
    leaves = {i for i, node in enumerate(graph.nodes) if node.op == "input"}
    order = sorted(range(len(graph.nodes)), key=lambda i: (i not in leaves, i not in fixed, i))
    moved = {old: number for number, old in enumerate(order)}
    nodes = [graph.nodes[i] for i in order]
    return FXGraph(
        graph.name,
        tuple(
            FxNode(x.op, tuple(moved[i] for i in x.inputs), x.attrs, x.type, x.scope) for x in nodes
        ),
        tuple(moved[i] for i in graph.inputs),
        tuple(moved[i] for i in graph.parameters),
        tuple(moved[i] for i in graph.outputs),
        tuple((moved[parameter], moved[value]) for parameter, value in graph.updates),
    ), moved


def _merged(
    builder: FxBuilder, graph: FXGraph, group: Sequence[Product], new: Callable[[int], int]
) -> list[int]:
    """Add the merged product of a group and return the parts of its result."""
    node = graph.nodes[group[0].node]
    axis = CHANNELS[node.op]
    sizes = [graph.nodes[p.node].shape[axis] for p in group]
    weight = _joined(builder, graph, [p.weight for p in group], _weight_axis(node), new)
    inputs = [new(node.inputs[0]), weight]
    result = builder.add(node.op, inputs, node.attrs, node.scope)
    form = group[0].reshaped
    if form is not None:
        shape = (*form[:-1], builder.type(result).shape[-1])
        result = builder.add("reshape", [result], {"shape": shape})
    biases = [p.bias for p in group if p.bias is not None]
    if biases:
        bias = _joined(builder, graph, biases, _bias_axis(graph, group[0]), new)
        spread = builder.add("broadcast_to", [bias], {"shape": builder.type(result).shape})
        scope = graph.nodes[group[0].result].scope
        result = builder.add("add", [result, spread], {}, scope)
    return _parts(builder, result, sizes, axis)


def _joined(
    builder: FxBuilder,
    graph: FXGraph,
    parts: Sequence[int],
    axis: int,
    new: Callable[[int], int],
) -> int:
    """Add values joined along an axis: slices that lie side by side are a slice."""
    nodes = [graph.nodes[i] for i in parts]
    if not _side_by_side(nodes, graph, axis):
        return builder.add("concat", [new(i) for i in parts], {"axis": axis})
    first, last = nodes[0].attrs, nodes[-1].attrs
    how = {"starts": first["starts"], "limits": last["limits"], "steps": first["steps"]}
    return builder.add("slice", [new(nodes[0].inputs[0])], how)


def _parts(builder: FxBuilder, value: int, sizes: Sequence[Dim], axis: int) -> list[int]:
    """Add the slices of some extents along an axis."""
    shape = builder.type(value).shape
    place = len(shape) + axis
    parts = []
    start: Dim = 0
    for extent in sizes:
        starts = tuple(start if k == place else 0 for k in range(len(shape)))
        limits = tuple(start + extent if k == place else e for k, e in enumerate(shape))
        how = {"starts": starts, "limits": limits, "steps": (1,) * len(shape)}
        parts.append(builder.add("slice", [value], how))
        start = start + extent
    return parts
