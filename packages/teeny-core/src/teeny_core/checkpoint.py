"""Activation checkpointing: values that a gradient needs are computed again, not kept.

    y = tn.checkpoint(block)(x)

The forward pass keeps the arguments of `block` and its result. Backward, the block runs once more
on its arguments as they are read *after* the gradient of the result is known: `after(x, gradient)`
is x, but a node of its own, so that nothing merges the second run with the first, or moves it
before the gradient. (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

from teeny_core import ops
from teeny_core.autodiff import backward
from teeny_core.graph import Node, apply, topological
from teeny_core.op import Array, Attrs, OpDef, TensorType, register
from teeny_core.tensor import AnyTensor
from teeny_core.tree import Tree, mapped
from teeny_core.tree import leaves as leaves_of

Function: TypeAlias = Callable[..., Any]


def checkpoint(function: Function) -> Function:
    """Return a function of the same values that keeps no inner value for its gradient.

    What lies between its arguments and its results is computed again in the backward pass, once
    for each result. Gradients are the same, but for the order in which those of a value that is
    used in several places are added. Random numbers are drawn again, so that dropout is the
    same. Tensors that it only closes over, such as weights, are kept.

    Args:
        function: takes and returns tensors, or trees of them; a layer, for example.
    """

    @wraps(function)
    def checkpointed(*arguments: Tree, **settings: Any) -> Any:
        fresh = mapped(_alias, arguments)
        given = [leaf.node for leaf in leaves_of(fresh) if isinstance(leaf, AnyTensor)]
        value = function(*fresh, **settings)
        return mapped(lambda leaf: leaf._wrap(_ending(leaf.node, given)), value)

    return checkpointed


def _alias(leaf: Any) -> Any:
    """Return an argument as a node of its own, where the second run begins."""
    if not isinstance(leaf, AnyTensor):
        return leaf
    return leaf._wrap(ops.reshape(leaf.node, leaf.shape))


def _ending(result: Node, given: Sequence[Node]) -> Node:
    """Return a result as a node that knows its arguments and what else it is made from."""
    inner = _inner(result, given)
    if result not in inner:
        return result
    outside = dict.fromkeys(
        operand
        for node in inner
        for operand in node.inputs
        if operand not in inner and operand not in given and operand.dtype.is_float
    )
    return apply("checkpoint", result, *given, *outside, arguments=len(given))


def _inner(result: Node, given: Sequence[Node]) -> dict[Node, None]:
    """Return, in order, the nodes under a result that depend on arguments or random numbers.

    Of the latter only those that are made of nothing else, as the mask of a dropout is.
    """
    inner: dict[Node, None] = {}
    drawn: set[Node] = set()  # made of constants and random numbers alone
    for node in topological((result,), stop=frozenset(given)):
        if node in given:
            continue
        random = "random" in node.definition.traits
        constant = not node.inputs and node.op not in ("input", "data")
        if random or constant or (node.inputs and drawn.issuperset(node.inputs)):
            drawn.add(node)
            again = random or any(x in inner for x in node.inputs)
        else:
            again = any(x in given or (x in inner and x not in drawn) for x in node.inputs)
        if again:
            inner[node] = None
    return inner


def _vjp(node: Node, gradient: Node) -> tuple[Node | None, ...]:
    """Run the function again once the gradient is known, and differentiate this run."""
    result, *operands = node.inputs
    given, outside = operands[: node.attrs["arguments"]], operands[node.attrs["arguments"] :]
    again = {x: apply("after", x, gradient) for x in given}
    again |= {x: ops.reshape(x, x.shape) for x in outside}
    starts = dict(again)
    for inner in _inner(result, given):
        if "random" in inner.definition.traits:
            again |= {x: apply("after", x, gradient) for x in inner.inputs if x not in again}
        again[inner] = inner.with_inputs(tuple(again.get(x, x) for x in inner.inputs))
    floats = [x for x in operands if x.dtype.is_float]
    found = iter(backward([again[result]], [starts[x] for x in floats], [gradient]))
    return (None, *(next(found) if x.dtype.is_float else None for x in operands))


def _infer_first(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    return inputs[0]


def _first(attrs: Attrs, *operands: Array) -> Array:
    return operands[0]


# The table of ops has no rows of them: what they are for is seen in gradients.
for _definition in (
    OpDef(
        "after",
        _infer_first,
        _first,
        lambda node, gradient: (gradient, None),
        frozenset({"compound"}),
        2,
    ),
    OpDef(
        "checkpoint",
        _infer_first,
        _first,
        _vjp,
        frozenset({"compound"}),
        None,
        ("arguments",),
        lambda node: node.inputs[0],
    ),
):
    register(_definition)
