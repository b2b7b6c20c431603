"""Methods of tensors against PyTorch and NumPy."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(7)
Pair = tuple[tn.AnyTensor, Any]


def pair(*shape: int, dtype: str = "f32", low: float = -2, high: float = 2) -> Pair:
    """Return the same random values as our tensor and as PyTorch's."""
    values = RNG.uniform(low, high, shape)
    ours = tn.Tensor(values, dtype)
    names = {"f32": "float32", "f64": "float64", "f16": "float16", "i32": "int32", "bool": "bool"}
    names |= {"i8": "int8", "u8": "uint8"}
    theirs = torch.from_numpy(np.array(ours.numpy())).to(getattr(torch, names[dtype]))
    return ours, theirs


def check(ours: Any, theirs: Any, tolerance: float = 2e-6) -> None:
    expected = theirs.numpy()
    got = ours.numpy()
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


# --- operators ----------------------------------------------------------------------------------

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("function", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("dtypes", [("f32", "f32"), ("f32", "i32"), ("i32", "f64"), ("i32", "i32")])
def test_binary_operators(function: Callable[..., Any], dtypes: tuple[str, str]) -> None:
    (a, ta), (b, tb) = pair(3, 4, dtype=dtypes[0]), pair(4, dtype=dtypes[1], low=1, high=9)
    check(function(a, b), function(ta, tb))
    check(function(b, a), function(tb, ta)) if dtypes[0] == "f32" else None


@pytest.mark.parametrize("function", [*ARITHMETIC, *COMPARISONS, operator.pow])
@pytest.mark.parametrize("scalar", [2, 0.5, -1, True])
@pytest.mark.parametrize("dtype", ["f32", "i32", "f16"])
def test_operators_with_scalars(function: Callable[..., Any], scalar: Any, dtype: str) -> None:
    a, ta = pair(3, 4, dtype=dtype, low=1, high=5)
    if function is operator.pow and dtype == "i32" and scalar == -1:
        return  # PyTorch raises
    peer = 1 if scalar is True and function is operator.sub else scalar  # PyTorch raises
    check(function(a, scalar), function(ta, peer), 2e-3 if dtype == "f16" else 2e-6)
    check(function(scalar, a), function(peer, ta), 2e-3 if dtype == "f16" else 2e-6)


@pytest.mark.parametrize("function", [operator.floordiv, operator.mod])
def test_floor_division(function: Callable[..., Any]) -> None:
    for dtype in ("i32", "f32"):
        a, ta = pair(40, dtype=dtype, low=-20, high=20)
        for divisor in (3, -3):
            check(function(a, divisor), function(ta, divisor))
            check(function(divisor, a + 100), function(divisor, ta + 100))


def test_bit_operators() -> None:
    a, ta = pair(20, dtype="i32", low=-99, high=99)
    b, tb = pair(20, dtype="i32", low=-99, high=99)
    for function in (operator.and_, operator.or_, operator.xor):
        check(function(a, b), function(ta, tb))
        check(function(a, 5), function(ta, 5))
        check(function(5, a), function(5, ta))
        check(function(a > 0, b > 0), function(ta > 0, tb > 0))
    check(~a, ~ta)
    check(a << 3, ta << 3)
    check(a >> 2, ta >> 2)
    check(1 << (abs(a) % 8), 1 << (abs(ta) % 8))


def test_sums_and_products_of_bools() -> None:
    (a, ta), (b, tb) = pair(9, dtype="bool"), pair(9, dtype="bool")
    a, ta = tn.Tensor([True, False, True, False]), torch.tensor([True, False, True, False])
    b, tb = tn.Tensor([True, True, False, False]), torch.tensor([True, True, False, False])
    for function in (operator.add, operator.mul):
        check(function(a, b), function(ta, tb))
    check(a.maximum(b), torch.maximum(ta, tb))
    check(a < b, ta < tb)
    check(a / b.logical_not().cast("i32").maximum(1), ta / 1)
    with pytest.raises(tn.DTypeError, match="takes numbers, got bool"):
        a - b


UNARY = """
    abs exp exp2 expm1 sin cos tan tanh sigmoid erf floor ceil round trunc sign square
    isnan isinf isfinite relu
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_unary(name: str, dtype: str) -> None:
    a, ta = pair(4, 5, dtype=dtype)
    check(getattr(a, name)(), getattr(torch, name)(ta))


@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"])
def test_unary_of_positives(name: str) -> None:
    a, ta = pair(4, 5, low=0.1, high=9)
    check(getattr(a, name)(), getattr(torch, name)(ta))
    check(getattr(a.cast("i32"), name)(), getattr(torch, name)(ta.int()))


def test_where_and_clamp() -> None:
    (a, ta), (b, tb) = pair(3, 4), pair(4)
    check((a > 0).where(a, b), torch.where(ta > 0, ta, tb))
    check(tn.where(a > b, 1.0, a), torch.where(ta > tb, 1.0, ta))
    check(tn.where(a > b, 1, 0), torch.where(ta > tb, 1, 0))
    check(a.where(1.5, b), torch.where(ta.bool(), 1.5, tb))
    check(a.masked_fill(a < 0, -math.inf), ta.masked_fill(ta < 0, -math.inf))
    check(a.clamp(-1, 0.5), ta.clamp(-1, 0.5))
    check(a.clamp(min=b), ta.clamp(min=tb))
    check(a.clamp(max=0), ta.clamp(max=0))
    with pytest.raises(tn.DTypeError, match="neither min nor max"):
        a.clamp()


def test_logic() -> None:
    (a, ta), (b, tb) = pair(9), pair(9)
    for name in ("logical_and", "logical_or", "logical_xor"):
        check(getattr(a.round(), name)(b.round()), getattr(torch, name)(ta.round(), tb.round()))
    check(a.round().logical_not(), torch.logical_not(ta.round()))


@given(
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
)
@settings(max_examples=150, deadline=None)
def test_broadcasting_is_numpys(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = np.ones(left, np.float32), np.full(right, 2, np.float32)
    try:
        expected = a + b
    except ValueError:
        with pytest.raises(tn.ShapeError, match="cannot broadcast"):
            tn.Tensor(a) + tn.Tensor(b)
    else:
        with tn.default_device("null"):
            np.testing.assert_array_equal((tn.Tensor(a) + tn.Tensor(b)).shape, expected.shape)


# --- reductions ---------------------------------------------------------------------------------

AXES = [None, 0, 1, -1, (0, 2), (1, 2), (0, 1, 2), (-3,)]


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "amax", "amin", "logsumexp"])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    a, ta = pair(3, 4, 5)
    axes = (0, 1, 2) if axis is None else axis
    ours = {"amax": "max", "amin": "min"}.get(name, name)
    got = getattr(a, ours)(axis, keepdims)
    check(got, getattr(torch, name)(ta, dim=axes, keepdim=keepdims), 5e-6)


@pytest.mark.parametrize("dtype", ["i32", "bool", "f16"])
def test_sums_of_other_types(dtype: str) -> None:
    a, ta = pair(3, 4, dtype=dtype)
    check(a.sum(1), ta.sum(1), 2e-3)
    check(a.prod(0), ta.prod(0), 2e-3)
    check(a.cast("i32").prod(0), ta.int().prod(0))
    check(a.mean(), ta.float().mean().to(torch.float16 if dtype == "f16" else torch.float32), 2e-3)
    check(a.sum(dtype="f64"), ta.sum(dtype=torch.float64))


def test_arg_reductions() -> None:
    a, ta = pair(3, 4, 5)
    for ours, theirs in ((a.argmax, ta.argmax), (a.argmin, ta.argmin)):
        check(ours(), theirs())
        check(ours(1), theirs(1))
        check(ours(-1, True), theirs(-1, True))
        check(ours(None, True), theirs(None, True))


def test_any_and_all() -> None:
    values = np.array([[0, 0, 0], [1, 0, 2], [3, 1, 1]], np.int32)
    a, ta = tn.Tensor(values), torch.from_numpy(values)
    for ours, theirs in ((a.any, ta.any), (a.all, ta.all)):
        check(ours(), theirs())
        check(ours(1), theirs(1))
    empty = tn.zeros(0, 3)
    assert not empty.any().item()
    assert empty.all().item()
    mask, masked = tn.Tensor([True, False]), torch.tensor([True, False])
    check(mask.max(), masked.max())
    check(mask.min(), masked.min())
    check(mask.argmax(), masked.int().argmax())


@pytest.mark.parametrize("p", [1, 2, 3, math.inf])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)], ids=str)
def test_norms_equal_those_of_pytorch(p: float, axis: Any) -> None:
    a, ta = pair(3, 4)
    check(a.norm(p, axis), torch.linalg.vector_norm(ta, p, axis), 5e-6)


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_correction_of_variance(correction: int) -> None:
    a, ta = pair(3, 4)
    check(a.var(1, correction=correction), ta.var(1, correction=correction))


# --- movement -----------------------------------------------------------------------------------

MOVES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reshape": (lambda x: x.reshape(6, -1), lambda x: x.reshape(6, -1)),
    "reshape-tuple": (lambda x: x.reshape((-1,)), lambda x: x.reshape((-1,))),
    "view": (lambda x: x.view(4, 6), lambda x: x.reshape(4, 6)),
    "flatten": (lambda x: x.flatten(1), lambda x: x.flatten(1)),
    "flatten-all": (lambda x: x.flatten(), lambda x: x.flatten()),
    "unflatten": (lambda x: x.unflatten(2, (2, -1)), lambda x: x.unflatten(2, (2, -1))),
    "squeeze": (lambda x: x[:1].squeeze(), lambda x: x[:1].squeeze()),
    "squeeze-one": (lambda x: x[:1].squeeze(0), lambda x: x[:1].squeeze(0)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda x: x.unsqueeze(1)),
    "unsqueeze-last": (lambda x: x.unsqueeze(-1), lambda x: x.unsqueeze(-1)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.permute(2, 0, 1)),
    "permute-tuple": (lambda x: x.permute((-1, 0, 1)), lambda x: x.permute((-1, 0, 1))),
    "transpose": (lambda x: x.transpose(0, 2), lambda x: x.transpose(0, 2)),
    "transpose-last": (lambda x: x.transpose(), lambda x: x.mT),
    "T": (lambda x: x[0].T, lambda x: x[0].T),
    "mT": (lambda x: x.mT, lambda x: x.mT),
    "movedim": (lambda x: x.movedim(0, 2), lambda x: x.movedim(0, 2)),
    "movedim-back": (lambda x: x.movedim(-1, 0), lambda x: x.movedim(-1, 0)),
    "expand": (lambda x: x[:, :1].expand(5, -1, 3, -1), lambda x: x[:, :1].expand(5, -1, 3, -1)),
    "broadcast_to": (lambda x: x.broadcast_to(2, 2, 3, 4), lambda x: x.broadcast_to(2, 2, 3, 4)),
    "flip": (lambda x: x.flip(1), lambda x: x.flip(1)),
    "flip-all": (lambda x: x.flip(), lambda x: x.flip((0, 1, 2))),
    "pad": (
        lambda x: x.pad([(0, 0), (1, 2), (0, 3)], 7),
        lambda x: torch.nn.functional.pad(x, (0, 3, 1, 2), value=7),
    ),
    "roll": (lambda x: x.roll(2, 1), lambda x: x.roll(2, 1)),
    "roll-back": (lambda x: x.roll(-5, -1), lambda x: x.roll(-5, -1)),
    "repeat": (lambda x: x.repeat(2, 1, 3, 1), lambda x: x.repeat(2, 1, 3, 1)),
    "repeat_interleave": (
        lambda x: x.repeat_interleave(3, 1),
        lambda x: x.repeat_interleave(3, 1),
    ),
    "narrow": (lambda x: x.narrow(1, 1, 2), lambda x: x.narrow(1, 1, 2)),
    "tril": (lambda x: tn.tril(x, 1), lambda x: x.tril(1)),
    "triu": (lambda x: tn.triu(x, -1), lambda x: x.triu(-1)),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    ours, theirs = MOVES[name]
    a, ta = pair(2, 3, 4)
    check(ours(a), theirs(ta).contiguous())


def test_joining() -> None:
    (a, ta), (b, tb) = pair(2, 3), pair(2, 1)
    check(tn.concat([a, b], 1), torch.cat([ta, tb], 1))
    check(tn.cat([a, b], -1), torch.cat([ta, tb], -1))
    check(tn.stack([a, a], 1), torch.stack([ta, ta], 1))
    check(tn.stack([a, a], -1), torch.stack([ta, ta], -1))
    check(tn.concat([a, b.cast("i32")], 1), torch.cat([ta, tb.int()], 1))
    with pytest.raises(tn.ShapeError, match="extents differ"):
        tn.concat([a, b], 0)


def test_splitting() -> None:
    a, ta = pair(7, 3)
    for ours, theirs in (
        (a.split(3), ta.split(3)),
        (a.split([1, 4, 2]), ta.split([1, 4, 2])),
        (a.chunk(3), ta.chunk(3)),
        (a.split(2, 1), ta.split(2, 1)),
    ):
        assert len(ours) == len(theirs)
        for x, y in zip(ours, theirs, strict=True):
            check(x, y.contiguous())


# --- activations --------------------------------------------------------------------------------

functional = torch.nn.functional
ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "softmax": (lambda x: x.softmax(), lambda x: x.softmax(-1)),
    "softmax-0": (lambda x: x.softmax(0), lambda x: x.softmax(0)),
    "log_softmax": (lambda x: x.log_softmax(1), lambda x: x.log_softmax(1)),
    "gelu": (lambda x: x.gelu(), functional.gelu),
    "gelu-tanh": (lambda x: x.gelu("tanh"), lambda x: functional.gelu(x, approximate="tanh")),
    "silu": (lambda x: x.silu(), functional.silu),
    "elu": (lambda x: x.elu(), functional.elu),
    "leaky_relu": (lambda x: x.leaky_relu(0.2), lambda x: functional.leaky_relu(x, 0.2)),
    "relu6": (lambda x: (x * 5).relu6(), lambda x: functional.relu6(x * 5)),
    "softplus": (lambda x: x.softplus(), functional.softplus),
    "logsigmoid": (lambda x: x.logsigmoid(), functional.logsigmoid),
    "hardsigmoid": (lambda x: (x * 3).hardsigmoid(), lambda x: functional.hardsigmoid(x * 3)),
    "hardswish": (lambda x: (x * 3).hardswish(), lambda x: functional.hardswish(x * 3)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_activations(name: str, dtype: str) -> None:
    ours, theirs = ACTIVATIONS[name]
    a, ta = pair(4, 6, dtype=dtype, low=-3, high=3)
    check(ours(a), theirs(ta), {"f16": 4e-3, "f32": 4e-6, "f64": 1e-12}[dtype])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_activations(name: str) -> None:
    ours, theirs = ACTIVATIONS[name]
    a, ta = pair(4, 6, dtype="f64", low=-3, high=3)
    seed, peer = pair(4, 6, dtype="f64")
    ta.requires_grad_()
    (theirs(ta) * peer).sum().backward()
    tolerance = 1e-7 if name.startswith("hard") else 1e-10  # PyTorch's 1/6 there is in f32
    check(tn.grad(lambda x: (ours(x) * seed).sum())(a), ta.grad, tolerance)


def test_reductions_have_gradients_of_pytorch() -> None:
    a, ta = pair(4, 6, dtype="f64")
    ta.requires_grad_()
    for ours, theirs in (
        (lambda x: x.var(1).sum(), lambda x: x.var(1).sum()),
        (lambda x: x.std(0).sum(), lambda x: x.std(0).sum()),
        (lambda x: x.logsumexp(1).sum(), lambda x: x.logsumexp(1).sum()),
        (lambda x: x.norm(), lambda x: x.norm()),
        (lambda x: x.norm(3, 0).sum(), lambda x: x.norm(3, 0).sum()),
        (lambda x: x.max(1).sum(), lambda x: x.amax(1).sum()),
        (lambda x: x.prod(1).mean(), lambda x: x.prod(1).mean()),
    ):
        expected = torch.autograd.grad(theirs(ta), ta)[0]
        check(tn.grad(ours)(a), expected, 1e-10)


# --- products -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes",
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((5, 0, 3), (3, 4)),
    ],
    ids=str,
)
def test_matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    (a, ta), (b, tb) = pair(*shapes[0]), pair(*shapes[1])
    check(a @ b, ta @ tb)
    check(tn.matmul(a, b), ta @ tb)
    check(a @ b.numpy(), ta @ tb)
    check(a.numpy() @ b, ta @ tb)


def test_matmul_promotes() -> None:
    (a, ta), (b, tb) = pair(2, 3, dtype="i32"), pair(3, 2, dtype="f64")
    check(a @ b, ta.double() @ tb)


def test_matmul_in_another_type() -> None:
    (a, ta), (b, tb) = (
        pair(2, 3, dtype="i8", low=-128, high=127),
        pair(4, 3, dtype="u8", low=0, high=255),
    )
    check(a.matmul(b, transpose_b=True, dtype=tn.i32), ta.int() @ tb.int().T)
    check(a.matmul(b.T[:, 0], dtype="i32"), ta.int() @ tb.int()[0])
    check(a.matmul(b, transpose_b=True, dtype="f64"), ta.double() @ tb.double().T)
    operands = (tn.SymTensor.input(tn.i8, (2, 3)), tn.SymTensor.input(tn.u8, (3, 4)))
    graph = tn.trace(lambda a, b: a.matmul(b, dtype="i32"), *operands)
    assert "matmul_integer" in str(graph)
    assert (
        tn.grad(lambda x: x.cast("i8").matmul(b.T, dtype="i32").cast("f32").sum())(
            tn.ones(2, 3)
        ).tolist()
        == [[0.0] * 3] * 2
    )  # integers stop gradients


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"stride": (1, 2), "padding": (0, 1)},
        {"dilation": 2, "padding": "same"},
        {"padding": "valid"},
        {"groups": 2},
    ],
    ids=str,
)
def test_conv2d(options: dict[str, Any]) -> None:
    x, tx = pair(2, 4, 9, 8)
    w, tw = pair(6, 4 // options.get("groups", 1), 3, 2)
    b, tb = pair(6)
    check(x.conv2d(w, b, **options), functional.conv2d(tx, tw, tb, **options), 2e-5)
    check(tn.conv2d(x, w, **options), functional.conv2d(tx, tw, **options), 2e-5)


def test_pools() -> None:
    x, tx = pair(2, 3, 9, 8)
    check(x.max_pool2d(2), functional.max_pool2d(tx, 2))
    check(x.max_pool2d((3, 2), 2, (1, 0)), functional.max_pool2d(tx, (3, 2), 2, (1, 0)))
    check(x.avg_pool2d(3, 1, 1), functional.avg_pool2d(tx, 3, 1, 1))
    inside = functional.avg_pool2d(tx, 3, 2, 1, count_include_pad=False)
    check(x.avg_pool2d(3, 2, 1, count_include_pad=False), inside)


# --- creation -----------------------------------------------------------------------------------


def test_creation() -> None:
    check(tn.zeros(2, 3), torch.zeros(2, 3))
    check(tn.ones((2,), dtype="i32"), torch.ones(2, dtype=torch.int32))
    check(tn.full((2, 2), 3), torch.full((2, 2), 3))
    check(tn.full((2, 2), 0.5), torch.full((2, 2), 0.5))
    check(tn.full((), True), torch.full((), True))
    for bounds in ((5,), (2, 9), (2, 9, 3), (9, 2, -2), (3, 3), (5, 2)):
        check(
            tn.arange(*bounds), torch.arange(*bounds) if bounds != (5, 2) else torch.zeros(0).long()
        )
    check(tn.eye(3, 4), torch.eye(3, 4))
    check(tn.linspace(-1, 1, 7), torch.linspace(-1, 1, 7))
    check(tn.zeros_like(tn.ones(2, dtype="f64")), torch.zeros(2, dtype=torch.float64))
    check(tn.full_like(tn.ones(2), 3), torch.full((2,), 3.0))
    index = tn.Tensor([[0, 2], [1, 1]])
    check(tn.one_hot(index, 4, dtype="i64"), functional.one_hot(torch.tensor(index.tolist()), 4))


def test_types_of_python_values() -> None:
    assert tn.Tensor([1.5]).dtype is tn.f32
    assert tn.Tensor([1]).dtype is tn.i64
    assert tn.Tensor([True]).dtype is tn.bool_
    assert tn.Tensor([[]]).shape == (1, 0)
    assert tn.Tensor(np.ones(2)).dtype is tn.f64
    assert tn.Tensor([1, 2], "f16").dtype is tn.f16
    assert tn.Tensor(tn.Tensor([1.0]), "i32").tolist() == [1]
    assert tn.Tensor([1.5, 2.5]).cast(tn.i8).tolist() == [1, 2]
    assert tn.Tensor([1.0]).bitcast(tn.i32).tolist() == [0x3F800000]


def test_scalars() -> None:
    x = tn.Tensor(2.5)
    assert (x.item(), float(x), int(x), bool(x)) == (2.5, 2.5, 2, True)
    assert f"{x:.2f}" == "2.50"
    assert [10, 20, 30][tn.Tensor(1)] == 20  # type: ignore[call-overload]
    assert len(tn.zeros(3, 2)) == 3
    assert [row.tolist() for row in tn.arange(4).reshape(2, 2)] == [[0, 1], [2, 3]]
    with pytest.raises(tn.ShapeError, match="hint: index one element first"):
        tn.zeros(2).item()


def test_repr_shows_values() -> None:
    assert repr(tn.Tensor([[1.0, 2.5]])) == "Tensor([[1. , 2.5]], dtype=f32)"
    assert repr(tn.Tensor([1.5], "bf16")) == "Tensor([1.5], dtype=bf16)"
    assert repr(tn.zeros(0, 3)) == "Tensor([], shape=(0, 3), dtype=f32)"
    assert repr(tn.arange(1000)).count("...") == 1


def test_tensors_are_hashable_by_identity() -> None:
    a, b = tn.Tensor([1.0]), tn.Tensor([1.0])
    assert len({a, b, a}) == 2


@pytest.mark.parametrize(
    "equation",
    [
        "ij,jk->ik",
        "ij,jk",
        "ij,kj->ki",
        "ij,ij->",
        "ij->ji",
        "ij->i",
        "ij->",
        "i,j->ij",
        "bij,bjk->bik",
        "bhij,bhkj->bhik",
        "ij,jk,kl->il",
        "ij,k->k",
        "ab,abc,c->b",
        "i,i->i",
    ],
)
def test_einsum(equation: str) -> None:
    extents = dict(zip("abchijkl", (2, 3, 4, 2, 3, 4, 5, 2), strict=True))
    sources = equation.partition("->")[0].split(",")
    pairs = [pair(*(extents[label] for label in labels)) for labels in sources]
    ours, theirs = zip(*pairs, strict=True)
    check(tn.einsum(equation, *ours), torch.einsum(equation, *theirs), 1e-5)


def test_einsum_says_what_is_wrong() -> None:
    x = tn.zeros(2, 3)
    for equation, message in (
        ("ii->i", "cannot read"),
        ("ij->k", "cannot read"),
        ("ij,jk->ik", "for 1 operands"),
        ("ijk->i", "names 3 axes"),
    ):
        with pytest.raises(tn.ShapeError, match=message):
            tn.einsum(equation, x)
    with pytest.raises(tn.ShapeError, match="'j' is 3 and 2"):
        tn.einsum("ij,jk->ik", x, x)
