"""The numerics policy: cases that real systems got wrong, each as a test of its whole kind."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_core as tn

FLOATS = ["f16", "bf16", "f32", "f64"]
INTS = ["i8", "i16", "i32", "i64"]
NAN, INF = math.nan, math.inf


def unit(dtype: str) -> float:
    """Return the distance from 1 to the next float: two roundings of a number near 1."""
    return float(ml_dtypes.finfo(tn.dtype(dtype).numpy).eps)


def wide(tensor: tn.AnyTensor) -> Any:
    return tensor.numpy().astype(np.float64)


def traced(function: Any, *tensors: tn.AnyTensor) -> Any:
    """Run a function as a compiled program with symbolic first extents."""
    inputs = [tn.SymTensor.input(t.dtype, ("n", *t.shape[1:])) for t in tensors]
    program = tn.compile(tn.trace(function, *inputs))
    return np.asarray(program(*(t.numpy() for t in tensors))).astype(np.float64)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4096,), 0), ((4096, 2), 0), ((2, 4096), 1), ((3, 64, 64), (1, 2))]
)
def test_sums_of_narrow_floats_accumulate_wide(dtype: str, shape: Any, axis: Any) -> None:
    ones = tn.ones(shape, dtype=dtype)
    count = np.prod([shape[a] for a in np.atleast_1d(axis)])
    assert (wide(ones.sum(axis)) == count).all()
    assert (wide((ones * 100).mean(axis)) == 100).all()
    assert (wide((ones * 0.5).var(axis)) == 0).all()
    spread = tn.Tensor(np.linspace(-200, 200, int(np.prod(shape))).reshape(shape), dtype)
    expected = wide(spread).var(axis=axis, ddof=1)
    np.testing.assert_allclose(wide(spread.var(axis)), expected, rtol=unit(dtype))


@pytest.mark.parametrize("value", [-1.0, 3.0])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_means_of_many_equal_values_are_exact(value: float, axis: Any) -> None:
    x = tn.full((4500, 4500), value, "f32").realize()  # type: ignore[attr-defined]
    assert (wide(x.mean(axis)) == value).all()


@pytest.mark.parametrize("dtype", [*INTS, "u8", "u16", "u32"])
def test_sums_of_integers_are_i64(dtype: str) -> None:
    high = int(tn.dtype(dtype).max)
    x = tn.Tensor([high, high], dtype)
    assert x.sum().dtype is tn.i64
    if dtype != "i64":
        assert x.sum().item() == 2 * high
    assert x[:1].prod().item() == high
    assert tn.Tensor([True, True, False]).sum().item() == 2


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_normalisation_far_from_zero(dtype: str) -> None:
    x = tn.Tensor([[40000.0, 40001.0, 40002.0, 40003.0]], dtype)
    centred = x - x.mean(1, keepdims=True)
    got = wide(centred * (x.var(1, keepdims=True, correction=0) + 1e-5).rsqrt())
    expected = np.array([[-1.3416, -0.4472, 0.4472, 1.3416]])
    np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
def test_variance_is_centred(axis: int) -> None:
    values = np.random.default_rng(0).normal(1e4, 0.1, (256, 256)).astype(np.float32)
    got = wide(tn.Tensor(values).var(axis))
    np.testing.assert_allclose(got, values.astype(np.float64).var(axis, ddof=1), rtol=1e-3)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [-1, 0])
def test_masked_scores_in_softmax(dtype: str, axis: int) -> None:
    lowest = tn.dtype(dtype).min
    mask = tn.Tensor([[0.0, lowest, 0.0], [lowest, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype)
    got = wide((tn.full((3, 3), -20.0, dtype) + mask).softmax(axis))
    assert np.isfinite(got).all()
    assert (got[wide(mask) != 0] == 0).all()
    np.testing.assert_allclose(got.sum(axis), 1, rtol=unit(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_of_extreme_scores(dtype: str) -> None:
    high = float(tn.dtype(dtype).max)
    rows = tn.Tensor([[high, 0, -high], [-high, -high, -high], [-INF, 0, 0], [-INF] * 3], dtype)
    got, logs = wide(rows.softmax()), wide(rows.log_softmax())
    np.testing.assert_array_equal(got[0], [1, 0, 0])
    np.testing.assert_allclose(got[1], 1 / 3, rtol=unit(dtype))
    np.testing.assert_array_equal(got[2], [0, 0.5, 0.5])
    assert np.isnan(got[3]).all()
    assert logs[2, 0] == -INF
    sums = wide(rows.logsumexp(1))
    assert sums[3] == -INF
    assert wide(tn.Tensor([[INF, 1.0]], dtype).logsumexp(1)) == INF


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [INF, -INF, NAN])
def test_nothing_is_folded_that_is_not_so_for_all_floats(dtype: str, value: float) -> None:
    x = tn.Tensor([value, 1.0], dtype)
    for function in (lambda x: x * 0, lambda x: x - x, lambda x: 0 * x, lambda x: x / x):
        for got in (wide(function(x)), traced(function, x)):
            assert np.isnan(got[0])
            assert not np.isnan(got[1])


@pytest.mark.parametrize("dtype", FLOATS)
def test_zero_by_zero(dtype: str) -> None:
    x = tn.Tensor([0.0, -0.0], dtype)
    assert np.isnan(wide(x / x)).all()
    assert np.isnan(traced(lambda x: x / x, x)).all()
    np.testing.assert_array_equal(wide(1 / x), [INF, -INF])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("order", [(2.0, NAN), (NAN, 2.0), (NAN, NAN), (-INF, NAN)])
def test_maxima_propagate_nan(dtype: str, order: tuple[float, float]) -> None:
    x = tn.Tensor([order], dtype)
    for result in (x.max(1), x.min(1), x[:, 0].maximum(x[:, 1]), x[:, 1].minimum(x[:, 0])):
        assert np.isnan(wide(result)).all()
    assert x.argmax(1).item() == x.argmin(1).item() == [math.isnan(v) for v in order].index(True)
    image = x.reshape(1, 1, 1, 2)
    assert np.isnan(wide(image.max_pool2d((1, 2)))).all()
    assert np.isnan(wide(x.clamp(-1, 1))).any()


@pytest.mark.parametrize("dtype", FLOATS + INTS + ["u8"])
@pytest.mark.parametrize("axis", [0, 1])
def test_first_of_equal_extremes(dtype: str, axis: int) -> None:
    values = np.array([[1, 3, 3, 0], [3, 1, 3, 0], [3, 3, 3, 0]])
    x = tn.Tensor(values, dtype)
    np.testing.assert_array_equal(x.argmax(axis).numpy(), values.argmax(axis))
    np.testing.assert_array_equal(x.argmin(axis).numpy(), values.argmin(axis))


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_nan_are_nan(dtype: str) -> None:
    x = tn.Tensor([NAN], dtype)
    names = "relu sign abs neg exp log sqrt sin tanh sigmoid gelu silu floor relu6 elu"
    for name in names.split():
        assert np.isnan(wide(getattr(x, name)())).all(), name
    assert np.isnan(wide(x.leaky_relu())).all()
    assert np.isnan(wide(tn.grad(lambda x: (x.relu() * 2).sum())(x) * x)).all()


@pytest.mark.parametrize("dtype", [*INTS, "f32", "f64"])
def test_division_rounds_down(dtype: str) -> None:
    for a in (-7, 7):
        for b in (-3, -2, 2, 3):
            x, y = tn.Tensor([a], dtype), tn.Tensor([b], dtype)
            assert (x // y).item() == (x // b).item() == (a // y).item() == a // b
            assert (x % y).item() == (x % b).item() == (a % y).item() == a % b


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", [*INTS, "u8", "u16", "u32", "u64"])
def test_casts_saturate(source: str, target: str) -> None:
    limits = tn.dtype(target)
    got = tn.Tensor([1e20, -1e20, NAN, INF, -INF], source).cast(target).tolist()
    assert got == [limits.max, limits.min, 0, limits.max, limits.min]


def test_casts_to_bf16_round_to_nearest_even() -> None:
    assert wide(tn.Tensor([0.26914], "f32").cast("bf16"))[0] == 0.26953125


def test_gelu_forms() -> None:
    x = tn.Tensor([-1.0])
    assert x.gelu("tanh").item() == pytest.approx(-0.158808, abs=1e-6)
    assert x.gelu().item() == pytest.approx(-0.158655, abs=1e-6)
    with pytest.raises(tn.OpError, match="hint: approximate is"):
        x.gelu("sigmoid")


@pytest.mark.parametrize("name", ["sum", "prod", "mean"])
def test_reductions_of_nothing(name: str) -> None:
    expected = {"sum": 0.0, "prod": 1.0, "mean": NAN}[name]
    np.testing.assert_array_equal(wide(getattr(tn.zeros(3, 0), name)(1)), [expected] * 3)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes_of_nothing_do_not_exist(name: str) -> None:
    with pytest.raises(tn.ShapeError, match=rf"axis 1 is empty, it has no {name}"):
        getattr(tn.zeros(3, 0), name)(1)
    assert getattr(tn.zeros(0, 3), name)(1).shape == (0,)
