"""Every elementwise opcode against the interpreter, on all dtypes, shapes and vector widths."""

from __future__ import annotations

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import (
    DType,
    bf16,
    bool_,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from teeny_triton import Ptr, build_function
from teeny_triton.ir import BINARY, COMPARISONS, Function, Type
from teeny_triton.rules import Signature, result_types

INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
FLOATS = (f16, bf16, f32, f64)
NUMBERS = [*INTEGERS, *FLOATS, bool_]
SHAPES = [(), (1,), (5,), (64,), (3, 7), (2, 24), (2, 3, 4), (16, 2)]


def values(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers with the edge cases of their type among them."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    if dtype.is_bool:
        return rng.integers(0, 2, size).astype(bool).reshape(shape)
    if dtype.is_int:
        edges = np.array([0, 1, 2, dtype.max, dtype.min, dtype.max - 1], dtype.numpy)
        wide = rng.integers(dtype.min, dtype.max, size, dtype=dtype.numpy, endpoint=True)
        small = rng.integers(0, 9, size).astype(dtype.numpy)
        mixed = np.where(rng.random(size) < 0.4, small, wide)
    else:
        edges = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5, dtype.max])
        edges = edges.astype(dtype.numpy)
        mixed = (rng.standard_normal(size) * np.exp(rng.uniform(-3, 3, size))).astype(dtype.numpy)
    where = rng.random(size) < 0.3
    return np.where(where, rng.choice(edges, size), mixed).astype(dtype.numpy).reshape(shape)


def pointers(base: tl.Tile, shape: tuple[int, ...]) -> tl.Tile:
    """Addresses of a row-major array."""
    offset: tl.Tile | None = None
    stride = 1
    for axis in reversed(range(len(shape))):
        index = tl.arange(0, shape[axis]).reshape(
            *(extent if a == axis else 1 for a, extent in enumerate(shape))
        )
        part = index * stride
        offset = part if offset is None else offset + part
        stride *= shape[axis]
    return base if offset is None else base + offset


def function_of(opcodes: list[str], count: int, dtype: DType, shape: tuple[int, ...]) -> Function:
    """A kernel that applies each opcode to its inputs and stores each result."""
    names = "xyz"[:count]
    kinds = {op: _result(op, count, dtype, shape) for op in opcodes}
    parameters = [(name, Ptr[dtype]) for name in names]
    parameters += [(f"out_{op}", Ptr[kinds[op].element]) for op in opcodes]
    with build_function("kernel", parameters) as f:
        inputs = [tl.load(pointers(a, shape)) for a in f.arguments[:count]]
        for op, out in zip(opcodes, f.arguments[count:], strict=True):
            result = tl.Tile(f.builder.op(op, *(x.value for x in inputs)))
            tl.store(pointers(out, shape), result)
    return f.function


def _result(op: str, count: int, dtype: DType, shape: tuple[int, ...]) -> Type:
    operands = (Type(shape, dtype),) * count
    return result_types(Signature(op, operands, {}))[0]


def run(agree, target, opcodes, count, dtype, shape, ulps=0.0):
    function = function_of(opcodes, count, dtype, shape)
    arrays = [values(dtype, shape, seed) for seed in range(count)]
    outs = [
        np.zeros(shape, p.value.type.element.pointee.numpy) for p in function.parameters[count:]
    ]
    agree(function, target, (1,), [*arrays, *outs], ulps)


BITS = ("and", "or", "xor", "shl", "shr")
SUPPORTED = {
    "int": [op for op in BINARY if op not in ("div", "pow", "maxnum", "minnum")],
    "float": [op for op in BINARY if op not in ("pow", "umulhi", *BITS)],
    "bool": ["and", "or", "xor"],
}


def binaries(dtype: DType) -> list[str]:
    kind = "int" if dtype.is_int else dtype.kind
    return [op for op in SUPPORTED[kind] if op != "umulhi" or dtype.bits >= 32]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_binary(agree, target, dtype):
    shape = (3, 7) if target.vector_bits else (5,)
    run(agree, target, binaries(dtype), 2, dtype, shape)


def test_remainder_of_any_quotient(agree, target):
    """From the least subnormal to the greatest number, whose quotient has 2098 bits."""
    sizes = np.array([5e-324, 5e-310, 2.3e-308, 1e-300, 3e-160, 1.5, 7e150, 1e300, 1.7976e308])
    x, y = np.meshgrid(np.concatenate([sizes, -sizes]), sizes)
    opcodes = ["mod", "floordiv"]
    outs = [np.zeros_like(x) for _ in opcodes]
    agree(function_of(opcodes, 2, f64, x.shape), target, (1,), [x, y, *outs])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [i32, f32], ids=str)
def test_binary_shapes(agree, host, dtype, shape):
    run(agree, host, ["add", "mul", "maximum", "mod"], 2, dtype, shape)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_power(agree, extreme, dtype):
    run(agree, extreme, ["pow"], 2, dtype, (5,))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_comparisons_and_unary(agree, extreme, dtype):
    shape = (2, 24) if extreme.vector_bits else (5,)
    run(agree, extreme, list(COMPARISONS), 2, dtype, shape)
    unary = ["neg", "abs"] if not dtype.is_bool else []
    unary += ["floor", "ceil", "round", "trunc", "sqrt"] if dtype.is_float else ["not"]
    run(agree, extreme, unary, 1, dtype, shape)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("constant", [0.0, 1.5, -np.inf, np.nan])
def test_extremes_with_constants(agree, extreme, dtype, constant):
    shape = (2, 16) if extreme.vector_bits else (6,)
    opcodes = ("maximum", "minimum", "maxnum", "minnum")
    with build_function("limit", [(n, Ptr[dtype]) for n in ("x", *opcodes)]) as f:
        x, *outs = (pointers(a, shape) for a in f.arguments)
        value, other = tl.load(x).value, f.builder.full(shape, constant, dtype)
        for number, (op, out) in enumerate(zip(opcodes, outs, strict=True)):
            operands = (value, other) if number % 2 else (other, value)
            first = tl.Tile(f.builder.op(op, *operands))
            tl.store(out, first)
    x = values(dtype, shape, 11)
    agree(f.function, extreme, (1,), [x, *(np.zeros_like(x) for _ in opcodes)])


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_where(agree, extreme, dtype):
    shape = (3, 5)
    with build_function("pick", [("c", Ptr[bool_]), *((n, Ptr[dtype]) for n in "xyo")]) as f:
        c, x, y, o = (pointers(a, shape) for a in f.arguments)
        tl.store(o, tl.where(tl.load(c), tl.load(x), tl.load(y)))
    arrays = [values(bool_, shape, 0), values(dtype, shape, 1), values(dtype, shape, 2)]
    agree(f.function, extreme, (1,), [*arrays, np.zeros(shape, dtype.numpy)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_fma_rounds_once(agree, target, dtype):
    rng = np.random.default_rng(3)
    shape = (64,) if target.vector_bits else (16,)
    x, y = (rng.uniform(1, 2, shape).astype(dtype.numpy) for _ in range(2))
    z = (-x.astype(np.float64) * y.astype(np.float64)).astype(dtype.numpy)  # cancels
    function = function_of(["fma"], 3, dtype, shape)
    agree(function, target, (1,), [x, y, z, np.zeros(shape, dtype.numpy)])


ALL = (bool_, *INTEGERS, *FLOATS, f8e4m3, f8e5m2)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_cast(agree, extreme, source):
    shape = (40,) if extreme.vector_bits else (12,)
    parameters = [("x", Ptr[source]), *((f"to_{t}", Ptr[t]) for t in ALL)]
    with build_function("convert", parameters) as f:
        x, *outs = (pointers(a, shape) for a in f.arguments)
        for out, dtype in zip(outs, ALL, strict=True):
            tl.store(out, tl.load(x).to(dtype))
    x = values(source, shape, 7)
    agree(f.function, extreme, (1,), [x, *(np.zeros(shape, t.numpy) for t in ALL)])


@pytest.mark.parametrize("value", [1e20, -1e20, float("nan"), 3.999, -3.999, 2147483520.0])
def test_float_to_int_saturates(agree, target, value):
    with build_function("saturate", [("x", Ptr[f32]), ("a", Ptr[i32]), ("b", Ptr[u8])]) as f:
        x, a, b = (p + tl.arange(0, 3) for p in f.arguments)
        tl.store(a, tl.load(x).to(i32))
        tl.store(b, tl.load(x).to(u8))
    x = np.array([value, value, 1.0], np.float32)
    agree(f.function, target, (1,), [x, np.zeros(3, np.int32), np.zeros(3, np.uint8)])


@pytest.mark.parametrize("dtype", [f16, bf16, f8e4m3, f8e5m2], ids=str)
def test_narrow_floats_convert_exactly(load, close, extreme, dtype):
    """Every value of the format to f32, and f32 around every tie back."""
    bits = {8: np.uint8, 16: np.uint16}[dtype.bits]
    patterns = np.arange(1 << dtype.bits).astype(bits)
    values_ = patterns.view(dtype.numpy)
    count = len(patterns)
    with build_function("widen", [("x", Ptr[dtype]), ("o", Ptr[f32])]) as f:
        at = tl.program_id(0) * 64 + tl.arange(0, 64)
        tl.store(f.arguments[1] + at, tl.load(f.arguments[0] + at).to(f32))
    wide = np.zeros(count, np.float32)
    load(f.function, extreme)((count // 64,), [values_, wide])
    close(wide, values_.astype(np.float32), 0)

    finite = np.sort(np.unique(wide[np.isfinite(wide)]))
    ties = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    around = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    extra = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -0.0], np.float32)
    x = np.concatenate([finite, around.astype(np.float32), extra])
    x = np.resize(x, -(-len(x) // 64) * 64)
    with build_function("narrow", [("x", Ptr[f32]), ("o", Ptr[dtype])]) as f:
        at = tl.program_id(0) * 64 + tl.arange(0, 64)
        tl.store(f.arguments[1] + at, tl.load(f.arguments[0] + at).to(dtype))
    found = np.zeros(len(x), dtype.numpy)
    load(f.function, extreme)((len(x) // 64,), [x, found])
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype.numpy)
    close(found.astype(np.float32), wanted.astype(np.float32), 0)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize(
    ("source", "to"), [(f32, i32), (i32, f32), (f64, u64), (bf16, f16), (u8, i8), (bool_, u8)]
)
def test_bitcast(agree, target, source, to):
    shape = (20,)
    with build_function("bits", [("x", Ptr[source]), ("o", Ptr[to])]) as f:
        x, o = (pointers(a, shape) for a in f.arguments)
        tl.store(o, tl.load(x).to(to, bitcast=True))
    x = values(source, shape, 5)
    if not source.is_bool:
        x = np.arange(20).astype(source.numpy)
    agree(f.function, target, (1,), [x, np.zeros(shape, to.numpy)])


def test_scalars_of_every_dtype_are_parameters(agree, host):
    dtypes = (*INTEGERS, *FLOATS, bool_)
    parameters = [*((f"x_{t}", t) for t in dtypes), *((f"o_{t}", Ptr[t]) for t in dtypes)]
    with build_function("scalars", parameters) as f:
        for value, out in zip(f.arguments[: len(dtypes)], f.arguments[len(dtypes) :], strict=True):
            tl.store(out, value)
    given = [1, -2, 3, -4, 200, 6, 7, 8, 1.5, 2.5, 3.5, 4.5, True]
    order = [np.asarray(v).astype(t.numpy)[()] for v, t in zip(given, dtypes, strict=True)]
    agree(f.function, host, (1,), [*order, *(np.zeros(1, t.numpy) for t in dtypes)])
