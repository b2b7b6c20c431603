"""The templates' kernels, sanitised: no access out of bounds, no race, no offset that overflows."""

import numpy as np
import pytest
from teeny_core import f32
from teeny_core.op import Attrs, get
from teeny_kernels import TEMPLATES
from teeny_kernels.testing import operand, run
from teeny_triton import Target, sanitize
from teeny_triton.launch import Request

PLAIN = {"transpose_a": False, "transpose_b": False}


def sliding(stride=1, padding=0, **more):
    return {"stride": (stride,) * 2, "padding": ((padding,) * 2,) * 2, **more}


def attending(causal=False):
    return {"causal": causal, "safe": False, "scale": 0.3}


CASES = {
    "matmul": ("matmul", PLAIN, (17, 9), (9, 21)),
    "batched matmul": ("matmul", PLAIN, (2, 5, 33), (2, 33, 18)),
    "row times matrix": ("matmul", PLAIN, (1, 40), (40, 35)),
    "convolution": (
        "conv2d",
        sliding(padding=1, dilation=(1, 1), groups=1),
        (1, 3, 7, 9),
        (5, 3, 3, 3),
    ),
    "strided convolution": (
        "conv2d",
        sliding(2, 1, dilation=(1, 1), groups=2),
        (1, 4, 7, 9),
        (6, 2, 3, 3),
    ),
    "maxima": ("max_pool2d", sliding(2, 1, kernel=(3, 3)), (1, 2, 7, 19)),
    "attention": ("attention", attending(), *((1, 2, 19, 8),) * 3),
    "causal attention": ("attention", attending(causal=True), *((2, 11, 8),) * 3),
    "attention with shared heads and a bias": (
        "attention",
        attending(causal=True),
        *((1, 4, 9, 8), (1, 2, 11, 8), (1, 2, 11, 8), (4, 1, 11)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_findings(target: Target, name):
    op, attrs, *shapes = CASES[name]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(f32.numpy) for shape in shapes]
    reference = get(op).reference(Attrs(attrs), *(x.astype(np.float64) for x in inputs))
    out = np.full(reference.shape, np.nan, np.float32)
    request = Request(op, attrs, tuple(map(operand, inputs)), operand(out))
    plans = (template.plan(request, target) for template in TEMPLATES if op in template.ops)
    run(next(plan for plan in plans if plan is not None), inputs, out, execute=sanitize)
    np.testing.assert_allclose(out, reference, rtol=1e-4, atol=1e-4)
