"""The op test table against PyTorch, finite differences and exact integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import ops, testing
from teeny_core.dtype import INTS
from teeny_core.internal import Array
from teeny_core.testing import OpCase

torch = pytest.importorskip("torch")
functional = torch.nn.functional

UNSUPPORTED = {tn.u16, tn.u32, tn.u64, tn.f8e4m3, tn.f8e5m2}
NARROW = {tn.f16: "float16", tn.bf16: "bfloat16"}


def to_torch(array: Array) -> Any:
    if array.dtype == tn.bf16.numpy:
        return (
            torch.from_numpy(array.view(np.uint16).astype(np.int32))
            .to(torch.int16)
            .view(torch.bfloat16)
        )
    return torch.from_numpy(np.array(array, order="C"))


def from_torch(tensor: Any) -> Array:
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.float().numpy())
    return np.asarray(tensor.numpy())


def _sum(attrs: Any, x: Any) -> Any:
    return x.sum(attrs["axes"]) if attrs["axes"] else _widest(x)


def _prod(attrs: Any, x: Any) -> Any:
    wide = x.double() if x.is_floating_point() else x.long()
    for axis in reversed(attrs["axes"]):
        wide = wide.prod(axis)
    return wide.to(x.dtype) if x.is_floating_point() else wide


def _widest(x: Any) -> Any:
    return x.clone() if x.is_floating_point() else x.long()


def _extreme(reduce: Callable[..., Any]) -> Callable[..., Any]:
    return lambda attrs, x: reduce(x, attrs["axes"]) if attrs["axes"] else x.clone()


def _pad(attrs: Any, x: Any) -> Any:
    pairs = zip(reversed(attrs["low"]), reversed(attrs["high"]), strict=True)
    return functional.pad(x, [side for pair in pairs for side in pair], value=attrs["value"])


def _slice(attrs: Any, x: Any) -> Any:
    bounds = zip(attrs["starts"], attrs["limits"], attrs["steps"], strict=True)
    return x[tuple(slice(*bound) for bound in bounds)]


def _matmul(attrs: Any, a: Any, b: Any) -> Any:
    a = a.mT if attrs["transpose_a"] else a
    b = b.mT if attrs["transpose_b"] else b
    return a @ b


def _attention(attrs: Any, query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    if attrs["causal"] and mask is not None:  # PyTorch takes one of them
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        mask = torch.where(seen, mask, -torch.inf)
    causal = attrs["causal"] and mask is None
    shared = query.ndim > 2 and query.shape[-3] != key.shape[-3]
    return functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=causal, scale=attrs["scale"], enable_gqa=shared
    )


def _image_pad(attrs: Any, x: Any, value: float) -> Any:
    (top, bottom), (left, right) = attrs["padding"]
    return functional.pad(x, (left, right, top, bottom), value=value)


def _conv(attrs: Any, x: Any, w: Any) -> Any:
    return functional.conv2d(
        _image_pad(attrs, x, 0),
        w,
        stride=attrs["stride"],
        dilation=attrs["dilation"],
        groups=attrs["groups"],
    )


def _conv_grad_input(attrs: Any, dy: Any, w: Any) -> Any:
    x = torch.zeros(attrs["input_shape"], dtype=dy.dtype, requires_grad=True)
    return torch.autograd.grad(_conv(attrs, x, w), x, dy, create_graph=True)[0]


def _conv_grad_weight(attrs: Any, x: Any, dy: Any) -> Any:
    w = torch.zeros(attrs["weight_shape"], dtype=dy.dtype, requires_grad=True)
    return torch.autograd.grad(_conv(attrs, x, w), w, dy, create_graph=True)[0]


def _max_pool(attrs: Any, x: Any) -> Any:
    padded = _image_pad(attrs, x, -torch.inf)
    return functional.max_pool2d(padded, attrs["kernel"], attrs["stride"])


def _max_pool_grad(attrs: Any, x: Any, dy: Any) -> Any:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(_max_pool(attrs, x), x, dy, create_graph=True)[0]


def _avg_pool(attrs: Any, x: Any) -> Any:
    window = attrs["kernel"], attrs["stride"]
    ones = torch.ones_like(x[:1, :1])
    count = functional.avg_pool2d(
        _image_pad(attrs, ones, 1.0 if attrs["count_include_pad"] else 0.0), *window
    )
    return functional.avg_pool2d(_image_pad(attrs, x, 0), *window) / count


def _avg_pool_grad(attrs: Any, dy: Any) -> Any:
    x = torch.zeros(attrs["input_shape"], dtype=dy.dtype, requires_grad=True)
    return torch.autograd.grad(_avg_pool(attrs, x), x, dy, create_graph=True)[0]


def _take(attrs: Any, x: Any, index: Any) -> Any:
    axis = attrs["axis"]
    rows = x.index_select(axis, index.long().reshape(-1))
    return rows.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def _take_grad(attrs: Any, index: Any, dy: Any) -> Any:
    axis, shape = attrs["axis"], attrs["shape"]
    rows = dy.reshape(*shape[:axis], index.numel(), *shape[axis + 1 :])
    total = torch.zeros(shape, dtype=torch.float64 if dy.is_floating_point() else dy.dtype)
    return total.index_add(axis, index.long().reshape(-1), rows.to(total.dtype)).to(dy.dtype)


def _take_along_grad(attrs: Any, index: Any, dy: Any) -> Any:
    total = torch.zeros(attrs["shape"], dtype=torch.float64 if dy.is_floating_point() else dy.dtype)
    return total.scatter_add(attrs["axis"], index.long(), dy.to(total.dtype)).to(dy.dtype)


SAME_NAME = """
    floor ceil round trunc exp exp2 expm1 sin cos tanh sigmoid erf tan log log2 sqrt rsqrt
    reciprocal log1p isnan isinf logical_not bitwise_not add sub mul div pow maximum minimum
    eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
""".split()  # noqa: SIM905

PLAIN: dict[str, Callable[..., Any]] = {
    "abs": torch.abs,
    "neg": torch.neg,
    "relu": torch.relu,
    "sign": lambda x: torch.where(x != x, x, torch.sign(x)),  # PyTorch has sign(NaN) = 0
    "where": torch.where,
    "stop_gradient": torch.detach,
    "concat": torch.cat,
    **{name: getattr(torch, name) for name in SAME_NAME},
    "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift,
    "mod": torch.remainder,
    "floordiv": torch.floor_divide,
}
WITH_ATTRS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "prod": _prod,
    "max": _extreme(torch.amax),
    "min": _extreme(torch.amin),
    "argmax": lambda attrs, x: x.argmax(attrs["axis"]),
    "argmin": lambda attrs, x: x.argmin(attrs["axis"]),
    "reshape": lambda attrs, x: x.reshape(attrs["shape"]),
    "permute": lambda attrs, x: x.permute(attrs["axes"]),
    "broadcast_to": lambda attrs, x: x.broadcast_to(attrs["shape"]),
    "slice": _slice,
    "flip": lambda attrs, x: x.flip(attrs["axes"]),
    "pad": _pad,
    "concat": lambda attrs, *xs: torch.cat(xs, attrs["axis"]),
    "matmul": _matmul,
    "matmul_integer": lambda attrs, a, b: _matmul(attrs, a.int(), b.int()),
    "attention": _attention,
    "conv2d": _conv,
    "conv2d_grad_input": _conv_grad_input,
    "conv2d_grad_weight": _conv_grad_weight,
    "max_pool2d": _max_pool,
    "max_pool2d_grad": _max_pool_grad,
    "avg_pool2d": _avg_pool,
    "avg_pool2d_grad": _avg_pool_grad,
    "take": _take,
    "take_grad": _take_grad,
    "take_along": lambda attrs, x, index: x.gather(attrs["axis"], index.long()),
    "take_along_grad": _take_along_grad,
}
# Leaves, conversions and random bits have tests of their own.
ELSEWHERE = {"constant", "iota", "size", "array", "cast", "bitcast", "random_bits"}


def peer(case: OpCase) -> Callable[..., Any] | None:
    if case.op in WITH_ATTRS:
        return lambda *xs: WITH_ATTRS[case.op](case.attrs, *xs)
    return PLAIN.get(case.op)


def divides_by_zero(case: OpCase, arrays: tuple[Array, ...]) -> bool:
    """PyTorch raises where an integer is divided by 0."""
    integers = case.op in ("floordiv", "mod") and arrays[1].dtype.kind in "iu"
    return integers and bool((arrays[1] == 0).any())


def supported(case: OpCase, dtype: tn.DType) -> bool:
    """What PyTorch has no kernel for on the CPU."""
    pooled = case.op.startswith("max_pool") and dtype.is_int
    return dtype not in UNSUPPORTED and not pooled


def test_every_operation_has_a_row_and_a_peer() -> None:
    assert testing.uncovered() == frozenset()
    without = {case.op for case in testing.cases() if peer(case) is None}
    assert without == ELSEWHERE


@pytest.mark.parametrize("case", testing.cases(), ids=str)
def test_values(case: OpCase) -> None:
    function = peer(case)
    for dtype in case.dtypes:
        arrays = case.arrays(dtype)
        graph = case.graph(dtype)
        graph.verify()
        (got,) = tn.evaluate(graph, arrays)
        if function is None or not supported(case, dtype) or divides_by_zero(case, arrays):
            continue
        expected = from_torch(function(*map(to_torch, arrays)))
        assert got.shape == expected.shape
        testing.assert_close(got, expected, graph.outputs[0].dtype, case.scale)


DIFFERENTIABLE = [case for case in testing.cases() if case.wrt]


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_by_finite_differences(case: OpCase) -> None:
    testing.check_gradient(case)


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_are_pytorchs(case: OpCase) -> None:
    function = peer(case)
    if function is None or case.op == "stop_gradient":
        return
    graph, arrays = case.graph(tn.f64), case.arrays(tn.f64)
    tensors = [to_torch(array) for array in arrays]
    for place in case.wrt:
        tensors[place].requires_grad_()
    value = function(*tensors)
    seed = np.random.default_rng(1).standard_normal(tuple(value.shape))
    expected = torch.autograd.grad(value, [tensors[i] for i in case.wrt], to_torch(seed))
    wrt = [graph.inputs[i] for i in case.wrt]
    gradients = tn.backward(graph.outputs, wrt, [ops.array(seed)])
    found = tn.evaluate(tn.Graph("g", graph.inputs, (), gradients), arrays)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, from_torch(wanted), rtol=1e-9, atol=1e-12)


TWICE = [case for case in DIFFERENTIABLE if case.op not in ("max_pool2d", "prod")]


@pytest.mark.parametrize("case", TWICE, ids=str)
def test_gradients_of_gradients_are_pytorchs(case: OpCase) -> None:
    function = peer(case)
    if function is None or case.op in ("stop_gradient", "relu"):
        return
    graph, arrays = case.graph(tn.f64), case.arrays(tn.f64)
    tensors = [to_torch(array) for array in arrays]
    for place in case.wrt:
        tensors[place].requires_grad_()
    chosen = [tensors[i] for i in case.wrt]
    value = (function(*tensors) ** 2).sum()
    first = torch.autograd.grad(value, chosen, create_graph=True)
    total = sum((g**2).sum() for g in first)
    expected = torch.autograd.grad(total, chosen, allow_unused=True)

    wrt = [graph.inputs[i] for i in case.wrt]
    (output,) = graph.outputs
    squared = _squares([output])
    second = tn.backward([_squares(tn.backward([squared], wrt))], wrt)
    found = tn.evaluate(tn.Graph("g", graph.inputs, (), second), arrays)
    for got, wanted in zip(found, expected, strict=True):
        assert wanted is not None
        np.testing.assert_allclose(got, from_torch(wanted), rtol=1e-8, atol=1e-10)


def _squares(nodes: Any) -> tn.Node:
    """Return the sum of squares of all elements."""
    totals = [ops.sum(ops.mul(n, n), tuple(range(len(n.shape)))) for n in nodes]
    result = totals[0]
    for total in totals[1:]:
        result = ops.add(result, total)
    return result


# --- integers, exactly --------------------------------------------------------------------------


def _floordiv(x: int, y: int) -> int:
    return x // y if y else 0


def _mod(x: int, y: int) -> int:
    return x % y if y else 0


def _shl(bits: int) -> Callable[[int, int], int]:
    return lambda x, y: x << y if 0 <= y < bits else 0


def _shr(bits: int) -> Callable[[int, int], int]:
    return lambda x, y: x >> y if 0 <= y < bits else (-1 if x < 0 else 0)


def _pow(x: int, y: int) -> int:
    if y >= 0:
        return x**y
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


@given(st.data(), st.sampled_from(INTS))
@settings(max_examples=300, deadline=None)
def test_integer_arithmetic_wraps(data: st.DataObject, dtype: tn.DType) -> None:
    low, high = int(dtype.min), int(dtype.max)
    edges = st.sampled_from([low, low + 1, 0, 1, high, high - 1] + [-1] * dtype.is_signed)
    numbers = st.one_of(st.integers(low, high), edges, st.integers(max(low, -9), 9))
    x, y = data.draw(numbers), data.draw(numbers)
    exact: dict[str, Callable[[int, int], int]] = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "floordiv": _floordiv,
        "mod": _mod,
        "shl": _shl(dtype.bits),
        "shr": _shr(dtype.bits),
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
        "maximum": max,
        "minimum": min,
    }
    if abs(y) < 100:
        exact["pow"] = _pow
    for name, function in exact.items():
        arrays = (np.array([v], dtype.numpy) for v in (x, y))
        got = ops.get(name).reference(tn.Attrs(), *arrays)
        wanted = (function(x, y) - low) % (1 << dtype.bits) + low
        assert got.dtype == dtype.numpy
        assert int(got[0]) == wanted, name
