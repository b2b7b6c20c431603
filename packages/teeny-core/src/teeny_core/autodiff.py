"""Reverse-mode differentiation: of nodes, and of functions.

Every operation brings its own `vjp`, made of operations again, so that gradients of gradients need
nothing more. Only floats carry gradients. An operation without a `vjp` on a path that needs one is
an error, never a silent zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce, wraps
from typing import Any, TypeAlias

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.errors import GradientError, GraphError
from teeny_core.graph import Node, topological
from teeny_core.name_scope import in_scope
from teeny_core.tensor import AnyTensor, Tensor
from teeny_core.tree import Tree, mapped
from teeny_core.tree import leaves as leaves_of

Function: TypeAlias = Callable[..., Any]


# --- nodes --------------------------------------------------------------------------------------


def backward(
    outputs: Sequence[Node], wrt: Sequence[Node], grads: Sequence[Node] | None = None
) -> tuple[Node, ...]:
    """Return the gradients of outputs with respect to nodes that they depend on.

    Args:
        outputs: the nodes to differentiate.
        wrt: the nodes by which; the gradient of one on which nothing depends is zero.
        grads: gradients of the outputs; ones unless given.

    Raises:
        GradientError: for integers or bools, and for an operation without a derivative.
    """
    for node in (*outputs, *wrt):
        _check_float(node)
    order = topological(outputs)
    needed = _dependents(order, wrt)
    contributions: dict[Node, list[Node]] = {}
    seeds = [ops.like(output, 1) for output in outputs] if grads is None else list(grads)
    for output, seed in zip(outputs, seeds, strict=True):
        _check_gradient(output, seed, "the gradient given")
        contributions.setdefault(output, []).append(seed)
    found: dict[Node, Node] = {}
    for node in reversed(order):
        if node not in needed or node not in contributions:
            continue
        with in_scope(f"{node.scope}.grad" if node.scope else "grad"):
            found[node] = reduce(ops.add, contributions.pop(node))
            for operand, gradient in _operand_gradients(node, found[node], needed, order):
                contributions.setdefault(operand, []).append(gradient)
    return tuple(found[node] if node in found else ops.like(node, 0) for node in wrt)


def _check_float(node: Node) -> None:
    if not node.dtype.is_float:
        raise GradientError(
            f"the gradient of {node.op}: {node.type} does not exist",
            hint="only floats have gradients; cast the input first: x.cast(tn.f32)",
        )


def _dependents(order: Sequence[Node], wrt: Sequence[Node]) -> set[Node]:
    """Return the nodes through which a gradient reaches one of `wrt`."""
    needed = set(wrt)
    for node in order:
        if node.dtype.is_float and any(operand in needed for operand in node.inputs):
            needed.add(node)
    return needed


def _operand_gradients(
    node: Node, gradient: Node, needed: set[Node], order: Sequence[Node]
) -> Iterator[tuple[Node, Node]]:
    if not any(operand in needed for operand in node.inputs):
        return
    vjp = node.definition.vjp
    if vjp is None:
        raise GradientError(
            f"{node.op} has no derivative, on the path {_path(node, needed, order)}",
            hint="use stop_gradient() where its gradient is not wanted",
        )
    for operand, found in zip(node.inputs, vjp(node, gradient), strict=True):
        if found is not None and operand in needed:
            _check_gradient(operand, found, f"the vjp of {node.op}")
            yield operand, found


def _check_gradient(node: Node, gradient: Node, what: str) -> None:
    if gradient.dtype != node.dtype or not shapes.same(gradient.shape, node.shape):
        raise GraphError(f"{what} is {gradient.type}, the value has {node.type}")


def _path(node: Node, needed: set[Node], order: Sequence[Node]) -> str:
    """Print the chain of operations from an output through `node` down to the input."""
    above = [node]
    for user in order[order.index(node) + 1 :]:
        if above[-1] in user.inputs:
            above.append(user)
    below = node
    chain = [_described(step) for step in reversed(above)]
    while operands := [operand for operand in below.inputs if operand in needed]:
        below = operands[0]
        chain.append(_described(below))
    return " <- ".join(chain)


def _described(node: Node) -> str:
    name = f"{node.attrs['name']!r}" if node.op == "input" else node.op
    return f"{node.scope}:{name}" if node.scope else name


# --- functions ----------------------------------------------------------------------------------


def grad(function: Function, argnums: int | Sequence[int] = 0) -> Function:
    """Return a function that gives the gradient of a scalar function.

    Args:
        function: takes tensors, or trees of them; returns a scalar.
        argnums: which arguments to differentiate by; several give a tuple of gradients.
    """
    both = value_and_grad(function, argnums)

    @wraps(function)
    def gradient(*arguments: Tree) -> Tree:
        return both(*arguments)[1]

    return gradient


def value_and_grad(
    function: Function, argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Function:
    """Return a function that gives the value and the gradient of a scalar function.

    Args:
        function: takes tensors, or trees of them; returns a scalar.
        argnums: which arguments to differentiate by; several give a tuple of gradients.
        has_aux: whether `function` returns (scalar, anything else); that is then the value.
    """

    @wraps(function)
    def evaluated(*arguments: Tree) -> tuple[Any, Tree]:
        places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        fresh = list(arguments)
        for place in places:
            fresh[place] = mapped(_alias, arguments[place])
        value = function(*fresh)
        output = value[0] if has_aux else value
        _check_scalar(output)
        leaves = [leaf for place in places for leaf in leaves_of(fresh[place])]
        found = iter(gradients(output, leaves))
        trees = tuple(mapped(lambda leaf: next(found), fresh[place]) for place in places)
        return value, trees[0] if isinstance(argnums, int) else trees

    return evaluated


def vjp(function: Function, *primals: Tree) -> tuple[Any, Function]:
    """Return the value of a function, and its pullback: gradients of the value → of `primals`.

    Args:
        function: takes and returns tensors, or trees of them.
        primals: its arguments.

    The pullback takes gradients in the structure of the value and gives them in that of `primals`;
    a `GradientError` says where their number differs.
    """
    fresh = mapped(_alias, primals)
    value = function(*fresh)
    outputs, leaves = leaves_of(value), leaves_of(fresh)

    def pullback(cotangents: Tree) -> Tree:
        seeds = leaves_of(cotangents)
        if len(seeds) != len(outputs):
            raise GradientError(
                f"the pullback got {len(seeds)} gradients for {len(outputs)} values",
                hint="pass gradients in the structure of the value",
            )
        found = iter(gradients(outputs, leaves, seeds))
        return mapped(lambda leaf: next(found), fresh)

    return value, pullback


def gradients(
    outputs: AnyTensor | Sequence[AnyTensor],
    wrt: Sequence[AnyTensor],
    grads: Sequence[AnyTensor] | None = None,
) -> tuple[AnyTensor, ...]:
    """Return the gradients of tensors with respect to tensors that they were made from.

    Args:
        outputs: what to differentiate.
        wrt: by what; a tensor on which no output depends has the gradient zero.
        grads: gradients of the outputs; ones unless given.

    Raises:
        GradientError: for integers or bools, and for an operation without a derivative.
    """
    values = [outputs] if isinstance(outputs, AnyTensor) else list(outputs)
    nodes = backward(
        [value.node for value in values],
        [tensor.node for tensor in wrt],
        None if grads is None else [seed.node for seed in grads],
    )
    others = [*values, *(grads or ())]
    return tuple(t._result(node, *others) for t, node in zip(wrt, nodes, strict=True))


def _check_scalar(output: Any) -> None:
    if not isinstance(output, AnyTensor):
        raise GradientError(
            f"the function returned {type(output).__name__}", hint="return a scalar tensor"
        )
    if output.shape != ():
        raise GradientError(
            f"the function returned {output.type}, no scalar",
            hint="reduce it: .sum() or .mean(); or use tn.vjp",
        )


def _alias(tensor: AnyTensor | float) -> AnyTensor:
    """Return the same value as a node of its own, so that each argument has its own gradient."""
    value = tensor if isinstance(tensor, AnyTensor) else Tensor(tensor)
    _check_float(value.node)
    return value._wrap(ops.reshape(value.node, value.shape))
