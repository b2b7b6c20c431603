"""Functions of the language, run in the interpreter, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i8, i16, i32, i64, u8, u32
from teeny_triton import KernelError, Ptr, build_function, interpret
from teeny_triton.language.promotion import computation_dtype

Run = Any


def arrays(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return (
        np.abs(values).astype(dtype.numpy) if dtype.kind == "uint" else values.astype(dtype.numpy)
    )


# --- promotion: rows of Triton's own tests, and where we differ on purpose ---


@pytest.mark.parametrize(
    ("a", "b", "result", "quotient"),
    [
        (i32, i32, i32, i32),
        (i8, i32, i32, i32),
        (i32, u32, u32, None),
        (u8, i32, i32, None),
        (i64, u32, i64, None),
        (i32, f16, f16, f32),
        (f16, bf16, f16, f32),
        (bf16, bf16, bf16, f32),
        (bf16, i32, f32, f32),
        (f16, f32, f32, f32),
        (i64, f32, f32, f32),
        (f64, bf16, f64, f64),
        (f8e4m3, f8e4m3, f32, f32),
        (f8e4m3, f16, f16, f32),
        (bool_, i8, i8, i8),
        (bool_, bool_, bool_, bool_),
    ],
)
def test_tiles_promote(a: DType, b: DType, result: DType, quotient: DType | None) -> None:
    for left, right in ((a, b), (b, a)):
        assert computation_dtype(left, right) == result
        if quotient is None:
            with pytest.raises(KernelError, match="one is signed, the other is not"):
                computation_dtype(left, right, division=True)
        else:
            assert computation_dtype(left, right, division=True) == quotient


@pytest.mark.parametrize(
    ("scalar", "tile", "result"),
    [
        (1, f16, f16),
        (1.5, bf16, bf16),
        (1.5, i32, f32),
        (1e300, i32, f64),
        (1e300, f32, f32),
        (3, i8, i8),
        (3, bool_, i32),
        (True, i8, i8),
        (2**40, bool_, i64),
        (2**31, bool_, u32),
        (0.5, f8e5m2, f32),
    ],
)
def test_python_numbers_are_weak(scalar: float, tile: DType, result: DType) -> None:
    assert computation_dtype(scalar, tile) == result
    assert computation_dtype(tile, scalar) == result


def test_numbers_must_fit(run: Run) -> None:
    with pytest.raises(KernelError, match="300 does not fit u8"):
        run(lambda x: x + 300, np.zeros(2, np.uint8))


# --- operators ---

OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
BITS = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [i32, i64, u8, f32, f64], ids=str)
@pytest.mark.parametrize("shapes", [((), ()), ((5,), ()), ((3, 1), (4,)), ((2, 1, 3), (4, 1))])
def test_operators(run: Run, name: str, dtype: DType, shapes: Any) -> None:
    operator = OPERATORS[name]
    a, b = (arrays(shape, dtype, seed) for seed, shape in enumerate(shapes))
    with np.errstate(all="ignore"):
        expected = operator(a, b)
    np.testing.assert_array_equal(run(operator, a, b), expected)


BITWISE = [(name, dtype) for name in BITS for dtype in (i32, u8)]
BITWISE += [(name, bool_) for name in BITS if not name.startswith("sh")]


@pytest.mark.parametrize(("name", "dtype"), BITWISE, ids=str)
def test_bitwise_operators(run: Run, name: str, dtype: DType) -> None:
    a, b = arrays((7,), dtype), np.abs(arrays((7,), dtype, 1))
    np.testing.assert_array_equal(run(BITS[name], a, b), BITS[name](a, b))


def test_division_of_integers_gives_f32(run: Run) -> None:
    got = run(lambda a, b: a / b, np.int32([7, -7]), np.int32([2, 2]))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, [3.5, -3.5])


def test_floor_semantics(run: Run) -> None:
    a, b = np.int32([-7, -7, 7, 7]), np.int32([2, 3, -3, 2])
    quotient, rest = run(lambda x, y: (x // y, x % y), a, b)
    np.testing.assert_array_equal(quotient, [-4, -3, -3, 3])
    np.testing.assert_array_equal(rest, [1, 2, -2, 1])


def test_reflected_and_unary_operators(run: Run) -> None:
    x = np.int32([1, 2, 3])
    np.testing.assert_array_equal(run(lambda x: 10 - x, x), 10 - x)
    np.testing.assert_array_equal(run(lambda x: 2**x, x), 2**x)
    np.testing.assert_array_equal(run(lambda x: 7 // x, x), 7 // x)
    np.testing.assert_array_equal(run(lambda x: -x, x), -x)
    np.testing.assert_array_equal(run(lambda x: ~x, x), ~x)
    np.testing.assert_array_equal(run(lambda x: abs(-x), x), x)
    np.testing.assert_array_equal(run(lambda x: ~(x > 1), x), ~(x > 1))
    np.testing.assert_array_equal(run(lambda x: (x > 1) + (x > 2), x), [0, 1, 2])


def test_truth_of_a_tile_is_refused(run: Run) -> None:
    with pytest.raises(KernelError, match="known only when the kernel runs"):
        run(lambda x: x if x > 0 else -x, np.int32(1))


def test_where_fma_clamp_cdiv(run: Run) -> None:
    x = np.float32([-2, 0.5, 3, np.nan])
    np.testing.assert_array_equal(run(lambda x: tl.where(x > 0, x, 0), x), [0, 0.5, 3, 0])
    np.testing.assert_array_equal(run(lambda x: tl.clamp(x, -1, 1), x), [-1, 0.5, 1, -1])
    every = tl.PropagateNan.ALL
    got = run(lambda x: tl.clamp(x, -1, 1, every), x)
    np.testing.assert_array_equal(got, [-1, 0.5, 1, np.nan])
    np.testing.assert_array_equal(run(lambda x: tl.fma(x, 2, 1), x), x * 2 + 1)
    n = np.int32([0, 1, 8, 9])
    np.testing.assert_array_equal(run(lambda n: tl.cdiv(n, 8), n), [0, 1, 1, 2])
    assert tl.cdiv(9, 8) == 2


def test_where_keeps_narrow_and_bool(run: Run) -> None:
    x = np.array([1.5, -2], ml_dtypes.float8_e4m3fn)
    got = run(lambda x: tl.where(x.to(f32) > 0, x, tl.zeros_like(x)), x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.astype(np.float32), [1.5, 0])


# --- moving elements ---


def test_indexing(run: Run) -> None:
    x = arrays((3, 4), i32)
    np.testing.assert_array_equal(run(lambda x: x[:, None, :], x), x[:, None, :])
    np.testing.assert_array_equal(run(lambda x: x[None], x), x[None])
    np.testing.assert_array_equal(run(lambda x: x[..., None], x), x[..., None])
    with pytest.raises(KernelError, match="indexed by `:` and None only"):
        run(lambda x: x[0], x)
    with pytest.raises(KernelError, match="has 2 axes, not 3"):
        run(lambda x: x[:, :, :], x)


def test_shapes(run: Run) -> None:
    x = arrays((2, 3, 4), f32)
    np.testing.assert_array_equal(run(lambda x: x.reshape(6, 4), x), x.reshape(6, 4))
    np.testing.assert_array_equal(run(lambda x: x.reshape((-1, 2)), x), x.reshape(-1, 2))
    np.testing.assert_array_equal(run(lambda x: tl.trans(x), x), x.swapaxes(1, 2))
    np.testing.assert_array_equal(run(lambda x: x.permute(2, 0, 1), x), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(run(lambda x: tl.permute(x, (-1, 1, 0)), x), x.transpose(2, 1, 0))
    np.testing.assert_array_equal(run(lambda x: tl.expand_dims(x, (0, -1)), x), x[None, ..., None])
    np.testing.assert_array_equal(run(tl.ravel, x), x.ravel())
    np.testing.assert_array_equal(
        run(lambda x: tl.broadcast_to(x, (5, 2, 3, 4)), x), np.broadcast_to(x, (5, 2, 3, 4))
    )
    with pytest.raises(KernelError, match=r"reshape\(tile<2x3x4xf32>\): cannot become tile<5xf32>"):
        run(lambda x: x.reshape(5), x)
    with pytest.raises(KernelError, match="do not broadcast"):
        run(lambda x: x + x.reshape(4, 3, 2), x)


def test_join_split_interleave_cat(run: Run) -> None:
    a, b = arrays((3, 4), i16), arrays((3, 4), i16, 1)
    np.testing.assert_array_equal(run(tl.join, a, b), np.stack([a, b], -1))
    first, second = run(lambda a, b: tl.split(tl.join(a, b)), a, b)
    np.testing.assert_array_equal(first, a)
    np.testing.assert_array_equal(second, b)
    np.testing.assert_array_equal(run(tl.interleave, a, b), np.stack([a, b], -1).reshape(3, 8))
    for dim in (0, 1):
        got = run(lambda a, b, dim=dim: tl.cat(a, b, dim=dim), a, b)
        np.testing.assert_array_equal(got, np.concatenate([a, b], dim))


def test_creation(run: Run) -> None:
    x = np.int32(3)
    np.testing.assert_array_equal(run(lambda x: tl.arange(2, 7) + x, x), np.arange(2, 7) + 3)
    np.testing.assert_array_equal(run(lambda x: tl.full((2, 2), x, f32), x), np.full((2, 2), 3.0))
    np.testing.assert_array_equal(run(lambda x: tl.full((2,), 1, "int8"), x), np.int8([1, 1]))
    got = run(lambda x: tl.zeros((4,), tl.float16), x)
    assert got.dtype == np.float16


@pytest.mark.parametrize("source", [bool_, i8, u8, i32, i64, f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("target", [bool_, i8, i32, u32, f16, bf16, f32, f64, f8e5m2], ids=str)
def test_casts(run: Run, source: DType, target: DType) -> None:
    x = np.abs(arrays((6,), source)) if target.kind == "uint" else arrays((6,), source)
    wide = x.astype(np.float64) if source.is_float else x
    expected = wide != 0 if target.is_bool else wide.astype(target.numpy)
    got = run(lambda x: x.to(target), x)
    assert got.dtype == target.numpy
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


def test_bitcast(run: Run) -> None:
    x = np.float32([1.0, -0.0])
    got = run(lambda x: x.to(i32, bitcast=True), x)
    np.testing.assert_array_equal(got, x.view(np.int32))
    with pytest.raises(KernelError, match="the sizes differ"):
        run(lambda x: x.to(i64, bitcast=True), x)


# --- reductions ---

SHAPES_AND_AXES = [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 1), ((2, 3, 4), -1)]


@pytest.mark.parametrize("kind", ["sum", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES)
@pytest.mark.parametrize("dtype", [i32, f32, bf16, i8], ids=str)
def test_reductions(run: Run, kind: str, shape: Any, axis: int, dtype: DType) -> None:
    x = arrays(shape, dtype)
    got = run(lambda x: getattr(tl, kind)(x, axis), x)
    expected = getattr(np, kind)(x.astype(np.float64), axis)
    np.testing.assert_array_equal(got.astype(np.float64), expected)
    if kind.startswith("arg"):
        assert got.dtype == np.int32


def test_reduction_dtypes_and_keep_dims(run: Run) -> None:
    x = arrays((3, 4), i8)
    assert run(lambda x: tl.sum(x, 0), x).dtype == np.int32
    assert run(lambda x: tl.sum(x, 0), x.astype(np.uint8)).dtype == np.uint32
    assert run(lambda x: tl.max(x, 0), x.astype(np.float16)).dtype == np.float32
    assert run(lambda x: tl.sum(x, 0), x.astype(np.float16)).dtype == np.float16
    assert run(lambda x: tl.sum(x, 1, keep_dims=True), x).shape == (3, 1)
    assert run(lambda x: tl.sum(x, keep_dims=True), x).shape == (1, 1)
    assert run(lambda x: tl.sum(x > 0), x) == (x > 0).sum()
    assert run(lambda x: x.max(), x) == x.max()
    np.testing.assert_array_equal(
        run(lambda x: tl.xor_sum(x, 1), x), np.bitwise_xor.reduce(x, axis=1)
    )
    np.testing.assert_array_equal(run(lambda x: tl.prod(x, 1), x), x.astype(int).prod(1))
    value, place = run(lambda x: tl.max(x, 1, return_indices=True), x)
    np.testing.assert_array_equal(value, x.max(1))
    np.testing.assert_array_equal(place, x.argmax(1))


def test_reduce_by_a_function_keeps_order(run: Run) -> None:
    x = arrays((4, 8), f32)

    def compose(scale0: Any, shift0: Any, scale1: Any, shift1: Any) -> Any:
        return scale0 * scale1, shift0 * scale1 + shift1  # affine maps, not commutative

    scale, shift = run(lambda x: tl.reduce((x, x + 1), 1, compose), x)
    expected_scale, expected_shift = np.ones(4), np.zeros(4)
    for j in range(8):
        expected_scale *= x[:, j]
        expected_shift = expected_shift * x[:, j] + x[:, j] + 1
    np.testing.assert_allclose(scale, expected_scale)
    np.testing.assert_allclose(shift, expected_shift)
    np.testing.assert_array_equal(run(lambda x: tl.reduce(x, 0, tl.maximum), x), x.max(0))
    assert run(lambda x: tl.reduce(x, None, lambda a, b: a + b), x) == x.sum()
    np.testing.assert_array_equal(run(lambda x: tl.reduce(x, 0, tl.maximum), x[:3]), x[:3].max(0))


def test_softmax(run: Run) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(
        run(lambda x: tl.softmax(x, 1), x), e / e.sum(1, keepdims=True), 1e-6
    )
    e = np.exp(x.astype(np.float64) - x.max(0))
    np.testing.assert_allclose(run(tl.softmax, x), e / e.sum(0), 1e-6)


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16, i8, u8, f8e4m3, f8e5m2], ids=str)
def test_dot(run: Run, dtype: DType) -> None:
    a, b = arrays((5, 7), dtype), arrays((7, 3), dtype, 1)
    got = run(tl.dot, a, b)
    assert got.dtype == {f64: np.float64, i8: np.int32, u8: np.int32}.get(dtype, np.float32)
    np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64))
    start = np.ones((5, 3), got.dtype)
    np.testing.assert_array_equal(run(tl.dot, a, b, start), got + 1)


def test_dot_refuses(run: Run) -> None:
    with pytest.raises(KernelError, match="dot cannot multiply f16 by f32"):
        run(tl.dot, arrays((2, 2), f16), arrays((2, 2), f32))
    with pytest.raises(KernelError, match=r"dot takes \[M, K\] and \[K, N\]"):
        run(tl.dot, arrays((2, 3), f32), arrays((2, 3), f32))


# --- memory ---


def test_masks_and_other() -> None:
    with build_function("k", [("x", Ptr[f32]), ("y", Ptr[f32])]) as f:
        x, y = f.arguments
        i = tl.arange(0, 8)
        tl.store(y + i, tl.load(x + i, mask=i < 3, other=-1), mask=i != 1)
        tl.store(y + i + 8, tl.load(x + i, mask=i < 3))
    out = np.full(16, 9.0, np.float32)
    interpret(f.function, (1,), [np.float32([1, 2, 3]), out])
    np.testing.assert_array_equal(out, [1, 9, 3, -1, -1, -1, -1, -1, 1, 2, 3, 0, 0, 0, 0, 0])


def test_known_masks_fold() -> None:
    with build_function("k", [("x", Ptr[f32]), ("y", Ptr[f32])]) as f:
        x, y = f.arguments
        i = tl.arange(0, 4)
        never = tl.full((4,), False, bool_)
        tl.store(y + i, tl.load(x + i, mask=never, other=2.0) + tl.load(x + i, mask=never))
        tl.store(y + i, 1.0, mask=never)
        tl.store(y + i, tl.load(x + i, mask=~never), mask=True)
    opcodes = [op.opcode for op in f.function.body.ops]
    assert opcodes.count("store") == 2
    assert opcodes.count("load") == 1
    assert all(len(op.operands) < 3 for op in f.function.body.ops)


def test_stores_convert_and_broadcast() -> None:
    with build_function("k", [("y", Ptr[i8])]) as f:
        (y,) = f.arguments
        i = tl.arange(0, 2)[:, None] * 3 + tl.arange(0, 3)
        tl.store(y + i, tl.arange(0, 3) * 1.75)
    out = np.zeros((2, 3), np.int8)
    interpret(f.function, (1,), [out])
    np.testing.assert_array_equal(out, [[0, 1, 3], [0, 1, 3]])


def test_pointer_arithmetic() -> None:
    with build_function("k", [("x", Ptr[i32]), ("y", Ptr[i32]), ("n", i64)]) as f:
        x, y, n = f.arguments
        i = tl.arange(0, 2)
        tl.store(y + i, tl.load(2 + x + i - n.to(u8)))
        chosen = tl.where(i == 0, x, y)  # a pointer for each lane
        tl.store(y + 2 + i, tl.load(chosen))
        tl.store(y + 4, (x == x) & (x != y))
    out = np.zeros(5, np.int32)
    interpret(f.function, (1,), [np.int32([5, 6, 7]), out, 1])
    np.testing.assert_array_equal(out, [6, 7, 5, 6, 1])
    for wrong in (lambda x: x * 2, lambda x: x + 1.5, lambda x: x + x, lambda x: 1 - x):
        with build_function("k", [("x", Ptr[i32])]) as f, pytest.raises(KernelError):
            wrong(f.arguments[0])


def test_atomic_add_scratch_prefetch() -> None:
    with build_function("k", [("x", Ptr[i32]), ("y", Ptr[i32])]) as f:
        x, y = f.arguments
        i = tl.arange(0, 4)
        tl.prefetch(x + i, level=2)
        old = tl.atomic_add(x + (i & 1), 1, mask=i != 3)
        buffer = tl.scratch(4, i32)
        tl.store(buffer + i, old)
        tl.store(y + i, tl.load(buffer + (3 - i)))
    x, y = np.int32([10, 20]), np.zeros(4, np.int32)
    interpret(f.function, (2,), [x, y])
    np.testing.assert_array_equal(x, [14, 22])
    np.testing.assert_array_equal(y, [0, 13, 21, 12])


def test_program_ids() -> None:
    with build_function("k", [("y", Ptr[i32])]) as f:
        (y,) = f.arguments
        ids, extents = [tl.program_id(a) for a in range(3)], [tl.num_programs(a) for a in range(3)]
        flat = (ids[2] * extents[1] + ids[1]) * extents[0] + ids[0]
        tl.store(y + flat, ids[0] + 10 * ids[1] + 100 * ids[2])
    out = np.zeros((4, 3, 2), np.int32)
    interpret(f.function, (2, 3, 4), [out])
    for z, y, x in itertools.product(range(4), range(3), range(2)):
        assert out[z, y, x] == x + 10 * y + 100 * z


def test_functions_are_methods(run: Run) -> None:
    x = np.float32([0.25, 1.0, 2.5])
    names = ("abs", "exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos", "erf")
    names += ("sigmoid", "floor", "ceil", "softmax")
    found = run(lambda x: tuple(getattr(x, name)() for name in names), x)
    wanted = run(lambda x: tuple(getattr(tl, name)(x) for name in names), x)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    n = np.int32([7, 8, 9])
    more = run(lambda x, n: (x.fma(2, 1), x.fdiv(n), x.div_rn(n), n.cdiv(4), n.umulhi(n)), x, n)
    np.testing.assert_array_equal(more[0], x * 2 + 1)
    np.testing.assert_array_equal(more[1], x / n.astype(np.float32))
    np.testing.assert_array_equal(more[2], more[1])
    assert [a.tolist() for a in more[3:]] == [[2, 2, 3], [0, 0, 0]]
    both = run(lambda x, n: (x.logical_and(n - 8), x.logical_or(n)), x, n)
    assert [a.tolist() for a in both] == [[True, False, True], [True] * 3]
