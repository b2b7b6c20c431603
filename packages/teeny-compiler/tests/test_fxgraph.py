"""The canonical graph: shared, live, and checked."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import teeny_compiler
import teeny_core as tn
from teeny_compiler import FXGraph
from teeny_core import Attrs, Graph, TensorType, f32, ops


def example() -> FXGraph:
    x, p = ops.input("x", (2, 3), f32), ops.input("p", (3,), f32)
    wide = ops.broadcast_to(p, (2, 3))
    y = ops.add(ops.stop_gradient(ops.mul(x, wide)), ops.mul(x, ops.broadcast_to(p, (2, 3))))
    ops.exp(y)  # nothing needs it
    z = ops.reshape(ops.permute(y, (0, 1)), (2, 3))
    return FXGraph.from_graph(Graph("example", (x,), (p,), (z,), ((p, ops.neg(p)),)))


def test_equal_values_are_one_node_and_dead_ones_are_gone() -> None:
    graph = example()
    graph.verify()
    found = [node.op for node in graph.nodes]
    assert found == ["input", "input", "broadcast_to", "mul", "add", "neg"]
    assert graph.users[3] == (4,)


def test_it_prints() -> None:
    assert str(example()) == "\n".join((
        "fxgraph example(%x: f32[2, 3]) {",
        "  parameter %p: f32[3]",
        "  %2 = broadcast_to(%p) {shape = (2, 3)} : f32[2, 3]",
        "  %3 = mul(%x, %2) : f32[2, 3]",
        "  %4 = add(%3, %3) : f32[2, 3]",
        "  %5 = neg(%p) : f32[3]",
        "  update %p <- %5",
        "  return %4",
        "}",
    ))  # fmt: skip


def test_unused_inputs_stay() -> None:
    x, y = ops.input("x", (2,), f32), ops.input("y", (2,), f32)
    graph = FXGraph.from_graph(Graph("unused", (x, y), (), (ops.neg(y),)))
    assert [graph.nodes[i].attrs["name"] for i in graph.inputs] == ["x", "y"]


def test_constants_are_rounded_to_their_type_and_keep_their_sign() -> None:
    zeros = [ops.constant(value, f32) for value in (0.0, -0.0, 0.1, 0.1000000001)]
    graph = FXGraph.from_graph(Graph("zeros", (), (), tuple(zeros)))
    assert len(set(graph.outputs)) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"inputs": (4, 3)}, "reads a later node"),
        ({"type": TensorType((3, 2), f32)}, "its op gives"),
        ({"attrs": Attrs(axis=1)}, "takes the attributes"),
        ({"op": "nothing"}, "no operation is named"),
    ],
)
def test_the_verifier_names_the_node(change: dict[str, object], problem: str) -> None:
    graph = example()
    nodes = list(graph.nodes)
    nodes[3] = replace(nodes[3], **change)  # type: ignore[arg-type]
    with pytest.raises(tn.CompileError, match=rf"%3.*{problem}"):
        replace(graph, nodes=tuple(nodes)).verify()


def test_updates_fit_their_parameters() -> None:
    graph = example()
    with pytest.raises(tn.CompileError, match="is updated by"):
        replace(graph, updates=((graph.parameters[0], graph.outputs[0]),)).verify()


def test_the_public_names_are_loaded_on_use() -> None:
    assert "make_schedule" in dir(teeny_compiler)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        teeny_compiler.nothing  # noqa: B018
    code = "import sys, teeny_compiler; print('teeny_compiler.fxgraph' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
