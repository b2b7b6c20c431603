"""Products of small integers are exact, whatever their layout and their number of rows."""

import numpy as np
import pytest
from teeny_core import Shape, f32, i8, i32, symbol, u8
from teeny_kernels.templates import matmul
from teeny_kernels.templates.matmul_integer import TEMPLATE
from teeny_kernels.testing import contiguous, operand, run
from teeny_triton import Target
from teeny_triton import language as tl
from teeny_triton.launch import Epilogue, Plan, Request

KINDS = [(i8, i8), (u8, i8), (i8, u8), (u8, u8)]


def integers(shape: Shape, dtype, seed: int = 0):
    values = np.random.default_rng(seed).integers(dtype.min, dtype.max + 1, shape)
    return values.astype(dtype.numpy)


def product(a, b):
    return a.astype(np.int64) @ b.astype(np.int64)


def plan_of(target: Target, a, b, ta: bool, tb: bool, out, epilogue=None) -> Plan:
    attrs = {"transpose_a": ta, "transpose_b": tb}
    request = Request("matmul_integer", attrs, (operand(a), operand(b)), operand(out), epilogue)
    plan = TEMPLATE.plan(request, target)
    assert plan is not None
    return plan


def check(target: Target, a, b, ta: bool = False, tb: bool = False) -> None:
    left, right = (a.swapaxes(-1, -2) if ta else a), (b.swapaxes(-1, -2) if tb else b)
    out = np.full((*left.shape[:-1], right.shape[-1]), -7, np.int32)
    run(plan_of(target, a, b, ta, tb, out), (a, b), out)
    np.testing.assert_array_equal(out, product(left, right))


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (13, 9, 5), (20, 35, 150)])
def test_layouts(target: Target, kinds, shape):
    m, n, k = shape
    for ta, tb in ((False, False), (False, True), (True, False), (True, True)):
        a = integers((k, m) if ta else (m, k), kinds[0])
        b = integers((n, k) if tb else (k, n), kinds[1], 1)
        check(target, a, b, ta, tb)


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_few_rows(monkeypatch, target: Target, rows):
    monkeypatch.setattr(matmul, "LEAST_WORK", 1)
    a, b = integers((rows, 37), i8), integers((41, 37), u8, 1)
    check(target, a, b, tb=True)
    check(target, a, np.ascontiguousarray(b.T))


def test_batches_and_strides(wide: Target):
    a, b = integers((2, 3, 14, 9), i8), integers((2, 3, 9, 11), u8, 1)
    check(wide, a, b)
    check(wide, a[0, 0, :, ::2], b[0, 0, 4:, :])


def test_nothing_to_sum(wide: Target):
    check(wide, integers((14, 0), i8), integers((0, 9), i8))


def test_epilogue(wide: Target):
    """Scale and round to f32 in the same launch."""
    a, b = integers((14, 20), i8), integers((20, 21), i8, 1)
    scale = np.random.default_rng(2).random((14, 21)).astype(np.float32)

    def apply(tile, index, mask, arguments):
        row, column = index
        return tile.to(f32) * tl.load(arguments[0] + row * 21 + column, mask)

    epilogue = Epilogue(apply, (contiguous((14, 21), f32),), f32, "scale")
    out = np.zeros((14, 21), np.float32)
    plan = plan_of(wide, a, b, False, False, np.zeros((14, 21), np.int32), epilogue)
    assert len(plan.launches) == 1
    run(plan, (a, b), out, extra=(scale,))
    np.testing.assert_array_equal(out, product(a, b).astype(np.float32) * scale)


def test_symbolic_sizes(wide: Target):
    m, n, k = symbol("m"), symbol("n"), symbol("k")
    operands = (contiguous((m, k), i8), contiguous((k, n), i8))
    attrs = {"transpose_a": False, "transpose_b": False}
    plan = TEMPLATE.plan(Request("matmul_integer", attrs, operands, contiguous((m, n), i32)), wide)
    assert plan is not None
    for sizes in ((3, 5, 7), (15, 40, 130)):
        a, b = integers((sizes[0], sizes[2]), i8), integers((sizes[2], sizes[1]), i8, 1)
        out = np.zeros(sizes[:2], np.int32)
        run(plan, (a, b), out, symbols=dict(zip("mnk", sizes, strict=True)))
        np.testing.assert_array_equal(out, product(a, b))
