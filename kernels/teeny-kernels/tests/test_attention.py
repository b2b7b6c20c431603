import math

import numpy as np
import pytest
from teeny_core import bf16, bool_, f32, symbol
from teeny_kernels.kernels.attention import power
from teeny_kernels.templates.attention import TEMPLATE
from teeny_kernels.testing import contiguous, operand, run
from teeny_triton import Ptr, Target, constexpr, kernel
from teeny_triton import language as tl
from teeny_triton.launch import Epilogue, Request


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def reference(q, k, v, scale, causal, mask=None):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        s, t = scores.shape[2:]
        scores = np.where(np.tril(np.ones((s, t), bool)), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return np.einsum("bhst,bhte->bhse", weights / np.where(total == 0, 1, total), v)


def check(
    target,
    q,
    k,
    v,
    *,
    causal=False,
    mask=None,
    safe=True,
    symbols=None,
    shapes=None,
    tolerance=2e-5,
):
    scale = 1 / math.sqrt(q.shape[-1])
    inputs = (q, k, v) if mask is None else (q, k, v, mask)
    shape = (*q.shape[:3], v.shape[3])
    out = np.full(shape, np.nan, q.dtype)
    operands = tuple(map(operand, inputs))
    result = operand(out)
    if shapes:
        operands = tuple(contiguous(s, f32) for s in shapes[:-1])
        result = contiguous(shapes[-1], f32)
    attrs = {"scale": scale, "causal": causal, "safe": safe}
    request = Request("attention", attrs, operands, result)
    plan = TEMPLATE.plan(request, target)
    assert plan is not None
    run(plan, inputs, out, symbols=symbols)
    expected = reference(q, k, v, scale, causal, mask)
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("s", [1, 29])
def test_square(target: Target, s, causal):
    q, k, v = (random((1, 2, s, 20), i) for i in range(3))
    check(target, q, k, v, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
def test_several_blocks_of_keys_and_runs_of_queries(wide: Target, causal):
    q, k, v = random((1, 1, 200, 8)), random((1, 1, 150, 8), 1), random((1, 1, 150, 20), 2)
    check(wide, q * 3, k, v, causal=causal)


def test_more_queries_than_keys(wide: Target):
    q, k, v = random((1, 1, 40, 8)), random((1, 1, 7, 8), 1), random((1, 1, 7, 8), 2)
    for causal in (False, True):
        check(wide, q, k, v, causal=causal)


@pytest.mark.parametrize("kind", [bool, np.float32])
@pytest.mark.parametrize("causal", [False, True])
def test_masks_and_queries_that_see_nothing(target: Target, kind, causal):
    q, k, v = (random((2, 2, 19, 12), i) for i in range(3))
    seen = np.random.default_rng(3).random((2, 2, 19, 19)) < 0.7
    seen[0, 1, 5] = False
    mask = seen if kind is bool else np.where(seen, random(seen.shape, 4), -np.inf)
    check(target, q, k, v, causal=causal, mask=mask.astype(kind))


def test_broadcast_heads_and_other_strides(wide: Target):
    q = random((2, 30, 4, 16)).transpose(0, 2, 1, 3)
    k, v = (np.broadcast_to(random((2, 1, 30, 16), i), (2, 4, 30, 16)) for i in (1, 2))
    mask = np.broadcast_to(random((30, 30), 3), (2, 4, 30, 30))
    check(wide, q, k, v, mask=mask)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_share_keys(target: Target, rows, causal):
    """Queries lie by heads, or by rows, so that the heads of two batches are no single axis."""
    q, k, v = random((2, 6, 13, 8)), random((2, 2, 13, 8), 1), random((2, 2, 13, 20), 2)
    if rows:
        q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v))
    check(target, q, k, v, causal=causal)
    check(target, q, k[:, :1], v[:, :1], causal=causal, mask=random((6, 1, 13), 3))


@pytest.mark.parametrize("shape", [(), (29,), (30, 1), (2, 1, 1, 29), (4, 30, 29)])
def test_masks_that_broadcast(wide: Target, shape):
    q, k, v = random((2, 4, 30, 16)), random((2, 4, 29, 16), 1), random((2, 4, 29, 16), 2)
    check(wide, q, k, v, mask=random(shape, 3))


def test_the_softmax_of_nothing_has_no_value(wide: Target):
    q, k, v = (random((1, 1, 5, 8), i) for i in range(3))
    mask = np.ones((5, 5), bool)
    mask[3] = False
    out = np.zeros((1, 1, 5, 8), np.float32)
    attrs = {"scale": 0.25, "causal": False, "safe": False}
    request = Request("attention", attrs, tuple(map(operand, (q, k, v, mask))), operand(out))
    run(TEMPLATE.plan(request, wide), (q, k, v, mask), out)
    assert np.isnan(out).any(-1).ravel().tolist() == [False, False, False, True, False]


def test_no_keys_and_no_queries(wide: Target):
    for safe in (False, True):
        check(wide, random((1, 2, 5, 8)), random((1, 2, 0, 8)), random((1, 2, 0, 8)), safe=safe)
    check(wide, random((1, 2, 0, 8)), random((1, 2, 5, 8)), random((1, 2, 5, 8)))


@pytest.mark.parametrize("n", [1, 30])
def test_symbolic_length(wide: Target, n):
    q, k, v = (random((2, 2, n, 16), i) for i in range(3))
    shape = (2, 2, symbol("n"), 16)
    check(wide, q, k, v, causal=True, symbols={"n": n}, shapes=(shape,) * 4)


def test_half_precision(wide: Target):
    q, k, v = (random((1, 1, 20, 16), i).astype(bf16.numpy) for i in range(3))
    check(wide, q, k, v, tolerance=2**-7)  # weights and results are rounded to bf16


def test_large_scores_do_not_overflow(wide: Target):
    q, k, v = (random((1, 1, 20, 16), i) for i in range(3))
    check(wide, q * 100, k * 100, v, tolerance=1e-3)
    assert bool_.is_bool


def double(tile, index, mask, arguments):
    assert len(index) == 4
    place = arguments[0] + index[0] * 20 * 16 + index[1] * 20 * 16 + index[2] * 16 + index[3]
    return tile * 2 + tl.load(place, mask)


def test_epilogue(wide: Target):
    q, k, v = (random((1, 1, 20, 16), i) for i in range(3))
    other, out = random((1, 1, 20, 16), 4), np.full((1, 1, 20, 16), np.nan, np.float32)
    epilogue = Epilogue(double, (operand(other),), f32, "double")
    attrs = {"scale": 0.25, "causal": False, "safe": False}
    request = Request("attention", attrs, tuple(map(operand, (q, k, v))), operand(out), epilogue)
    run(TEMPLATE.plan(request, wide), (q, k, v), out, extra=(other,))
    expected = reference(q, k, v, 0.25, False) * 2 + other
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2, 2)])
def test_any_batch_axes(wide: Target, batch):
    q, k, v = (random((*batch, 9, 16), i) for i in range(3))
    other, out = random((*batch, 9, 16), 4), np.full((*batch, 9, 16), np.nan, np.float32)

    def add(tile, index, mask, arguments):
        place = arguments[0]
        for number, stride in zip(index, other.strides, strict=True):
            place = place + number * (stride // 4)
        return tile + tl.load(place, mask)

    epilogue = Epilogue(add, (operand(other),), f32, f"add {batch}")
    attrs = {"scale": 0.25, "causal": True, "safe": False}
    request = Request("attention", attrs, tuple(map(operand, (q, k, v))), operand(out), epilogue)
    run(TEMPLATE.plan(request, wide), (q, k, v), out, extra=(other,))
    flat = (x.reshape(1, -1, 9, 16) for x in (q, k, v))
    expected = reference(*flat, 0.25, True).reshape(out.shape) + other
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_nan_stays_in_its_query_and_spoils_what_sees_its_key(wide: Target):
    q, k, v = (random((1, 1, 20, 16), i) for i in range(3))
    q[0, 0, 3, 5], k[0, 0, 12, 0] = np.nan, np.nan
    out = np.zeros_like(q)
    operands = tuple(map(operand, (q, k, v)))
    attrs = {"scale": 0.25, "causal": True, "safe": False}
    run(TEMPLATE.plan(Request("attention", attrs, operands, operand(out)), wide), (q, k, v), out)
    whole = np.ones(20, bool)
    whole[[3, *range(12, 20)]] = False
    expected = reference(q[:, :, whole], k[:, :, :12], v[:, :, :12], 0.25, False, None)
    assert np.isnan(out[0, 0, ~whole]).all()
    assert not np.isnan(out[0, 0, whole]).any()
    np.testing.assert_allclose(out[0, 0, 11], expected[0, 0, -1], rtol=1e-4, atol=1e-5)


@kernel
def powers(x: Ptr[tl.float32], y: Ptr[tl.float32], SIZE: constexpr) -> None:
    """y = 2**x."""
    lane = tl.arange(0, SIZE)
    tl.store(y + lane, power(tl.load(x + lane)))


@pytest.mark.parametrize("interpreted", [False, True])
def test_powers_of_two(monkeypatch, interpreted):
    if interpreted:
        monkeypatch.setenv("TEENY_INTERPRET", "1")
    x = np.linspace(-126, 0, 1024, dtype=np.float32)
    x[:5] = -np.inf, -1e30, -127, np.nan, -126.5
    y = np.empty_like(x)
    powers[(1,)](x, y, SIZE=1024)
    expected = np.exp2(x[5:].astype(np.float64))
    np.testing.assert_allclose(y[5:], expected, rtol=1.2e-7)
    assert (y[:3] == 0).all()
    assert np.isnan(y[3])
    assert abs(y[4]) < 2.0**-125
