"""A chosen e-node for each class → FXGraph, with every type inferred anew."""

from __future__ import annotations

from teeny_core import CompileError, f64
from teeny_core import shape as shapes

from teeny_compiler.fxgraph import FxBuilder, FXGraph
from teeny_compiler.optimise.encode import CAUSAL, DTYPES, SAFE, Facts, value_of
from teeny_compiler.optimise.engine import Enode, Snapshot
from teeny_compiler.optimise.extract import Choice, Problem, ordered


def rebuild(
    graph: FXGraph, facts: Facts, snapshot: Snapshot, problem: Problem, choice: Choice
) -> FXGraph:
    """Return the chosen graph, with the inputs, parameters and names of the one before.

    Raises:
        CompileError: when a value has another type than before, which a wrong rule would cause.
    """
    builder = FxBuilder(graph.name)
    leaves = {
        number: builder.leaf(graph.nodes[number].attrs["name"], graph.nodes[number].type)
        for number in (*graph.inputs, *graph.parameters)
    }
    scopes: dict[int, str] = {}
    for number, cls in sorted(snapshot.classes.items()):
        if number < len(graph.nodes):
            scopes.setdefault(cls, graph.nodes[number].scope)
    new: dict[int, list[int]] = {}
    for cls in ordered(problem, choice):
        node = snapshot.nodes[choice.picks[cls]]
        new[cls] = _add(builder, facts, leaves, node, new, scopes.get(cls, ""))
        if node.op not in ("Cons", "Nil"):
            _check(builder, facts, snapshot, cls, new[cls][0])

    def node_of(number: int) -> int:
        return new[snapshot.classes[number]][0]

    return builder.finish(
        [leaves[i] for i in graph.inputs],
        [leaves[i] for i in graph.parameters],
        [node_of(i) for i in graph.outputs],
        [(leaves[parameter], node_of(value)) for parameter, value in graph.updates],
    )


def _add(
    builder: FxBuilder,
    facts: Facts,
    leaves: dict[int, int],
    node: Enode,
    new: dict[int, list[int]],
    scope: str,
) -> list[int]:
    """Add an e-node; a list gives the nodes of its items."""
    inputs = [i for cls in node.inputs for i in new[cls]]
    attrs: tuple[object, ...] = node.attrs
    match node.op, attrs:
        case "In", (int(number),):
            return [leaves[number]]
        case "Cons" | "Nil", _:
            return inputs
        case "K", (int(number), int(bits)):
            dtype = DTYPES[number]
            value = value_of(bits, dtype)
            return [builder.add("constant", [], {"value": value, "dtype": dtype}, scope)]
        case "Un" | "Bin", (str(name),):
            return [builder.add(name, inputs, {}, scope)]
        case "Sel", _:
            return [builder.add("where", inputs, {}, scope)]
        case "Cast", (int(number),):
            return [builder.add("cast", inputs, {"dtype": DTYPES[number]}, scope)]
        case "Tr", (tuple(axes),):
            return [builder.add("permute", inputs, {"axes": axes}, scope)]
        case "Rs" | "Bc", (tuple(signature),):
            name = "reshape" if node.op == "Rs" else "broadcast_to"
            shape = facts.real_type(signature).shape
            return [builder.add(name, inputs, {"shape": shape}, scope)]
        case "Mm", (int(ta), int(tb)):
            flags = {"transpose_a": bool(ta), "transpose_b": bool(tb)}
            return [builder.add("matmul", inputs, flags, scope)]
        case "Att", (int(flags), int(scale)):
            causal, safe = bool(flags & CAUSAL), bool(flags & SAFE)
            how = {"causal": causal, "safe": safe, "scale": value_of(scale, f64)}
            return [builder.add("attention", inputs, how, scope)]
        case "Conv" | "Op0" | "Op1" | "Op2", (int(key),):
            name, found = facts.key(key)
            return [builder.add(name, inputs, found, scope)]
    raise CompileError(f"the optimiser knows no term {node.op}{attrs}")


def _check(builder: FxBuilder, facts: Facts, snapshot: Snapshot, cls: int, node: int) -> None:
    if cls not in snapshot.signatures:
        return
    wanted, found = facts.real_type(snapshot.signatures[cls]), builder.type(node)
    if wanted.dtype != found.dtype or not shapes.same(wanted.shape, found.shape):
        raise CompileError(
            f"the optimiser turned a {wanted} into a {found} ({builder.nodes[node].op})"
        )
