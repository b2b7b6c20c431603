"""Trees of tensors: through traces, compiled programs and gradients."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core.tree import flatten, leaves, mapped

DEVICES = pytest.mark.parametrize("device", ["cpu", "ndarray", "null"])
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Batch:
    images: Any
    extra: Any = None


def trees(depth: int = 3) -> st.SearchStrategy[Any]:
    containers = st.deferred(
        lambda: st.one_of(
            st.lists(trees(depth - 1), max_size=3),
            st.lists(trees(depth - 1), max_size=3).map(tuple),
            st.dictionaries(st.text("abc", min_size=1, max_size=2), trees(depth - 1), max_size=3),
            st.builds(Pair, trees(depth - 1), trees(depth - 1)),
            st.builds(Batch, trees(depth - 1), trees(depth - 1)),
        )
    )
    leaf = st.one_of(st.integers(), st.none())
    return leaf if depth == 0 else st.one_of(leaf, containers)


@given(trees())
@settings(max_examples=60, deadline=None)
def test_a_tree_is_its_leaves_and_its_structure(tree: Any) -> None:
    found, structure = flatten(tree)
    assert structure.tree(iter(found)) == tree
    assert structure.leaves(tree) == found
    assert len(list(structure.paths())) == len(found)
    assert leaves(mapped(lambda x: x + 1, tree)) == [x + 1 for x in found]


def sym(*shape: Any) -> tn.SymTensor:
    return tn.SymTensor.input("f32", shape)


@DEVICES
def test_a_program_returns_what_the_function_returned(device: str) -> None:
    def function(x: Any) -> Any:
        return {"twice": x + x, "more": [Pair(x.sum(), (x,)), Batch(-x)], "none": None}

    program = tn.compile(tn.trace(function, sym("n", 3)), device)
    found = program(VALUE)
    assert list(found) == ["twice", "more", "none"]
    pair, batch = found["more"]
    assert isinstance(pair, Pair)
    assert isinstance(batch, Batch)
    assert batch.extra is found["none"] is None
    (same,) = pair.second
    if device != "null":
        np.testing.assert_array_equal(found["twice"], 2 * VALUE)
        np.testing.assert_array_equal(pair.first, 15)
        np.testing.assert_array_equal(same, VALUE)
        np.testing.assert_array_equal(batch.images, -VALUE)
    assert same.shape == batch.images.shape == (2, 3)


@pytest.mark.parametrize("device", ["cpu", "ndarray"])
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_one_stays_a_list_of_one(kind: type, device: str) -> None:
    program = tn.compile(tn.trace(lambda x: kind([x + 1]), sym(2, 3)), device)
    found = program(VALUE)
    assert type(found) is kind
    (only,) = found
    np.testing.assert_array_equal(only, VALUE + 1)
    empty = tn.compile(tn.trace(lambda x: kind([]), sym(2, 3)), device)
    assert empty(VALUE) == kind([])


@DEVICES
def test_a_program_takes_what_the_function_took(device: str) -> None:
    def function(batch: Any, weights: Any, scale: Any) -> Any:
        return batch.images @ weights["w"] + weights["b"][0] * scale

    weights = {"w": sym(3, 4), "b": [sym(4)]}
    graph = tn.trace(function, Batch(sym("n", 3)), weights, sym())
    names = [node.attrs["name"] for node in graph.inputs]
    assert names == ["batch.images", "weights.w", "weights.b.0", "scale"]
    program = tn.compile(graph, device)
    w, b = np.ones((3, 4), np.float32), np.arange(4, dtype=np.float32)
    scale = np.float32(2)
    found = program(Batch(VALUE), {"b": [b], "w": w}, scale)  # in another order of keys
    assert found.shape == (2, 4)
    if device != "null":
        np.testing.assert_array_equal(found, VALUE @ w + b * scale)
    for wrong in ({"w": w}, {"w": w, "b": b}, {"w": w, "b": [b, b]}, [w, [b]]):
        with pytest.raises(tn.ShapeError, match=r"expected .* got .*\nhint: pass values"):
            program(Batch(VALUE), wrong, scale)
    with pytest.raises(tn.ShapeError, match="expected"):
        program(Batch(VALUE), {"w": w, "b": [b]})


@pytest.mark.parametrize("device", ["cpu", "ndarray"])
def test_values_and_gradients_of_several_arguments(device: str) -> None:
    """Gradients of sum (x @ w)^2 / 2 are (x @ w) @ wᵀ and xᵀ @ (x @ w)."""

    def loss(x: Any, parameters: Any) -> Any:
        return (x @ parameters["w"]).square().sum() / 2

    both = tn.value_and_grad(loss, argnums=(0, 1))
    program = tn.compile(tn.trace(both, sym("n", 3), {"w": sym(3, 2)}), device)
    w = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    value, (dx, parameters) = program(VALUE, {"w": w})
    product = VALUE.astype(np.float64) @ w
    np.testing.assert_allclose(value, (product**2).sum() / 2, rtol=1e-5)
    np.testing.assert_allclose(dx, product @ w.T, rtol=1e-5)
    np.testing.assert_allclose(parameters["w"], VALUE.T @ product, rtol=1e-5)
    eager_value, (eager_dx, _) = both(tn.Tensor(VALUE), {"w": tn.Tensor(w)})
    np.testing.assert_allclose(eager_value.numpy(), value, rtol=1e-6)
    np.testing.assert_allclose(eager_dx.numpy(), dx, rtol=1e-6)


def test_gradients_in_dataclasses_and_named_tuples() -> None:
    def loss(batch: Any) -> Any:
        return (batch.images.first * batch.images.second).sum()

    gradient = tn.grad(loss)(Batch(Pair(tn.Tensor([1.0, 2.0]), tn.Tensor([3.0, 4.0]))))
    assert isinstance(gradient, Batch)
    assert isinstance(gradient.images, Pair)
    assert gradient.images.first.tolist() == [3.0, 4.0]
    assert gradient.images.second.tolist() == [1.0, 2.0]


def test_buffers_stay_flat() -> None:
    graph = tn.trace(lambda pair: [pair[0] + pair[1], {"x": pair[0]}], (sym(3), sym(3)))
    one, two = (np.full(3, v, np.float32) for v in (1, 2))
    for device in ("cpu", "ndarray"):
        program = tn.compile(graph, device)
        buffers = [tn.Tensor(array).storage.place(tn.device(device)) for array in (one, two)]
        total, first = program.run(*buffers)
        assert total.numpy().tolist() == [3.0] * 3
        assert first.numpy().tolist() == [1.0] * 3


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(tn.TraceError, match=r"returned float\nhint: return a tensor, or tuples"):
        tn.trace(lambda x: {"x": x, "y": 1.0}, sym(3))
    with pytest.raises(tn.TraceError, match=r"argument 1 of trace is 3(.|\n)*SymTensor.input"):
        tn.trace(lambda x, y: x, sym(3), [sym(2), 3])


def test_a_changed_graph_keeps_its_structure() -> None:
    graph = tn.trace(lambda pair: {"sum": pair[0] + pair[1]}, (sym(3), sym(3)))
    (node,) = graph.outputs
    changed = graph.replace({node: tn.ops.mul(*node.inputs)})
    found = tn.compile(changed, "ndarray")((VALUE[0], VALUE[1]))
    np.testing.assert_array_equal(found["sum"], VALUE[0] * VALUE[1])
