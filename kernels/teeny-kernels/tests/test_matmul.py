import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_core import bf16, f16, f32, f64, i32, symbol
from teeny_kernels.templates import matmul
from teeny_kernels.templates.matmul import TEMPLATE
from teeny_kernels.testing import contiguous, operand, run
from teeny_triton import Target
from teeny_triton import language as tl
from teeny_triton.launch import Epilogue, Request

TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 2e-2}


def attrs(a: bool = False, b: bool = False) -> dict[str, bool]:
    return {"transpose_a": a, "transpose_b": b}


def random(shape, dtype=f32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype.numpy)


def close(result, a, b):
    reference = a.astype(np.float64) @ b.astype(np.float64)
    scale = max(1.0, float(np.abs(reference).max(initial=0.0)))
    kind = {2: "f16", 4: "f32", 8: "f64"}[result.itemsize]
    kind = "bf16" if "bfloat16" in str(result.dtype) else kind
    error = np.abs(result.astype(np.float64) - reference).max(initial=0.0)
    assert error <= TOLERANCE[kind] * scale


def multiply(target, a, b, ta=False, tb=False, *, constant=False, dtype=f32, out=None):
    left, right = (a.swapaxes(-1, -2) if ta else a), (b.swapaxes(-1, -2) if tb else b)
    shape = (*left.shape[:-1], right.shape[-1])
    out = np.full(shape, np.nan, dtype.numpy) if out is None else out
    request = Request(
        "matmul", attrs(ta, tb), (operand(a), operand(b, constant=constant)), operand(out)
    )
    plan = TEMPLATE.plan(request, target)
    assert plan is not None
    run(plan, (a, b), out)
    close(out, left, right)
    return plan


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 19, 5), (33, 50, 17), (2, 70, 33)])
def test_layouts(target: Target, ta, tb, shape):
    m, n, k = shape
    a, b = random((k, m) if ta else (m, k)), random((n, k) if tb else (k, n), seed=1)
    multiply(target, a, b, ta, tb)
    multiply(target, a, b, ta, tb, constant=True)


def test_without_vectors(scalar: Target):
    for ta, tb in ((False, False), (False, True), (True, False)):
        a, b = random((5, 6) if ta else (6, 5)), random((7, 5) if tb else (5, 7), seed=1)
        multiply(scalar, a, b, ta, tb)


@pytest.mark.parametrize("dtype", [f64, f16, bf16])
def test_dtypes(wide: Target, dtype):
    for ta, tb in ((False, False), (False, True), (True, False)):
        a = random((9, 20) if ta else (20, 9), dtype)
        b = random((21, 9) if tb else (9, 21), dtype, 1)
        multiply(wide, a, b, ta, tb, dtype=dtype)
    assert (
        TEMPLATE.plan(
            Request("matmul", attrs(), (contiguous((2, 2), i32),) * 2, contiguous((2, 2), i32)),
            wide,
        )
        is None
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_few_rows(target: Target, rows):
    a, b = random((rows, 37)), random((41, 37), seed=1)
    multiply(target, a, b, tb=True)
    multiply(target, a, np.ascontiguousarray(b.T))


@pytest.fixture
def by_runs(monkeypatch):
    """Take any B for large: few rows are then multiplied by runs of it."""
    monkeypatch.setattr(matmul, "LEAST_WORK", 1)


@pytest.mark.parametrize("rows", [1, 3, 4, 14])
@pytest.mark.parametrize(("n", "k"), [(75, 19), (64, 8), (1, 1), (130, 33)])
def test_runs_of_few_rows(by_runs, monkeypatch, rows, n, k):
    """Caches and runs so small that B is cut into many runs and parts."""
    monkeypatch.setattr(matmul, "LEAST_RUN", 64)
    small = Target(
        "x86_64-unknown-linux-gnu", "", frozenset({"sse2"}), 128, 16, 4096, 8192, l3_bytes=16384
    )
    a, b = random((rows, k)), random((k, n), seed=1)
    (launch,) = multiply(small, a, b).launches
    assert launch.function.name == ("streamed" if rows <= matmul.MOST_STREAMED else "few_rows")
    multiply(small, np.ascontiguousarray(a.T), b, ta=True)
    multiply(small, a, random((k, n + 3), seed=2)[:, :n])


def test_constant_matrices_are_packed_for_few_rows_unless_their_own_rows_are_long(
    by_runs, monkeypatch, wide: Target
):
    a, b = random((2, 900)), random((900, 90), seed=1)
    packed = multiply(wide, a, b, constant=True)
    assert [launch.function.name for launch in packed.launches] == ["pack_columns", "matmul"]
    monkeypatch.setattr(matmul, "LONG_ROW", 90 * 4)
    (launch,) = multiply(wide, a, b, constant=True).launches
    assert launch.function.name == "streamed"


def test_runs_of_batches_and_narrow_types(by_runs, wide: Target):
    multiply(wide, random((3, 5, 21)), random((3, 21, 40), seed=1))
    multiply(wide, random((2, 9), bf16), random((9, 70), bf16, 1), dtype=bf16)


def test_what_is_not_finite_stays_in_its_column_of_a_run(by_runs, wide: Target):
    a, b = random((4, 9)), random((9, 50), seed=1)
    b[3, 49] = np.inf
    out = np.full((4, 50), np.nan, np.float32)
    request = Request("matmul", attrs(), (operand(a), operand(b)), operand(out))
    run(TEMPLATE.plan(request, wide), (a, b), out)
    assert np.isfinite(out[:, :49]).all()
    assert not np.isfinite(out[:, 49]).any()


size = st.integers(1, 40)


@settings(max_examples=25, deadline=None)
@given(size, size, size, st.booleans(), st.booleans(), st.sampled_from([4, 8]), st.integers(8, 32))
def test_any_sizes_and_machines(m, n, k, ta, tb, lanes, registers):
    target = Target("", "", frozenset(), lanes * 32, registers, l2_bytes=4096)
    a, b = random((k, m) if ta else (m, k)), random((n, k) if tb else (k, n), seed=1)
    multiply(target, a, b, ta, tb)


def test_empty_sizes(wide: Target):
    multiply(wide, random((0, 5)), random((5, 3)))
    multiply(wide, random((4, 0)), random((0, 3)))
    multiply(wide, random((4, 0)), random((3, 0)), tb=True)
    multiply(wide, random((4, 2)), random((2, 0)))
    multiply(wide, random((0, 4, 2)), random((0, 2, 3)))


def test_batches(wide: Target):
    a, b = random((2, 3, 9, 8)), random((2, 3, 8, 20), seed=1)
    assert len(multiply(wide, a, b).launches) == 1
    one = np.broadcast_to(b[:1, :1], b.shape)
    multiply(wide, a, one)
    multiply(wide, a, np.broadcast_to(b[:, :1], b.shape))
    multiply(wide, a.transpose(1, 0, 2, 3), b.transpose(1, 0, 2, 3))
    multiply(wide, random((2, 3, 1, 8)), random((2, 3, 20, 8)), tb=True)
    multiply(wide, a, b, constant=True)


def test_strided_operands(wide: Target):
    a, b = random((20, 40))[::2, 3:30], random((27, 90), seed=1)[:, 5:60]
    multiply(wide, a, b)
    multiply(wide, a, random((27, 90))[:, ::3])
    multiply(wide, a, b, out=np.full((10, 70), np.nan, np.float32)[:, :55])


@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("shape", [(12, 3, 5), (1, 16, 8), (33, 50, 17)])
def test_repeated_operands(wide: Target, which, axis, shape):
    """One number, row or column stands for all: strides of 0."""
    m, n, k = shape
    for ta, tb in ((False, False), (False, True), (True, False)):
        shapes = {"a": (k, m) if ta else (m, k), "b": (n, k) if tb else (k, n)}
        operands = {name: random(size, seed=i) for i, (name, size) in enumerate(shapes.items())}
        few = (
            [1, 1] if axis is None else [1 if i == axis else x for i, x in enumerate(shapes[which])]
        )
        operands[which] = np.broadcast_to(random(few, seed=2), shapes[which])
        multiply(wide, operands["a"], operands["b"], ta, tb)
        multiply(wide, operands["a"], operands["b"], ta, tb, constant=True)


def test_long_depth_in_parts():
    small = Target("x86_64-unknown-linux-gnu", "", frozenset(), 128, 16, l2_bytes=4096)
    a, b = random((9, 200)), random((18, 200), seed=1)
    multiply(small, a, b, tb=True)
    multiply(small, np.ascontiguousarray(a.T), b, ta=True, tb=True)


def test_packed_rows(wide: Target):
    for rows, depth in ((60, 40), (64, 33), (85, 40)):
        plan = multiply(wide, random((depth, rows)), random((depth, 256), seed=1), ta=True)
        assert len(plan.launches) == 2


def gelu_like(tile, index, mask, arguments):
    bias, other, scale = arguments
    at = index[0] * 21 + index[1]
    value = (tile + tl.load(bias + at, mask)) * scale
    tl.store(other + at, value, mask)
    return tl.maximum(value, 0.0)


@pytest.mark.parametrize("tb", [False, True])
def test_epilogue(target: Target, tb):
    check_epilogue(target, tb)


def test_epilogue_of_runs(by_runs, target: Target):
    check_epilogue(target, False)


def check_epilogue(target: Target, tb):
    from teeny_triton.launch import ScalarArg

    a, b = random((19, 33)), random((21, 33) if tb else (33, 21), seed=1)
    bias, other = random((19, 21), seed=2), np.full((19, 21), np.nan, np.float32)
    out = np.full((19, 21), np.nan, np.float64)
    epilogue = Epilogue(
        gelu_like, (operand(bias), operand(other)), f64, "test", (ScalarArg(0.5, f32),),
        frozenset({1}),
    )  # fmt: skip
    request = Request(
        "matmul", attrs(b=tb), (operand(a), operand(b)), contiguous((19, 21), f32), epilogue
    )
    plan = TEMPLATE.plan(request, target)
    assert plan is not None
    run(plan, (a, b), out, extra=(bias, other))
    value = (a.astype(np.float64) @ (b.T if tb else b) + bias) * 0.5
    np.testing.assert_allclose(other, value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out, np.maximum(value, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 5, 30])
@pytest.mark.parametrize("which", ["rows", "columns", "depth", "batch"])
def test_symbolic_sizes(target: Target, n, which):
    size = {"rows": 6, "columns": 18, "depth": 9, "batch": 2}
    shape = {**size, which: symbol("n")}
    size[which] = n

    def of(names, sizes):
        return tuple(sizes[name] for name in names)

    for ta, tb in ((False, False), (False, True), (True, False)):
        left = ("batch", "depth", "rows") if ta else ("batch", "rows", "depth")
        right = ("batch", "columns", "depth") if tb else ("batch", "depth", "columns")
        a, b = random(of(left, size)), random(of(right, size), seed=1)
        out = np.full(of(("batch", "rows", "columns"), size), np.nan, np.float32)
        operands = [contiguous(of(names, shape), f32) for names in (left, right)]
        result = contiguous(of(("batch", "rows", "columns"), shape), f32)
        plan = TEMPLATE.plan(Request("matmul", attrs(ta, tb), tuple(operands), result), target)
        assert plan is not None
        run(plan, (a, b), out, symbols={"n": n})
        close(out, a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b)


def test_nan_and_infinity_reach_the_result(wide: Target):
    a, b = random((5, 6)), random((6, 17), seed=1)
    a[2, 3], b[1, 4] = np.nan, np.inf
    out = np.zeros((5, 17), np.float32)
    request = Request("matmul", attrs(), (operand(a), operand(b)), operand(out))
    run(TEMPLATE.plan(request, wide), (a, b), out)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(a @ b))
