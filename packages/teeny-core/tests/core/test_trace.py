"""Tracing, graphs, and programs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_core import ops
from teeny_core.context import is_training, training

N = tn.SymTensor.input("f32", ("n", 4), "x")


class Affine:
    """Something with named tensors, and a counter that it updates."""

    def __init__(self) -> None:
        self.w = tn.Tensor([[1.0, 2.0], [3.0, 4.0]])
        self.count = tn.Tensor(0.0)

    def named_tensors(self) -> list[tuple[str, tn.Tensor]]:
        return [("w", self.w), ("count", self.count)]

    def __call__(self, x: tn.AnyTensor) -> tn.AnyTensor:
        if is_training():
            self.count.assign(self.count + 1)
        return x @ self.w + self.count


def test_text_of_a_graph() -> None:
    def mlp(x: Any) -> Any:
        with tn.name_scope("head"):
            return (x * 2).relu()

    graph = tn.trace(mlp, N)
    graph.verify()
    assert str(graph) == (
        "graph mlp(%x: f32[n, 4]) -> (f32[n, 4]) {\n"
        "  %0 = constant() {dtype = f32, value = 2.0} : f32[]  # head\n"
        "  %1 = broadcast_to(%0) {shape = (n, 4)} : f32[n, 4]  # head\n"
        "  %2 = mul(%x, %1) : f32[n, 4]  # head\n"
        "  %3 = relu(%2) : f32[n, 4]  # head\n"
        "  return %3\n"
        "}"
    )


def test_one_graph_for_every_batch_size() -> None:
    program = tn.compile(tn.trace(lambda x: x.softmax(-1).mean(0), N))
    for count in (1, 3, 0):
        values = np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32)
        got = program(values)
        assert isinstance(got, np.ndarray)
        if count:
            shifted = np.exp(values - values.max(1, keepdims=True))
            expected = (shifted / shifted.sum(1, keepdims=True)).mean(0)
            np.testing.assert_allclose(got, expected, rtol=1e-5)
        else:
            assert np.isnan(got).all()


def test_names_of_inputs_come_from_the_function() -> None:
    def f(images: Any, labels: Any) -> Any:
        return images + labels, labels

    unnamed = tn.SymTensor.input("f32", (2,))
    graph = tn.trace(f, unnamed, unnamed)
    assert [node.attrs["name"] for node in graph.inputs] == ["images", "labels"]
    assert len(graph.outputs) == 2
    with pytest.raises(tn.TraceError, match="hint: return a tensor"):
        tn.trace(lambda x: 3, unnamed)
    with pytest.raises(tn.TraceError, match=r"argument 0 of trace is Tensor.* \[...\]\nhint: "):
        tn.trace(f, tn.ones((9, 9)))  # type: ignore[arg-type]


def test_a_layer_is_traced_before_it_is_compiled() -> None:
    with pytest.raises(tn.TraceError, match="takes a graph, not a Affine\nhint: trace it first"):
        tn.compile(Affine())  # type: ignore[arg-type]


def test_parameters_are_lifted_by_name_and_seen_at_once() -> None:
    layer = Affine()
    graph = tn.trace(layer, tn.SymTensor.input("f32", (None, 2)))
    graph.verify()
    assert [node.attrs["name"] for node in graph.parameters] == ["w", "count"]
    program = tn.compile(graph)
    x = np.eye(2, dtype=np.float32)
    np.testing.assert_array_equal(program(x), [[1, 2], [3, 4]])
    layer.w.assign(np.full((2, 2), 7, np.float32))
    np.testing.assert_array_equal(program(x), [[7, 7], [7, 7]])


def test_updates_are_written_in_place() -> None:
    layer = Affine()
    view = layer.count.numpy()
    graph = tn.trace(layer, tn.SymTensor.input("f32", (None, 2)), train=True)
    graph.verify()
    assert len(graph.updates) == 1
    assert "update %count <- " in str(graph)
    program = tn.compile(graph)
    x = np.zeros((1, 2), np.float32)
    np.testing.assert_array_equal(program(x), [[1, 1]])
    np.testing.assert_array_equal(program(x), [[2, 2]])
    assert (layer.count.item(), view.item()) == (2, 2)


def test_updates_in_sequence_within_a_trace() -> None:
    total = tn.Tensor(1.0)

    def twice(x: Any) -> Any:
        total.assign(total * 2)
        total.assign(total + x)
        return total * 10

    graph = tn.trace(twice, tn.SymTensor.input("f32", ()), parameters={"total": total})
    assert total.item() == 1.0
    program = tn.compile(graph)
    assert program(np.float32(5)) == 70
    assert total.item() == 7.0


def test_lazy_tensors_see_the_values_from_before_an_update() -> None:
    layer = Affine()
    before = layer.count * 10
    program = tn.compile(tn.trace(layer, tn.SymTensor.input("f32", (1, 2)), train=True))
    program(np.zeros((1, 2), np.float32))
    after = layer.count * 10
    assert (before.item(), after.item()) == (0, 10)
    assigned = layer.count + 1
    layer.count.assign(100.0)
    assert assigned.item() == 2


def test_captured_tensors_become_parameters() -> None:
    w, v = tn.ones(4), tn.Tensor(np.arange(4, dtype=np.float32))
    graph = tn.trace(lambda x: x * w + v + v, N)
    graph.verify()
    assert [node.attrs["name"] for node in graph.parameters] == ["captured.0"]
    (got,) = tn.evaluate(graph, [np.ones((1, 4), np.float32)], {"captured.0": v.numpy()})
    np.testing.assert_array_equal(got, [[1, 3, 5, 7]])


def test_values_are_refused_while_tracing() -> None:
    for ask in (bool, float, int, np.asarray, lambda x: x.numpy(), lambda x: x.item(), list):
        with pytest.raises(tn.TeenyError, match="hint: "):
            tn.trace(lambda x, ask=ask: ask(x.sum() if ask is not list else x) and x, N)
    kept: list[tn.AnyTensor] = []
    w = tn.Tensor(1.0)

    def leak(x: Any) -> Any:
        w.assign(x.sum())
        kept.append(w * 2)
        return x

    tn.trace(leak, N)
    assert w.item() == 1.0
    with pytest.raises(tn.TraceError, match="hint: values are known only"):
        kept[0].numpy()


def test_inputs_of_another_trace_are_refused() -> None:
    leaked: list[Any] = []
    tn.trace(lambda x: leaked.append(x) or x, N)  # type: ignore[func-returns-value]
    with pytest.raises(tn.TraceError, match="'x', an input of another trace"):
        tn.trace(lambda x: x + leaked[0], tn.SymTensor.input("f32", ("n", 4), "y"))


def test_training_mode() -> None:
    assert not is_training()
    with training():
        assert is_training()
        with training(False):
            assert not is_training()
    seen = []
    tn.trace(lambda x: seen.append(is_training()) or x, N, train=True)  # type: ignore[func-returns-value]
    assert seen == [True]


def test_arguments_are_checked() -> None:
    program = tn.compile(tn.trace(lambda x, y: x + y, N, N))
    good = np.zeros((2, 4), np.float32)
    for arrays, error, message in (
        ((good,), tn.ShapeError, r"takes 2 inputs, got 1\nhint: pass, in order: x, x_1"),
        ((good, good.astype("f8")), tn.DTypeError, r"'x_1' is f32\[n, 4\], got f64\nhint: convert"),
        ((good, good[:1]), tn.ShapeError, r"with n = 2, got \[1, 4\]\nhint: the inputs are x: f32"),
        ((good, good[:, 1:]), tn.ShapeError, "expected shape"),
        ((good[0], good), tn.ShapeError, "expected rank 2"),
    ):
        with pytest.raises(error, match=message):
            program(*arrays)


def test_parameters_are_checked() -> None:
    layer = Affine()
    graph = tn.trace(layer, tn.SymTensor.input("f32", (None, 2)))
    with pytest.raises(tn.GraphError, match=r"no tensor is bound to the parameter 'w'"):
        tn.device("null").compile(graph, {})
    with pytest.raises(tn.GraphError, match=r"'w' is f32\[2, 2\], it is bound to f32\[3\]"):
        tn.compile(graph, parameters={"w": tn.zeros(3)})  # type: ignore[dict-item]


# --- graphs -------------------------------------------------------------------------------------


def test_replace() -> None:
    graph = tn.trace(lambda x: (x + 1).exp().sum(), N)
    exp = next(node for node in graph.nodes if node.op == "exp")
    new = graph.replace({exp: ops.relu(exp)})
    new.verify()
    assert [node.op for node in new.nodes][-3:] == ["exp", "relu", "sum"]
    assert "relu" not in str(graph)
    with pytest.raises(tn.GraphError, match="hint: a replacement has the type"):
        graph.replace({exp: ops.sum(exp, (0,))})


def test_replaced_parameters_leave_the_signature() -> None:
    layer = Affine()
    graph = tn.trace(layer, tn.SymTensor.input("f32", (None, 2)))
    w = graph.parameters[0]
    frozen = graph.replace({w: ops.array(layer.w.numpy())})
    frozen.verify()
    assert [node.attrs["name"] for node in frozen.parameters] == ["count"]


def test_verify_finds_broken_graphs() -> None:
    x = ops.input("x", (2,), tn.f32)
    y = ops.exp(x)
    wrong = tn.Node("exp", (x,), tn.Attrs(), tn.TensorType((3,), tn.f32))
    n = ops.full((tn.symbol("n"),), 0, tn.f32)
    held = tn.ones(2).realize().node  # type: ignore[attr-defined]
    for graph, message in (
        (tn.Graph("g", (), (), (y,)), "'x' is used, but no input or parameter"),
        (tn.Graph("g", (x,), (x,), (y,)), "two inputs or parameters are named 'x'"),
        (tn.Graph("g", (y,), (), (y,)), "is no `input` leaf"),
        (tn.Graph("g", (x,), (), (wrong,)), r"says f32\[3\], its operation gives f32\[2\]"),
        (tn.Graph("g", (x,), (), (y,), ((x, y),)), "no parameter"),
        (tn.Graph("g", (), (x,), (y,), ((x, ops.sum(x, (0,))),)), "the update of 'x'"),
        (tn.Graph("g", (), (), (n,)), "no input or parameter has the extent 'n'"),
        (tn.Graph("g", (), (), (held,)), "hint: make the graph by tn.trace"),
    ):
        with pytest.raises(tn.GraphError, match=message):
            graph.verify()


def test_long_chains_need_no_recursion() -> None:
    node = first = ops.input("x", (), tn.f32)
    for _ in range(20_000):
        node = ops.exp(node)
    graph = tn.Graph("g", (first,), (), (node,))
    assert len(graph.nodes) == 20_001
    assert len(graph.structural_hash()) == 64
    assert graph.replace({first: ops.input("y", (), tn.f32)}).inputs[0].attrs["name"] == "y"


def digest(scale: float = 2.0, name: str = "x", dim: str = "n") -> str:
    x = tn.SymTensor.input("f32", (dim, 4), name)
    return tn.trace(lambda x: x * scale + x.shape[0], x).structural_hash()


def test_structural_hash_is_of_the_structure() -> None:
    assert digest() == digest(name="other") == digest(dim="batch")
    assert digest() != digest(scale=3.0)
    assert digest(scale=0.0) != digest(scale=-0.0)
    assert digest(scale=float("nan")) == digest(scale=float("nan"))
    by_array = [
        tn.Graph("g", (), (), (ops.array(np.array(values)),)).structural_hash()
        for values in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0])
    ]
    assert by_array[0] == by_array[1] != by_array[2]


def test_structural_hash_is_the_same_in_every_process() -> None:
    code = (
        "import teeny_core as tn\n"
        "x = tn.SymTensor.input('f32', ('n', 4), 'x')\n"
        "print(tn.trace(lambda x: x * 2.0 + x.shape[0], x).structural_hash())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "5"},
    )
    assert out.stdout.strip() == digest()


def test_attributes_are_exact_and_immutable() -> None:
    assert tn.Attrs(a=1) != tn.Attrs(a=1.0)
    assert tn.Attrs(a=1) != tn.Attrs(a=True)
    assert tn.Attrs(a=0.0) != tn.Attrs(a=-0.0)
    assert tn.Attrs(a=float("nan")) == tn.Attrs(a=float("nan"))
    assert tn.Attrs(b=(1, 2), a="x") == tn.Attrs({"a": "x", "b": (1, 2)})
    assert list(tn.Attrs(b=1, a=2)) == ["a", "b"]
    assert len({tn.Attrs(a=1), tn.Attrs(a=1), tn.Attrs(a=2)}) == 2
    assert tn.substitute(tn.Attrs(shape=(tn.symbol("n"), 3)), {"n": 5}) == tn.Attrs(shape=(5, 3))


def test_operations_are_registered_once() -> None:
    with pytest.raises(tn.OpError, match="already registered"):
        ops.register(ops.get("add"))
    with pytest.raises(tn.OpError, match="no operation is named 'addd'"):
        ops.get("addd")
