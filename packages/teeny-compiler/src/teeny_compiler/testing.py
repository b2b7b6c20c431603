"""Random graphs over all families of ops, for comparing one way to run a graph with another.

    graph, arrays, parameters = random_graph(random.Random(seed).choice, steps=12)

`pick` chooses from a sequence: `random.Random(seed).choice`, or hypothesis, which then shrinks.
Values stay bounded, and no float that was computed is compared, rounded or converted to an
integer, so that results differ by rounding only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from teeny_core import Dim, Graph, Node, Shape, f16, f32, f64, i32, ops, substitute, symbol, u32
from teeny_core import shape as shapes
from teeny_core.internal import Array

T = TypeVar("T")
Pick = Callable[[Sequence[T]], T]

BATCH = symbol("n")
MAX_ELEMENTS = 600
UNARY = ("neg", "abs", "tanh", "sigmoid", "relu", "sin", "cos", "erf")
FLOATS = (f32, f64)
WINDOW: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 1), "padding": ((0, 1), (1, 0))}
SLIDE: dict[str, Any] = {
    "stride": (1, 2),
    "padding": ((1, 1), (0, 1)),
    "dilation": (1, 1),
    "groups": 1,
}


@dataclass(frozen=True)
class Case:
    """A graph with the arrays to run it on."""

    graph: Graph
    inputs: tuple[Array, ...]
    parameters: Mapping[str, Array]


def random_case(pick: Callable[[Sequence[Any]], Any], steps: int = 10) -> Case:
    """Return a random graph and its arguments."""
    maker = _Maker(pick)
    for _ in range(steps):
        maker.step()
    return maker.case()


class _Maker:
    def __init__(self, pick: Callable[[Sequence[Any]], Any]) -> None:
        self.pick = pick
        rest = pick(((3, 4), (2, 5, 4), (6,), (2, 3, 4, 5)))
        batch: Dim = pick((BATCH, 3))
        self.x = ops.input("x", (batch, *rest), f32)
        self.index = ops.input("index", (batch,), i32)
        self.p = ops.input("p", rest, f32)
        self.q = ops.input("q", (batch if isinstance(batch, int) else 4, 7), f32)
        self.state = ops.input("random.state", (4,), u32)
        self.nodes: list[Node] = [self.x, self.p, self.q]

    # --- choosing ----------------------------------------------------------------------------

    def node(self, where: Callable[[Node], bool] = lambda node: True) -> Node | None:
        """Pick a float node, the later ones more often."""
        found = [node for node in self.nodes if where(node)]
        return self.pick((*found, *found[-3:])) if found else None

    def step(self) -> None:
        """Add the result of one random op, when it fits."""
        make = self.pick((
            self.unary, self.unary, self.binary, self.binary, self.binary, self.reduction,
            self.normalised, self.reshaped, self.permuted, self.sliced, self.padded, self.joined,
            self.repeated, self.product, self.convolved, self.pooled, self.taken, self.chosen,
            self.converted, self.dropped, self.placed,
        ))  # fmt: skip
        result = make()
        if result is not None and _elements(result.shape) <= MAX_ELEMENTS:
            self.nodes.append(result)

    # --- ops ---------------------------------------------------------------------------------

    def unary(self) -> Node | None:
        node = self.node()
        return node and ops_apply(self.pick(UNARY), node)

    def binary(self) -> Node | None:
        x = self.node()
        y = x and self.node(lambda node: node.dtype == x.dtype and _broadcasts(node, x))
        if x is None or y is None:
            return None
        y = ops.broadcast_to(y, x.shape)
        name = self.pick(("add", "sub", "mul", "maximum", "minimum", "div"))
        if name == "div":
            y = ops.add(ops.mul(y, y), ops.full(x.shape, 1.0, x.dtype))
        result = ops_apply(name, x, y)
        return ops.mul(result, ops.full(x.shape, 0.5, x.dtype))

    def reduction(self) -> Node | None:
        x = self.node(lambda node: len(node.shape) > 0)
        if x is None:
            return None
        axes = self._axes(x)
        name = self.pick(("sum", "max", "min", "mean"))
        if name != "mean":
            total = ops_apply(name, x, axes=axes)
            scale = 0.25 if name == "sum" else 1.0
            return ops.tanh(ops.mul(total, ops.full(total.shape, scale, x.dtype)))
        total = ops.sum(x, axes)
        count = ops.size(shapes.numel(x.shape[axis] for axis in axes), x.dtype)
        return ops.div(total, ops.broadcast_to(count, total.shape))

    def normalised(self) -> Node | None:
        """Softmax, or standardisation, over some axes."""
        x = self.node(lambda node: len(node.shape) > 0)
        if x is None:
            return None
        axes = self._axes(x)

        def spread(value: Node) -> Node:
            kept = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
            return ops.broadcast_to(ops.reshape(value, kept), x.shape)

        if self.pick((True, False)):
            weights = ops.exp(ops.sub(x, spread(ops.max(x, axes))))
            return ops.div(weights, spread(ops.sum(weights, axes)))
        count = ops.size(shapes.numel(x.shape[axis] for axis in axes), x.dtype)
        kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
        centred = ops.sub(x, spread(ops.div(ops.sum(x, axes), ops.broadcast_to(count, kept))))
        variance = ops.div(ops.sum(ops.mul(centred, centred), axes), ops.broadcast_to(count, kept))
        inverse = ops.rsqrt(ops.add(variance, ops.full(kept, 0.1, x.dtype)))
        return ops.mul(centred, spread(inverse))

    def reshaped(self) -> Node | None:
        x = self.node(lambda node: len(node.shape) > 0)
        if x is None:
            return None
        first, *rest = x.shape
        forms = [(first, shapes.numel(rest)), (shapes.numel(x.shape),), (*x.shape, 1)]
        if isinstance(x.shape[-1], int) and x.shape[-1] % 2 == 0:
            forms.append((*x.shape[:-1], 2, x.shape[-1] // 2))
        return ops.reshape(x, self.pick(forms))

    def permuted(self) -> Node | None:
        x = self.node(lambda node: len(node.shape) > 1)
        if x is None:
            return None
        axes = list(range(len(x.shape)))
        i, j = self.pick(axes), self.pick(axes)
        axes[i], axes[j] = axes[j], axes[i]
        return ops.permute(x, tuple(axes))

    def sliced(self) -> Node | None:
        x = self.node(lambda node: len(node.shape) > 0)
        if x is None:
            return None
        if self.pick((True, False)):
            return ops.flip(x, (self.pick(range(len(x.shape))),))
        starts, limits, steps = [], [], []
        for extent in x.shape:
            cut = isinstance(extent, int) and extent > 2
            starts.append(self.pick((0, 1)) if cut else 0)
            limits.append(extent)
            steps.append(self.pick((1, 1, 2)) if cut else 1)
        return ops.slice(x, tuple(starts), tuple(limits), tuple(steps))

    def padded(self) -> Node | None:
        x = self.node(lambda node: len(node.shape) > 0)
        if x is None:
            return None
        low = tuple(self.pick((0, 0, 1)) for _ in x.shape)
        high = tuple(self.pick((0, 0, 2)) for _ in x.shape)
        return ops.pad(x, low, high, self.pick((0.0, -1.5)))

    def joined(self) -> Node | None:
        x = self.node(lambda node: len(node.shape) > 0)
        if x is None:
            return None
        axis = self.pick(range(len(x.shape)))
        parts = [n for n in self.nodes if n.dtype == x.dtype and shapes.same(n.shape, x.shape)]
        return ops.concat((x, self.pick(parts), ops.neg(x)), axis)

    def repeated(self) -> Node | None:
        x = self.node()
        return x and ops.broadcast_to(x, (2, *x.shape))

    def product(self) -> Node | None:
        """A matmul of a node with itself, or with a slice of another, any flags."""
        x = self.node(lambda node: len(node.shape) > 1)
        if x is None:
            return None
        left, right = self.pick(((False, True), (True, False)))
        result = ops.matmul(x, x, transpose_a=left, transpose_b=right)
        return ops.tanh(ops.mul(result, ops.full(result.shape, 0.125, x.dtype)))

    def convolved(self) -> Node | None:
        x = self.node(_is_image)
        if x is None:
            return None
        channels = x.shape[1]
        assert isinstance(channels, int)
        weight = ops.iota((2, channels, 3, 2), self.pick((0, 1, 2, 3)), x.dtype)
        weight = ops.mul(ops.sin(weight), ops.full(weight.shape, 0.25, x.dtype))
        return ops.conv2d(x, weight, **SLIDE)

    def pooled(self) -> Node | None:
        x = self.node(_is_image)
        if x is None:
            return None
        if self.pick((True, False)):
            return ops.max_pool2d(x, **WINDOW)
        return ops.avg_pool2d(x, **WINDOW, count_include_pad=self.pick((True, False)))

    def taken(self) -> Node | None:
        x = self.node(lambda n: len(n.shape) > 0 and isinstance(n.shape[0], int) and n.shape[0] > 2)
        return x and ops.take(x, self.index, 0)

    def chosen(self) -> Node | None:
        """A choice by a comparison of indices."""
        x = self.node(lambda node: len(node.shape) > 0)
        if x is None:
            return None
        axis = self.pick(range(len(x.shape)))
        places = ops.iota(x.shape, axis, i32)
        near = ops.lt(places, ops.full(x.shape, 2, i32))
        return ops.where(near, x, ops.full(x.shape, self.pick((0.0, 0.75)), x.dtype))

    def converted(self) -> Node | None:
        x = self.node()
        if x is None:
            return None
        if self.pick((True, False)):
            return ops.cast(x, self.pick(FLOATS))
        return ops.cast(ops.cast(ops.mul(x, ops.full(x.shape, 0.0, x.dtype)), f16), x.dtype)

    def dropped(self) -> Node | None:
        """Dropout: a choice by random bits."""
        x = self.node()
        if x is None:
            return None
        bits = ops.random_bits(self.state, shape=x.shape, site=len(self.nodes))
        kept = ops.lt(bits, ops.full(x.shape, 3 << 30, u32))
        return ops.where(kept, x, ops.full(x.shape, 0.0, x.dtype))

    def placed(self) -> Node | None:
        """A gather from each row and its scatter."""
        x = self.node(lambda n: len(n.shape) == 2 and shapes.equal(n.shape[0], self.x.shape[0])
                      and isinstance(n.shape[1], int) and n.shape[1] > 2)  # fmt: skip
        if x is None:
            return None
        index = ops.reshape(self.index, (x.shape[0], 1))
        picked = ops.take_along(x, index, 1)
        return ops.take_along_grad(index, picked, shape=x.shape, axis=1)

    def _axes(self, x: Node) -> tuple[int, ...]:
        rank = len(x.shape)
        return self.pick([(axis,) for axis in range(rank)] + [tuple(range(rank))])  # type: ignore[no-any-return]

    # --- the case ----------------------------------------------------------------------------

    def case(self) -> Case:
        """Return the last values as outputs, with updates where types fit."""
        made = self.nodes[3:] or self.nodes
        outputs = tuple(dict.fromkeys(made[-2:]))
        updates = []
        for parameter in (self.p, self.q):
            fitting = [
                n for n in self.nodes
                if n.dtype == parameter.dtype and shapes.same(n.shape, parameter.shape)
            ]  # fmt: skip
            updates.append((parameter, self.pick(fitting)))
        inputs, parameters = (self.x, self.index), (self.p, self.q, self.state)
        graph = Graph("random", inputs, parameters, outputs, tuple(updates))
        generator = np.random.default_rng(len(self.nodes))
        sizes = {"n": self.pick((1, 2, 5))}

        def array(node: Node) -> Array:
            shape = substitute(node.shape, sizes)
            uniform: Array = generator.uniform(-1, 1, shape)
            small: Array = generator.integers(0, 3, shape)
            return (uniform if node.dtype.is_float else small).astype(node.dtype.numpy)

        return Case(
            graph,
            tuple(array(node) for node in inputs),
            {node.attrs["name"]: array(node) for node in parameters},
        )


def ops_apply(name: str, *operands: Node, **attrs: Any) -> Node:
    """Make a node of an op by name."""
    from teeny_core.internal import apply

    return apply(name, *operands, **attrs)


def _elements(shape: Shape) -> int:
    count = 1
    for extent in substitute(shape, {"n": 5}):
        count *= extent
    return count


def _broadcasts(node: Node, to: Node) -> bool:
    if len(node.shape) > len(to.shape):
        return False
    aligned = to.shape[len(to.shape) - len(node.shape) :]
    pairs = zip(node.shape, aligned, strict=True)
    return all(have == 1 or shapes.equal(have, want) for have, want in pairs)


def _is_image(node: Node) -> bool:
    if len(node.shape) != 4 or node.dtype != f32:
        return False
    return all(isinstance(n, int) and n >= 3 for n in node.shape[2:]) and isinstance(
        node.shape[1], int
    )
