import numpy as np
import pytest
from teeny_core import f32, symbol
from teeny_core.op import Attrs, get
from teeny_kernels.templates.pool import TEMPLATE
from teeny_kernels.testing import contiguous, operand, run
from teeny_triton import Target
from teeny_triton import language as tl
from teeny_triton.launch import Epilogue, Request

NO = ((0, 0), (0, 0))
# shape, kernel, stride, padding
CASES = {
    "squares": ((2, 3, 6, 28), (2, 2), (2, 2), NO),
    "odd squares": ((2, 2, 5, 9), (2, 2), (2, 2), NO),
    "a column over": ((1, 2, 4, 33), (2, 2), (2, 2), NO),
    "overlapping": ((1, 2, 7, 19), (3, 3), (2, 2), ((1, 1), (1, 1))),
    "dense": ((1, 2, 5, 6), (2, 3), (1, 1), NO),
    "uneven": ((1, 1, 8, 7), (3, 2), (2, 3), ((1, 0), (1, 1))),
    "gaps": ((1, 1, 9, 11), (2, 2), (3, 4), NO),
    "all": ((2, 2, 4, 4), (4, 4), (4, 4), NO),
}
OPS = ("max_pool2d", "max_pool2d_grad", "avg_pool2d", "avg_pool2d_grad")


def build(op, name, count_pad=True):
    shape, kernel, stride, padding = CASES[name]
    attrs = {"kernel": kernel, "stride": stride, "padding": padding}
    if op.startswith("avg"):
        attrs["count_include_pad"] = count_pad
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, shape).astype(np.float32)
    pooled = get(op.removesuffix("_grad")).reference(Attrs(attrs), x)
    dy = rng.standard_normal(pooled.shape).astype(np.float32)
    if op == "avg_pool2d_grad":
        attrs["input_shape"] = shape
    inputs = {"max_pool2d_grad": (x, dy), "avg_pool2d_grad": (dy,)}.get(op, (x,))
    return attrs, inputs, shape if op.endswith("grad") else pooled.shape


def check(op, attrs, inputs, shape, target):
    out = np.full(shape, np.nan, np.float32)
    plan = TEMPLATE.plan(Request(op, attrs, tuple(map(operand, inputs)), operand(out)), target)
    assert plan is not None
    run(plan, inputs, out)
    reference = get(op).reference(Attrs(attrs), *inputs)
    np.testing.assert_allclose(out, reference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", CASES)
def test_against_the_reference(wide: Target, op, name):
    check(op, *build(op, name), wide)


@pytest.mark.parametrize("op", OPS)
def test_other_widths(target: Target, op):
    for name in ("squares", "a column over", "overlapping"):
        check(op, *build(op, name, count_pad=False), target)


@pytest.mark.parametrize("op", ["max_pool2d", "max_pool2d_grad"])
@pytest.mark.parametrize("name", ["squares", "overlapping"])
def test_nan_and_infinity(wide: Target, op, name):
    attrs, inputs, shape = build(op, name)
    rng = np.random.default_rng(1)
    for value in (np.nan, -np.inf, np.inf):
        inputs[0][rng.random(inputs[0].shape) < 0.3] = value
    inputs[0][0, 0] = -np.inf
    check(op, attrs, inputs, shape, wide)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("op", OPS)
def test_symbolic_batch(wide: Target, op, n):
    attrs, inputs, shape = build(op, "squares")
    inputs = tuple(np.repeat(a[:1], n, 0) for a in inputs)
    out = np.full((n, *shape[1:]), np.nan, np.float32)
    if "input_shape" in attrs:
        attrs["input_shape"] = (symbol("n"), *shape[1:])
    operands = tuple(contiguous((symbol("n"), *a.shape[1:]), f32) for a in inputs)
    request = Request(op, attrs, operands, contiguous((symbol("n"), *shape[1:]), f32))
    run(TEMPLATE.plan(request, wide), inputs, out, symbols={"n": n})
    attrs = {**attrs, "input_shape": (n, *shape[1:])} if "input_shape" in attrs else attrs
    np.testing.assert_allclose(out, get(op).reference(Attrs(attrs), *inputs), rtol=1e-6, atol=1e-6)


def masked(tile, index, mask, arguments):
    n, c, y, x = index
    place = arguments[0] + n * 3 * 6 * 28 + c * 6 * 28 + y * 28 + x
    return tl.where(tl.load(place, mask) > 0, tile, 0.0)


def test_epilogue(wide: Target):
    attrs, (x, dy), shape = build("max_pool2d_grad", "squares")
    out = np.full(shape, np.nan, np.float32)
    epilogue = Epilogue(masked, (operand(x),), f32, "relu mask")
    operands = (operand(x), operand(dy))
    request = Request("max_pool2d_grad", attrs, operands, operand(out), epilogue)
    run(TEMPLATE.plan(request, wide), (x, dy), out, extra=(x.copy(),))
    reference = get("max_pool2d_grad").reference(Attrs(attrs), x, dy) * (x > 0)
    np.testing.assert_array_equal(out, reference)


def test_windows_too_large_to_unroll(wide: Target):
    CASES["large"] = ((1, 2, 12, 20), (7, 9), (3, 4), ((2, 2), (4, 4)))
    for op in OPS:
        check(op, *build(op, "large", count_pad=False), wide)
