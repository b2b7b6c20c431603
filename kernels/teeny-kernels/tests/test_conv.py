import numpy as np
import pytest
from teeny_core.op import Attrs, get
from teeny_kernels.templates import conv, conv_grad_weight
from teeny_kernels.testing import operand, run
from teeny_triton import Target
from teeny_triton.launch import Request

# images, channels, height, width, filters, kernel, stride, padding, dilation, groups
SHAPES = {
    "lenet1": (2, 1, 12, 12, 6, (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), 1),
    "lenet2": (2, 6, 9, 9, 16, (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "wide": (1, 3, 5, 37, 4, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1),
    "stride": (2, 5, 11, 10, 19, (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 1),
    "point": (1, 20, 4, 5, 37, (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    "point stride": (1, 7, 6, 5, 18, (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), 1),
    "uneven": (1, 4, 8, 9, 5, (2, 3), (1, 2), ((0, 1), (2, 0)), (1, 1), 1),
    "dilated": (1, 3, 9, 11, 17, (3, 2), (1, 1), ((2, 1), (1, 2)), (2, 3), 1),
    "groups": (2, 6, 6, 7, 8, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    "depthwise": (2, 5, 7, 18, 5, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 5),
    "large padding": (1, 2, 3, 3, 3, (4, 4), (1, 1), ((3, 3), (3, 3)), (1, 1), 1),
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


@pytest.mark.parametrize("name", SHAPES)
def test_forward(target: Target, name):
    attrs, x, w, dy = case(name)
    check(conv.CONV, "conv2d", attrs, (x, w), dy.shape, target)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_input(target: Target, name):
    attrs, x, w, dy = case(name)
    attrs["input_shape"] = x.shape
    check(conv.CONV, "conv2d_grad_input", attrs, (dy, w), x.shape, target)


@pytest.mark.parametrize("name", SHAPES)
def test_gradient_of_weight(target: Target, name):
    attrs, x, w, dy = case(name)
    attrs["weight_shape"] = w.shape
    check(conv_grad_weight.TEMPLATE, "conv2d_grad_weight", attrs, (x, dy), w.shape, target)
