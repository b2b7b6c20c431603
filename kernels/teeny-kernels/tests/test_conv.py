import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import bf16, f16, f32, f64, i64, symbol
from teeny_core.op import Attrs, get
from teeny_kernels.templates import (
    conv,
    conv_channels,
    conv_cut,
    conv_grad_weight,
    conv_rows,
    conv_taps,
    conv_winograd,
)
from teeny_kernels.testing import contiguous, operand, run
from teeny_triton import Target
from teeny_triton import language as tl
from teeny_triton.launch import Epilogue, Request, ScalarArg

# images, channels, height, width, filters, kernel, stride, padding, dilation, groups
SHAPES = {
    "lenet1": (2, 1, 9, 9, 6, (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), 1),
    "lenet2": (1, 6, 8, 8, 16, (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "wide": (1, 3, 5, 37, 4, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "stride": (1, 5, 9, 10, 19, (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    "point": (1, 20, 4, 5, 37, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "point stride": (1, 7, 6, 5, 18, (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    "uneven": (1, 4, 8, 9, 5, (2, 3), (1, 2), ((0, 1), (2, 0)), (1, 1), 1),
    "dilated": (1, 3, 9, 11, 17, (3, 2), (1, 1), ((2, 1), (1, 2)), (2, 3), 1),
    "groups": (2, 6, 6, 7, 8, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    "depthwise": (2, 5, 7, 18, 5, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 5),
    "few": (2, 1, 9, 23, 3, (3, 4), (2, 2), ((1, 1), (2, 0)), (1, 1), 1),
    "large padding": (1, 2, 3, 3, 3, (4, 4), (1, 1), ((3, 3), (3, 3)), (1, 1), 1),
    "rows over kernel": (1, 4, 8, 31, 4, (2, 2), (3, 1), ((2, 2), (0, 0)), (1, 1), 1),
    "stride over kernel": (1, 2, 9, 9, 3, (2, 2), (3, 3), ((1, 0), (0, 1)), (1, 1), 1),
}


def case(name, seed=0):
    n, c, h, w, f, kernel, stride, padding, dilation, groups = SHAPES[name]
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, c, h, w)).astype(np.float32)
    weight = rng.standard_normal((f, c // groups, *kernel)).astype(np.float32)
    y = get("conv2d").reference(Attrs(attrs), x.astype(np.float64), weight.astype(np.float64))
    dy = rng.standard_normal(y.shape).astype(np.float32)
    return attrs, x, weight, dy


def check(template, op, attrs, inputs, shape, target, **changes):
    out = np.full(shape, np.nan, np.float32)
    reference = get(op).reference(Attrs(attrs), *(a.astype(np.float64) for a in inputs))
    request = Request(op, attrs, tuple(map(operand, inputs)), operand(out), **changes)
    plan = template.plan(request, target)
    assert plan is not None
    run(plan, inputs, out)
    np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-4)
    return plan


@pytest.mark.parametrize("name", ["uneven", "groups", "stride"])
@pytest.mark.parametrize("width", ["narrow", "scalar"])
def test_other_widths(request: pytest.FixtureRequest, width, name):
    machine = request.getfixturevalue(width)
    attrs, x, w, dy = case(name)
    check(conv.CONV, "conv2d", attrs, (x, w), dy.shape, machine)
    attrs = {**attrs, "input_shape": x.shape, "weight_shape": w.shape}
    check(conv.CONV, "conv2d_grad_input", attrs, (dy, w), x.shape, machine)
    grad = conv_grad_weight.TEMPLATE
    check(grad, "conv2d_grad_weight", attrs, (x, dy), w.shape, machine)


@pytest.mark.parametrize("name", SHAPES)
def test_forward(wide: Target, name):
    attrs, x, w, dy = case(name)
    check(conv.CONV, "conv2d", attrs, (x, w), dy.shape, wide)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_input(wide: Target, name):
    attrs, x, w, dy = case(name)
    attrs["input_shape"] = x.shape
    check(conv.CONV, "conv2d_grad_input", attrs, (dy, w), x.shape, wide)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_weight(wide: Target, name):
    attrs, x, w, dy = case(name)
    attrs["weight_shape"] = w.shape
    check(conv_grad_weight.TEMPLATE, "conv2d_grad_weight", attrs, (x, dy), w.shape, wide)


ALGORITHMS = {"rows": conv_rows, "channels": conv_channels, "taps": conv_taps}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "name", ["lenet1", "wide", "stride", "uneven", "dilated", "large padding", "groups"]
)
def test_each_algorithm(wide: Target, monkeypatch: pytest.MonkeyPatch, algorithm, name):
    """Whatever is fastest, all give the same."""

    def choose(of, dtype, target, pool, sides):
        cut = ALGORITHMS[algorithm].choose(of, dtype, target)
        return [cut] if cut else []

    monkeypatch.setattr(conv, "_cuts", choose)
    attrs, x, w, dy = case(name)
    attrs["input_shape"] = x.shape
    for op, inputs, shape in (
        ("conv2d", (x, w), dy.shape),
        ("conv2d_grad_input", (dy, w), x.shape),
    ):
        operands = tuple(map(operand, inputs))
        request = Request(op, attrs, operands, contiguous(shape, f32))
        if conv.CONV.plan(request, wide) is not None:
            check(conv.CONV, op, attrs, inputs, shape, wide)


@pytest.mark.parametrize("name", ["lenet2", "stride", "point", "groups"])
def test_parts_of_channels(target: Target, monkeypatch: pytest.MonkeyPatch, name):
    """A panel of filters that is too large for the first cache is summed part by part."""
    monkeypatch.setattr(conv_channels, "_depth", lambda t, target: 2)

    def choose(of, dtype, target, pool, sides):
        return [conv_channels.choose(of, dtype, target, pool=pool)]

    monkeypatch.setattr(conv, "_cuts", choose)
    attrs, x, w, dy = case(name)
    x[0, 0, 1, 1], x[0, -1, -1, -1] = np.nan, np.inf
    check(conv.CONV, "conv2d", attrs, (x, w), dy.shape, target)
    if name == "lenet2":
        check_pooled(attrs, x, w, dy.shape, target)


@pytest.mark.parametrize("name", ["lenet1", "lenet2", "wide", "stride", "depthwise", "few"])
def test_with_relu_and_pooling(target: Target, name):
    attrs, x, w, dy = case(name)
    x[0, 0, 1, 1] = np.nan
    check_pooled(attrs, x, w, dy.shape, target)


def check_pooled(attrs, x, w, shape, target):
    bias = np.random.default_rng(2).standard_normal(w.shape[0]).astype(np.float32)
    n, f, rows, columns = shape
    out = np.full((n, f, rows // 2, columns // 2), np.nan, np.float32)
    request = Request(
        "conv2d_relu_max_pool2d", attrs, (operand(x), operand(w), operand(bias)), operand(out)
    )
    plan = conv.CONV_POOL.plan(request, target)
    assert plan is not None
    run(plan, (x, w, bias), out)
    y = get("conv2d").reference(Attrs(attrs), *(a.astype(np.float64) for a in (x, w)))
    y = np.maximum(y + bias[:, None, None], 0)
    pool = {"kernel": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))}
    reference = get("max_pool2d").reference(Attrs(pool), y)
    np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["conv2d", "conv2d_grad_input", "conv2d_grad_weight"])
@pytest.mark.parametrize("name", ["lenet1", "lenet2"])
@pytest.mark.parametrize("n", [0, 9])
def test_symbolic_batch(wide: Target, op, name, n):
    attrs, x, w, dy = case(name)
    x, dy = (np.concatenate([a] * 9)[:n] for a in (x, dy))
    batch = symbol("n")
    images = {a: (batch, *array.shape[1:]) for a, array in (("x", x), ("dy", dy))}
    inputs, shapes, shape = {
        "conv2d": ((x, w), (images["x"], w.shape), images["dy"]),
        "conv2d_grad_input": ((dy, w), (images["dy"], w.shape), images["x"]),
        "conv2d_grad_weight": ((x, dy), (images["x"], images["dy"]), w.shape),
    }[op]
    real = {"input_shape": x.shape, "weight_shape": w.shape}
    out = np.full(tuple(n if d == batch else d for d in shape), np.nan, np.float32)
    operands = tuple(contiguous(s, f32) for s in shapes)
    request = Request(op, {**attrs, "input_shape": images["x"]}, operands, contiguous(shape, f32))
    template = conv_grad_weight.TEMPLATE if op.endswith("weight") else conv.CONV
    run(template.plan(request, wide), inputs, out, symbols={"n": n})
    if n == 0:
        assert not out.any()
        return
    exact = (a.astype(np.float64) for a in inputs)
    reference = get(op).reference(Attrs({**attrs, **real}), *exact)
    np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-3)


def add_and_relu(tile, index, mask, arguments):
    place = arguments[0]
    for number, stride in zip(index, arguments[1:], strict=True):
        place = place + number * stride
    return tl.maximum(tile + tl.load(place, mask), 0.0)


@pytest.mark.parametrize("op", ["conv2d", "conv2d_grad_input", "conv2d_grad_weight"])
@pytest.mark.parametrize("name", ["lenet1", "stride", "groups", "point"])
def test_epilogue(wide: Target, op, name):
    attrs, x, w, dy = case(name)
    inputs, like = {
        "conv2d": ((x, w), dy),
        "conv2d_grad_input": ((dy, w), x),
        "conv2d_grad_weight": ((x, dy), w),
    }[op]
    attrs = {**attrs, "input_shape": x.shape, "weight_shape": w.shape}
    other, out = like.copy(), np.full(like.shape, np.nan, np.float32)
    strides = tuple(ScalarArg(s // 4, i64) for s in other.strides)
    epilogue = Epilogue(add_and_relu, (operand(other),), f32, "add and relu", strides)
    template = conv_grad_weight.TEMPLATE if op.endswith("weight") else conv.CONV
    request = Request(op, attrs, tuple(map(operand, inputs)), operand(out), epilogue)
    run(template.plan(request, wide), inputs, out, extra=(other,))
    exact = (a.astype(np.float64) for a in inputs)
    reference = np.maximum(get(op).reference(Attrs(attrs), *exact) + other, 0)
    np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [f64, bf16])
@pytest.mark.parametrize("name", ["lenet1", "stride", "depthwise"])
def test_dtypes(wide: Target, dtype, name):
    attrs, x, w, dy = case(name)
    x, w, dy = (a.astype(dtype.numpy) for a in (x, w, dy))
    attrs = {**attrs, "input_shape": x.shape, "weight_shape": w.shape}
    tolerance = 1e-10 if dtype == f64 else 2e-2
    for op, inputs, shape in (
        ("conv2d", (x, w), dy.shape),
        ("conv2d_grad_input", (dy, w), x.shape),
        ("conv2d_grad_weight", (x, dy), w.shape),
    ):
        out = np.zeros(shape, dtype.numpy)
        template = conv_grad_weight.TEMPLATE if op.endswith("weight") else conv.CONV
        run(
            template.plan(Request(op, attrs, tuple(map(operand, inputs)), operand(out)), wide),
            inputs,
            out,
        )
        exact = (a.astype(np.float64) for a in inputs)
        reference = get(op).reference(Attrs(attrs), *exact)
        scale = np.abs(reference).max()
        np.testing.assert_allclose(out.astype(float), reference, atol=tolerance * scale)


def winograd(monkeypatch: pytest.MonkeyPatch, side: int = 2):
    """Have Winograd's algorithm with tiles of a side serve whatever it can."""
    monkeypatch.setattr(conv_winograd, "LEAST_CHANNELS", 1)
    monkeypatch.setattr(conv_winograd, "LEAST_ROWS", 1)

    def choose(of, dtype, target, pool, sides):
        cut = conv_winograd.choose(of, dtype, target, side)
        return [cut] if cut else []

    monkeypatch.setattr(conv, "_cuts", choose)


CENTRED = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)}

# images, channels, height, width, filters, padding of rows and columns, groups
WINOGRAD = {
    "odd": (2, 3, 7, 9, 11, ((1, 1), (1, 1)), 1),
    "even": (1, 2, 6, 8, 5, ((1, 1), (1, 1)), 1),
    "wide": (1, 2, 5, 37, 4, ((0, 0), (0, 0)), 1),
    "uneven": (1, 3, 5, 6, 3, ((0, 2), (2, 1)), 1),
    "large padding": (1, 2, 2, 3, 3, ((3, 3), (4, 3)), 1),
    "groups": (2, 6, 6, 7, 8, ((1, 1), (1, 1)), 2),
    "rows of programs": (1, 1, 5, 80, 3, ((1, 1), (1, 1)), 1),
}


@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("op", ["conv2d", "conv2d_grad_input"])
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd(target: Target, monkeypatch: pytest.MonkeyPatch, name, op, side):
    winograd(monkeypatch, side)
    n, c, h, w, f, padding, groups = WINOGRAD[name]
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((n, c, h, w)), rng.standard_normal((f, c // groups, 3, 3))
    attrs = {**CENTRED, "padding": padding, "groups": groups}
    shape = get("conv2d").reference(Attrs(attrs), x, weight).shape
    inputs = (x, weight)
    if op == "conv2d_grad_input":
        attrs["input_shape"], shape = x.shape, x.shape
        inputs = (
            rng.standard_normal(get("conv2d").reference(Attrs(attrs), x, weight).shape),
            weight,
        )
    inputs = tuple(a.astype(np.float32) for a in inputs)
    plan = check(conv.CONV, op, attrs, inputs, shape, target)
    assert [launch.function.name for launch in plan.launches][-1] == "conv_winograd"


@pytest.mark.parametrize("side", [2, 4])
def test_winograd_over_runs_of_panels(target: Target, monkeypatch: pytest.MonkeyPatch, side):
    winograd(monkeypatch, side)
    monkeypatch.setattr(conv_winograd, "LEAST_FILTERS", 8)
    monkeypatch.setattr(conv_winograd, "TILES", 4)
    monkeypatch.setattr(conv_cut, "FLOPS", 1000)
    attrs, x, w, _ = case("stride")
    attrs["stride"] = (1, 1)
    shape = get("conv2d").reference(Attrs(attrs), x, w).shape
    plan = check(conv.CONV, "conv2d", attrs, (x, w), shape, target)
    assert plan.launches[-1].grid[0] >= {2: 5, 4: 3}[side]


@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("images", [0, 1])
def test_winograd_with_an_epilogue_and_a_symbolic_batch(wide, monkeypatch, images, side):
    winograd(monkeypatch, side)
    attrs, x, w, dy = case("wide")
    batch = symbol("n")
    shapes = ((batch, *x.shape[1:]), w.shape)
    other, out = dy.copy(), np.full(dy.shape, np.nan, np.float32)
    strides = tuple(ScalarArg(s // 4, i64) for s in other.strides)
    epilogue = Epilogue(add_and_relu, (operand(other),), f32, "add and relu", strides)
    operands = tuple(contiguous(s, f32) for s in shapes)
    to = contiguous((batch, *dy.shape[1:]), f32)
    plan = conv.CONV.plan(Request("conv2d", attrs, operands, to, epilogue), wide)
    x, other, out = x[:images], other[:images], out[:images]
    run(plan, (x, w), out, extra=(other,), symbols={"n": images})
    exact = get("conv2d").reference(Attrs(attrs), *(a.astype(np.float64) for a in (x, w)))
    np.testing.assert_allclose(out, np.maximum(exact + other, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("side", [2, 4])
@pytest.mark.parametrize("dtype", [f64, f16, bf16])
def test_dtypes_of_winograd(wide: Target, monkeypatch: pytest.MonkeyPatch, dtype, side):
    winograd(monkeypatch, side)
    attrs, x, w, dy = case("wide")
    x, w = (a.astype(dtype.numpy) for a in (x, w))
    out = np.zeros(dy.shape, dtype.numpy)
    plan = conv.CONV.plan(Request("conv2d", attrs, (operand(x), operand(w)), operand(out)), wide)
    run(plan, (x, w), out)
    exact = get("conv2d").reference(Attrs(attrs), *(a.astype(np.float64) for a in (x, w)))
    tolerance = {f64: 2e-14, f16: 2.0**-10, bf16: 2.0**-8}[dtype]
    np.testing.assert_allclose(out.astype(np.float64), exact, tolerance, tolerance)


@pytest.mark.parametrize(("side", "first", "last"), [(2, 19, 22), (4, 16, 24)])
def test_winograd_keeps_a_nan_in_its_tiles(
    wide: Target, monkeypatch: pytest.MonkeyPatch, side: int, first: int, last: int
):
    winograd(monkeypatch, side)
    attrs, x, w, dy = case("wide")
    x[0, 1, 2, 20] = np.nan
    out = np.zeros(dy.shape, np.float32)
    request = Request("conv2d", attrs, (operand(x), operand(w)), operand(out))
    run(conv.CONV.plan(request, wide), (x, w), out)
    assert np.isnan(out[:, :, 1:4, 19:22]).all()
    assert np.isfinite(out[:, :, :, :first]).all()
    assert np.isfinite(out[:, :, :, last:]).all()


@settings(max_examples=6, deadline=None)
@given(st.tuples(*[st.integers(3, 7)] * 2, *[st.integers(0, 3)] * 4), st.sampled_from([2, 4]))
def test_winograd_of_any_size(wide: Target, sizes, side):
    """Edges of images and tiles meet in every way."""
    rows, columns, top, bottom, left, right = sizes
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 2, rows, columns)), rng.standard_normal((3, 2, 3, 3))
    shape = (1, 3, rows + top + bottom - 2, columns + left + right - 2)
    attrs = {**CENTRED, "padding": ((top, bottom), (left, right)), "groups": 1}
    inputs = (x.astype(np.float32), w.astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        winograd(patch, side)
        check(conv.CONV, "conv2d", attrs, inputs, shape, wide)


@pytest.mark.parametrize(
    ("options", "sides"),
    [({}, {2}), ({"fast": True}, {2, 4}), ({"fast": True, "direct": True}, set())],
)
def test_options_decide_on_tiles(wide: Target, options, sides):
    """Each way that may be tuned is one that they allow."""
    shape = (1, 64, 56, 56)
    operands = tuple(contiguous(s, f32) for s in (shape, (64, 64, 3, 3)))
    request = Request("conv2d", CENTRED | {"groups": 1}, operands, operands[0], options=options)
    plans = list(conv.CONV.plans(request, wide))
    by_tiles = [plan for plan in plans if plan.launches[-1].function.name == "conv_winograd"]
    numbers = {plan.temps[0].size // 64**2 for plan in by_tiles}  # of a transformed filter
    assert numbers == {(side + 2) ** 2 for side in sides}
    assert len(plans) > len(by_tiles)


@pytest.mark.parametrize("machine", ["wide", "narrow"])
def test_pixels_that_no_tap_reaches(request: pytest.FixtureRequest, machine):
    """A window of one pixel with a stride of 2 leaves three quarters of the image without work."""
    shape, weight, result = (1, 512, 56, 56), (512, 512, 1, 1), (1, 512, 28, 28)
    attrs = {**CENTRED, "stride": (2, 2), "padding": ((0, 0), (0, 0)), "groups": 1}
    attrs["input_shape"] = shape
    operands = tuple(contiguous(s, f32) for s in (result, weight))
    asked = Request("conv2d_grad_input", attrs, operands, contiguous(shape, f32))
    plan = conv.CONV.plan(asked, request.getfixturevalue(machine))
    assert plan is not None
    work = sum(launch.flops for launch in plan.launches)
    assert work == 2 * 512 * 512 * 28 * 28
