"""Differentiation of functions: structure, errors, sharing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import ops

torch = pytest.importorskip("torch")


def test_grad_at_a_prompt() -> None:
    assert tn.grad(lambda x: (x**3).sum())(tn.Tensor([1.0, 2.0])).tolist() == [3.0, 12.0]
    assert tn.grad(lambda x: x * x)(3.0).item() == 6.0


def test_grad_of_grad_of_grad() -> None:
    third = tn.grad(tn.grad(tn.grad(lambda x: x**4)))
    assert third(tn.Tensor(2.0)).item() == 48.0


def test_value_and_grad_of_several_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * y).sum()

    value, (dx, dy) = tn.value_and_grad(f, (0, 1))(tn.Tensor([1.0, 2.0]), tn.Tensor([3.0, 4.0]))
    assert value.item() == 11.0
    assert dx.tolist() == [3.0, 4.0]
    assert dy.tolist() == [1.0, 2.0]
    assert tn.grad(f, 1)(tn.Tensor([1.0]), tn.Tensor([3.0])).tolist() == [1.0]


def test_same_tensor_twice_has_two_gradients() -> None:
    x = tn.Tensor([3.0])
    dx, dy = tn.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x)
    assert (dx.tolist(), dy.tolist()) == ([18.0], [9.0])


def test_trees_of_parameters() -> None:
    parameters = {"w": [tn.Tensor([2.0]), tn.Tensor([5.0])], "b": (tn.Tensor(1.0),)}

    def f(p: Any) -> Any:
        return (p["w"][0] * p["w"][1] + p["b"][0] ** 2).sum()

    gradient = tn.grad(f)(parameters)
    assert [g.tolist() for g in gradient["w"]] == [[5.0], [2.0]]
    assert isinstance(gradient["b"], tuple)
    assert gradient["b"][0].item() == 2.0


def test_more_results_beside_the_value() -> None:
    (value, aux), gradient = tn.value_and_grad(lambda x: (x * x, x + 1), has_aux=True)(2.0)
    assert (value.item(), aux.item(), gradient.item()) == (4.0, 3.0, 4.0)


def test_pullbacks_of_several_values() -> None:
    value, pullback = tn.vjp(lambda x, y: (x @ y, x.sum()), tn.ones(2, 3), tn.ones(3, 2))
    assert value[0].shape == (2, 2)
    dx, dy = pullback((tn.ones(2, 2), tn.Tensor(10.0)))
    assert dx.tolist() == [[12.0] * 3] * 2
    assert dy.tolist() == [[2.0] * 2] * 3
    with pytest.raises(tn.GradientError, match="1 gradients for 2 values"):
        pullback((tn.ones(2, 2),))


def test_captured_tensors_are_constants() -> None:
    w = tn.Tensor([3.0])
    assert tn.grad(lambda x: (x * w * w).sum())(tn.Tensor([1.0])).tolist() == [9.0]


def test_gradients_of_what_is_not_used_are_zero() -> None:
    _dx, dy = tn.grad(lambda x, y: x.sum(), (0, 1))(tn.ones(2), tn.ones(3))
    assert dy.tolist() == [0.0] * 3


def test_gradients_by_an_inner_tensor() -> None:
    x = tn.Tensor([1.0, 2.0])
    hidden = x.T * 3
    loss = (hidden**2).sum() + x.sum()
    by_hidden, by_x = tn.gradients(loss, [hidden, x])
    assert by_hidden.tolist() == [6.0, 12.0]
    assert by_x.tolist() == [19.0, 37.0]


def test_gradient_flows_around_integers() -> None:
    def f(x: Any) -> Any:
        best = x.argmax(0)
        return x[best.unsqueeze(0)].sum() + (x > 0).cast("f32").sum()

    assert tn.grad(f)(tn.Tensor([1.0, 5.0, 2.0])).tolist() == [0.0, 1.0, 0.0]


def test_stop_gradient() -> None:
    assert tn.grad(lambda x: x * x.stop_gradient())(tn.Tensor(3.0)).item() == 3.0
    assert tn.grad(lambda x: (x.detach() * 2).sum())(tn.ones(2)).tolist() == [0.0, 0.0]


def test_integers_are_refused() -> None:
    for x in (tn.arange(3), tn.Tensor([True])):
        with pytest.raises(tn.GradientError, match="hint: only floats have gradients"):
            tn.grad(lambda x: x.sum())(x)
    with pytest.raises(tn.GradientError, match="does not exist"):
        tn.grad(lambda x: x.cast("i32").sum())(tn.ones(3))


def test_scalars_are_asked_for() -> None:
    with pytest.raises(tn.GradientError, match=r"no scalar\nhint: reduce it: .sum\(\)"):
        tn.grad(lambda x: x * 2)(tn.ones(3))
    with pytest.raises(tn.GradientError, match="returned float"):
        tn.grad(lambda x: 1.0)(tn.ones(3))


def test_operations_without_derivative_are_named_with_their_path() -> None:
    def f(x: Any) -> Any:
        with tn.name_scope("encoder"):
            hidden = (x * 2).bitcast("i32").bitcast("f32")
        return hidden.exp().sum()

    def g(x: Any) -> Any:
        with tn.name_scope("encoder"):
            hidden = (x * 2).bitcast("f32")
        return hidden.exp().sum()

    assert tn.grad(f)(tn.ones(2)).tolist() == [0.0, 0.0]  # integers stop gradients
    with pytest.raises(tn.GradientError) as caught:
        tn.grad(g)(tn.ones(2))
    text = str(caught.value)
    assert text.startswith("bitcast has no derivative, on the path sum <- exp <- encoder:bitcast")
    assert "encoder:mul" in text
    assert text.endswith("hint: use stop_gradient() where its gradient is not wanted")


def max_pool_hessian(x: Any, v: Any, pool: Any, grad: Any) -> Any:
    """Return the gradient of v·∇(sum of pool(x)³): products of v with second derivatives."""
    first = grad(lambda x: (pool(x) ** 3).sum())
    return grad(lambda x: (first(x) * v).sum())(x)


@pytest.mark.parametrize("device", ["cpu", "ndarray"])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "shape"),
    [
        (2, 2, 0, (2, 3, 4, 6)),
        (3, 2, 1, (1, 2, 7, 6)),  # overlapping windows, padding
        ((3, 1), (1, 2), (1, 0), (2, 1, 5, 4)),
        (2, 3, 1, (1, 1, 8, 8)),
    ],
)
def test_second_derivative_of_max_pooling(
    device: str, kernel: Any, stride: Any, padding: Any, shape: tuple[int, ...]
) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    x = rng.integers(-3, 3, shape).astype(np.float32)  # ties: the first of equal ones counts
    v = rng.standard_normal(shape).astype(np.float32)
    given = torch.from_numpy(x).double().requires_grad_()
    pooled = torch.nn.functional.max_pool2d(given, kernel, stride, padding)
    (first,) = torch.autograd.grad((pooled**3).sum(), given, create_graph=True)
    (wanted,) = torch.autograd.grad((first * torch.from_numpy(v)).sum(), given)

    def second(x: Any, v: Any) -> Any:
        return max_pool_hessian(x, v, lambda x: x.max_pool2d(kernel, stride, padding), tn.grad)

    types = [tn.SymTensor.input("f32", ("n", *shape[1:])) for _ in range(2)]
    found = tn.compile(tn.trace(second, *types), device)(x, v)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_third_derivative_of_max_pooling() -> None:
    """Of the sum of cubes: 6 where the maxima are, for each of the directions 1."""
    first = tn.grad(lambda x: (x.max_pool2d(2) ** 3).sum())
    second = tn.grad(lambda x: first(x).sum())
    x = tn.arange(16).reshape(1, 1, 4, 4).cast("f32")
    wanted = np.zeros((4, 4), np.float32)
    wanted[1::2, 1::2] = 6
    np.testing.assert_array_equal(tn.grad(lambda x: second(x).sum())(x).numpy()[0, 0], wanted)


def test_shared_values_are_differentiated_once() -> None:
    """The number of nodes grows with the length of a chain, not with the number of its paths."""
    x = ops.input("x", (2,), tn.f32)
    y = x
    for _ in range(40):
        y = ops.mul(y, y)
    (gradient,) = tn.backward([y], [x])
    assert len(tn.Graph("g", (x,), (), (gradient,)).nodes) < 300


def test_nodes_of_the_backward_pass_carry_the_scope() -> None:
    x = ops.input("x", (2,), tn.f32)
    with tn.name_scope("layer"):
        y = ops.exp(x)
    (gradient,) = tn.backward([y], [x])
    assert gradient.scope == "layer.grad"


def test_seeds_have_the_type_of_the_output() -> None:
    x = ops.input("x", (2,), tn.f32)
    with pytest.raises(tn.GraphError, match="the gradient given"):
        tn.backward([ops.exp(x)], [x], [ops.input("g", (3,), tn.f32)])


BINARY = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b.T,
    "div": lambda a, b: a / (b * b + 1),
    "where": lambda a, b: (
        (a > b).where(a, b * 2) if isinstance(a, tn.AnyTensor) else torch.where(a > b, a, b * 2)
    ),
}
UNARY = {
    "tanh": lambda a: a.tanh(),
    "exp": lambda a: (-a * a).exp(),
    "row": lambda a: a - a.sum(1).reshape(-1, 1) * 0.1,
    "slice": lambda a: a[:, 1:] * a[:, :-1],
    "flip": lambda a: a.flip(1),
    "turn": lambda a: a.T @ a,
    "cat": lambda a: (tn.cat if isinstance(a, tn.AnyTensor) else torch.cat)([a, a * 2], 1),
}


@given(st.lists(st.tuples(st.sampled_from([*BINARY, *UNARY]), st.integers(0, 9)), max_size=8))
@settings(max_examples=80, deadline=None)
def test_random_programs(steps: list[tuple[str, int]]) -> None:
    def run(x: Any) -> Any:
        values = [x, x * 0.5]
        for name, place in steps:
            a, b = values[-1], values[place % len(values)]
            if name in UNARY:
                if name == "slice" and a.shape[1] < 2:
                    continue
                values.append(UNARY[name](a))
            elif a.shape == b.shape:
                values.append(BINARY[name](a, b))
        return values[-1].sum() + values[len(values) // 2].sum()

    start = np.random.default_rng(3).uniform(-1, 1, (3, 4))
    peer = torch.from_numpy(start.copy()).requires_grad_()
    (expected,) = torch.autograd.grad(run(peer), peer)
    got = tn.grad(run)(tn.Tensor(start))
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-9, atol=1e-9)
