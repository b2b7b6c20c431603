"""The op test table, and the checks that every device is put through.

A row of the table is an `OpCase`: an operation with attributes and sample operands. The checks
compare a device with the references of the operations, and derivatives with finite differences.

    @pytest.mark.parametrize("case", testing.cases(), ids=str)
    def test_device(case):
        for dtype in case.dtypes:
            testing.check_device(device, case, dtype)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from teeny_core import op as operations
from teeny_core import ops
from teeny_core.autodiff import backward
from teeny_core.device import Device
from teeny_core.dtype import (
    INTS,
    DType,
    bf16,
    bool_,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    u8,
    u32,
)
from teeny_core.evaluate import evaluate
from teeny_core.graph import Graph, Node, apply
from teeny_core.op import Array

WIDE = (f16, bf16, f32, f64)
NUMBERS = (*WIDE, *INTS)
EVERY = (*NUMBERS, bool_, f8e4m3, f8e5m2)
STEP = 1e-5  # of finite differences, in f64


@dataclass(frozen=True)
class Sample:
    """How an operand looks.

    Attributes:
        shape: its shape.
        low: floats are spread over [low, high), integers over the whole numbers in it.
        high: see `low`.
        dtype: its type; that of the check unless given.
        special: whether floats start with NaN, both infinities and both zeros.
        whole: whether floats are whole numbers, so that ties come up.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: DType | None = None
    special: bool = False
    whole: bool = False

    def make(self, dtype: DType, rng: np.random.Generator) -> Array:
        """Return an array of the sample."""
        wanted = self.dtype or dtype
        if wanted.is_bool:
            return rng.random(self.shape) < 0.5
        if wanted.is_int:
            low = max(int(self.low), int(wanted.min))
            return rng.integers(low, int(self.high) + 1, self.shape).astype(wanted.numpy)
        values = rng.uniform(self.low, self.high, self.shape)
        if self.whole:
            values = np.round(values)
        if self.special:
            flat = values.reshape(-1)
            count = min(flat.size, 5)
            flat[:count] = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])[:count]
        return ops.convert(values, wanted)


@dataclass(frozen=True)
class OpCase:
    """A row of the op test table.

    Attributes:
        op: name of the operation.
        samples: its operands.
        attrs: its attributes.
        dtypes: element types to check.
        wrt: operands that have a gradient.
        label: what is special about the row.
        scale: factor of the tolerances, for long sums.
    """

    op: str
    samples: tuple[Sample, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[DType, ...] = WIDE
    wrt: tuple[int, ...] = ()
    label: str = ""
    scale: float = 1.0

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    def arrays(self, dtype: DType) -> tuple[Array, ...]:
        """Return sample operands, the same ones every time."""
        rng = np.random.default_rng(zlib.crc32(f"{self}{dtype}".encode()))
        return tuple(sample.make(dtype, rng) for sample in self.samples)

    def graph(self, dtype: DType) -> Graph:
        """Return the graph of the one operation."""
        leaves = tuple(
            ops.input(f"x{i}", sample.shape, sample.dtype or dtype)
            for i, sample in enumerate(self.samples)
        )
        return Graph(str(self), leaves, (), (apply(self.op, *leaves, **self.attrs),))


# --- the table ----------------------------------------------------------------------------------

_SHAPE = (3, 5)


def _unary(
    names: str,
    dtypes: tuple[DType, ...] = WIDE,
    low: float = -2.0,
    high: float = 2.0,
    *,
    grad: bool = True,
) -> Iterable[OpCase]:
    for name in names.split():
        sample = Sample(_SHAPE, low, high)
        yield OpCase(name, (sample,), dtypes=dtypes, wrt=(0,) if grad else ())
        floats = tuple(d for d in dtypes if d.is_float)
        if floats:
            special = replace(sample, special=True)
            yield OpCase(name, (special,), dtypes=floats, label="special")
        for label, shape in (("scalar", ()), ("empty", (0, 4)), ("large", (37, 67))):
            yield OpCase(name, (replace(sample, shape=shape),), dtypes=dtypes, label=label)


def _binary(
    names: str,
    dtypes: tuple[DType, ...] = NUMBERS,
    left: tuple[float, float] = (-3.0, 3.0),
    right: tuple[float, float] = (-3.0, 3.0),
    *,
    wrt: tuple[int, ...] = (),
) -> Iterable[OpCase]:
    for name in names.split():
        pair = Sample(_SHAPE, *left), Sample(_SHAPE, *right)
        yield OpCase(name, pair, dtypes=dtypes, wrt=wrt)
        floats = tuple(d for d in dtypes if d.is_float)
        if floats:
            special = (replace(pair[0], special=True), replace(pair[1], special=True, high=1.0))
            yield OpCase(name, special, dtypes=floats, label="special")
            flipped = (replace(pair[0], special=True), replace(pair[1], shape=_SHAPE))
            yield OpCase(name, flipped, dtypes=floats, label="special-left")
            ties = tuple(replace(sample, whole=True) for sample in pair)
            yield OpCase(name, ties, dtypes=floats, label="whole")
        for label, shape in (("scalar", ()), ("empty", (4, 0)), ("large", (37, 67))):
            sized = tuple(replace(sample, shape=shape) for sample in pair)
            yield OpCase(name, sized, dtypes=dtypes, label=label)


def _elementwise() -> Iterable[OpCase]:
    yield from _unary("neg abs relu sign", NUMBERS)
    yield from _unary("floor ceil round trunc", low=-9, high=9, grad=False)
    yield from _unary("exp exp2 expm1 sin cos tanh sigmoid erf")
    yield from _unary("tan", low=-1.4, high=1.4)
    yield from _unary("log log2 sqrt rsqrt reciprocal", low=0.25, high=4)
    yield from _unary("log1p", low=-0.75, high=3)
    yield from _unary("isnan isinf", grad=False)
    yield from _unary("logical_not", (bool_,), grad=False)
    yield from _unary("bitwise_not", (bool_, *INTS), -100, 100, grad=False)
    yield from _binary("add sub mul", wrt=(0, 1))
    yield from _binary("div", WIDE, right=(0.5, 3), wrt=(0, 1))
    yield from _binary("floordiv mod", NUMBERS, left=(-20, 20), right=(1, 5))
    yield from _binary("floordiv mod", INTS, left=(-20, 20), right=(-5, 0))
    yield from _binary("pow", NUMBERS, left=(0.5, 3), right=(-2, 3), wrt=(0, 1))
    yield from _binary("maximum minimum", wrt=(0, 1))
    yield from _binary("eq ne", (*NUMBERS, bool_))
    yield from _binary("lt le gt ge", NUMBERS)
    yield from _binary("logical_and logical_or logical_xor", (bool_,))
    yield from _binary("bitwise_and bitwise_or bitwise_xor", (bool_, *INTS), (-99, 99), (-99, 99))
    yield from _binary("shl shr", INTS, left=(-99, 99), right=(0, 7))
    chosen = Sample(_SHAPE, dtype=bool_), Sample(_SHAPE, special=True), Sample(_SHAPE)
    yield OpCase("where", chosen, dtypes=EVERY)
    plain = Sample(_SHAPE, dtype=bool_), Sample(_SHAPE), Sample(_SHAPE)
    yield OpCase("where", plain, wrt=(1, 2), label="plain")
    yield OpCase("stop_gradient", (Sample(_SHAPE),), dtypes=EVERY)
    for target in EVERY:
        wide = Sample((4, 9), -300, 300, special=True)
        yield OpCase("cast", (wide,), {"dtype": target}, EVERY, label=f"to-{target}")
    yield OpCase("cast", (Sample(_SHAPE),), {"dtype": f64}, (f64,), (0,), label="gradient")
    for source, target in (
        (f32, i32),
        (i32, f32),
        (f32, u32),
        (f16, bf16),
        (f64, i64),
        (u8, f8e5m2),
    ):
        sample = Sample((4, 9), 0, 100)
        yield OpCase("bitcast", (sample,), {"dtype": target}, (source,), label=f"{source}-{target}")


def _reductions() -> Iterable[OpCase]:
    layouts = (
        ("all", (3, 4, 5), (0, 1, 2)),
        ("first", (7, 33), (0,)),
        ("last", (5, 67), (1,)),
        ("middle", (3, 9, 4), (1,)),
        ("outer", (3, 4, 5), (0, 2)),
        ("none", (3, 4), ()),
        ("scalar", (), ()),
        ("one", (4, 1, 3), (1,)),
    )
    for label, shape, axes in layouts:
        attrs = {"axes": axes}
        for name, types in (("sum", (*NUMBERS, bool_)), ("max", NUMBERS), ("min", NUMBERS)):
            yield OpCase(name, (Sample(shape),), attrs, types, (0,), label, scale=8)
        near_one = Sample(shape, 0.8, 1.2)
        yield OpCase("prod", (near_one,), attrs, (*NUMBERS, bool_), (0,), label, scale=16)
        special = Sample(shape, special=True)
        for name in ("sum", "max", "min"):
            yield OpCase(name, (special,), attrs, WIDE, label=f"{label}-special", scale=8)
    yield OpCase("sum", (Sample((3, 0, 2)),), {"axes": (1,)}, NUMBERS, label="empty")
    yield OpCase("prod", (Sample((3, 0, 2)),), {"axes": (1,)}, NUMBERS, label="empty")
    yield OpCase("max", (Sample((0, 3)),), {"axes": (1,)}, NUMBERS, label="no-rows")
    long = Sample((4, 5000), -1, 1)
    yield OpCase("sum", (long,), {"axes": (1,)}, WIDE, label="long", scale=64)
    for name in ("argmax", "argmin"):
        for label, shape, axis in (
            ("first", (7, 9), 0),
            ("last", (5, 67), 1),
            ("ties", (2, 3, 4), 1),
        ):
            sample = Sample(shape, whole=True)
            yield OpCase(name, (sample,), {"axis": axis}, NUMBERS, label=label)
        yield OpCase(name, (Sample((9, 3), special=True),), {"axis": 0}, WIDE, label="special")


def _movement() -> Iterable[OpCase]:
    x = (Sample((2, 3, 4)),)
    rows: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("reshape", "merge", {"shape": (6, 4)}),
        ("reshape", "split", {"shape": (2, 3, 2, 2)}),
        ("permute", "swap", {"axes": (0, 2, 1)}),
        ("permute", "turn", {"axes": (2, 0, 1)}),
        ("broadcast_to", "lead", {"shape": (5, 2, 3, 4)}),
        ("slice", "whole", {"starts": (0, 0, 0), "limits": (2, 3, 4), "steps": (1, 1, 1)}),
        ("slice", "part", {"starts": (1, 0, 2), "limits": (2, 2, 4), "steps": (1, 1, 1)}),
        ("slice", "steps", {"starts": (0, 1, 1), "limits": (2, 3, 4), "steps": (1, 1, 2)}),
        ("slice", "empty", {"starts": (0, 3, 0), "limits": (2, 3, 4), "steps": (1, 1, 1)}),
        ("flip", "last", {"axes": (2,)}),
        ("flip", "two", {"axes": (0, 1)}),
        ("pad", "zeros", {"low": (0, 1, 2), "high": (1, 0, 3), "value": 0}),
        ("pad", "ones", {"low": (0, 0, 1), "high": (0, 0, 0), "value": 1}),
    )
    for name, label, attrs in rows:
        yield OpCase(name, x, attrs, EVERY, (0,), label)
    column = (Sample((3, 1)),)
    yield OpCase("broadcast_to", column, {"shape": (2, 3, 4)}, EVERY, (0,), "column")
    yield OpCase("broadcast_to", (Sample(()),), {"shape": (2, 3)}, EVERY, (0,), "scalar")
    several = (Sample((2, 3)), Sample((2, 1)), Sample((2, 0)))
    yield OpCase("concat", several, {"axis": 1}, EVERY, (0, 1), "columns")
    yield OpCase("concat", (Sample((2, 3)), Sample((1, 3))), {"axis": 0}, EVERY, (0, 1), "rows")


def _contractions() -> Iterable[OpCase]:
    for ta in (False, True):
        for tb in (False, True):
            a, b = ((5, 3) if ta else (3, 5)), ((4, 5) if tb else (5, 4))
            attrs = {"transpose_a": ta, "transpose_b": tb}
            label = "NT"[ta] + "NT"[tb]
            pair = Sample(a), Sample(b)
            yield OpCase("matmul", pair, attrs, (*WIDE, i32, i64), (0, 1), label, scale=4)
            batched = Sample((2, *a)), Sample((2, *b))
            small = Sample(a, -128, 127, i8), Sample(b, 0, 255, u8)
            yield OpCase("matmul_integer", small, attrs, (i32,), label=label)
            yield OpCase("matmul", batched, attrs, WIDE, (0, 1), f"{label}-batched", scale=4)
            large = Sample((97, 65) if ta else (65, 97)), Sample((33, 97) if tb else (97, 33))
            yield OpCase("matmul", large, attrs, WIDE, label=f"{label}-large", scale=16)
    plain = {"transpose_a": False, "transpose_b": False}
    yield OpCase("matmul", (Sample((3, 0)), Sample((0, 4))), plain, WIDE, label="no-depth")
    yield OpCase("matmul", (Sample((0, 3)), Sample((3, 4))), plain, WIDE, label="no-rows")
    yield from _attention()
    yield from _convolutions()


def _attention() -> Iterable[OpCase]:
    for causal in (False, True):
        attrs = {"causal": causal, "scale": 0.5, "safe": False}
        label = "causal" if causal else "full"
        plain = Sample((5, 4)), Sample((7, 4)), Sample((7, 3))
        yield OpCase("attention", plain, attrs, WIDE, (0, 1, 2), label, scale=4)
        heads = tuple(Sample((2, 3, *sample.shape)) for sample in plain)
        yield OpCase("attention", heads, attrs, WIDE, (0, 1, 2), f"{label}-heads", scale=4)
        shared = Sample((2, 6, 5, 4)), Sample((2, 2, 7, 4)), Sample((2, 2, 7, 3))
        yield OpCase("attention", shared, attrs, WIDE, (0, 1, 2), f"{label}-shared", scale=4)
        biased = *shared, Sample((6, 1, 7))
        yield OpCase("attention", biased, attrs, WIDE, (0, 1, 2, 3), f"{label}-bias", scale=4)
        long = Sample((2, 65, 16)), Sample((2, 97, 16)), Sample((2, 97, 24))
        yield OpCase("attention", long, attrs, WIDE, label=f"{label}-long", scale=8)
    masked = Sample((2, 3, 5, 4)), Sample((2, 3, 2, 4)), Sample((2, 3, 2, 3))
    shown = Sample((2, 1, 5, 2), dtype=bool_)
    safe = {"causal": False, "scale": 0.5, "safe": True}
    yield OpCase("attention", (*masked, shown), safe, WIDE, (0, 1, 2), "masked", scale=4)


def _convolutions() -> Iterable[OpCase]:
    none, same = ((0, 0), (0, 0)), ((1, 1), (1, 1))
    rows = (
        ("plain", (2, 3, 7, 6), (4, 3, 3, 2), (1, 1), none, (1, 1), 1),
        ("same", (1, 2, 5, 5), (3, 2, 3, 3), (1, 1), same, (1, 1), 1),
        ("stride", (2, 2, 8, 9), (4, 2, 3, 3), (2, 3), same, (1, 1), 1),
        ("uneven", (1, 1, 5, 6), (2, 1, 2, 4), (1, 2), ((0, 1), (2, 1)), (1, 1), 1),
        ("dilation", (1, 2, 9, 9), (2, 2, 3, 2), (1, 1), same, (2, 3), 1),
        ("groups", (2, 4, 5, 5), (6, 2, 3, 3), (1, 1), same, (1, 1), 2),
        ("depthwise", (1, 6, 7, 7), (6, 1, 3, 3), (2, 2), same, (1, 1), 6),
        ("pointwise", (2, 8, 4, 5), (16, 8, 1, 1), (1, 1), none, (1, 1), 1),
        ("no-images", (0, 2, 5, 5), (3, 2, 3, 3), (1, 1), none, (1, 1), 1),
    )
    for label, x, w, stride, padding, dilation, groups in rows:
        sliding = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        pair = Sample(x, -1, 1), Sample(w, -1, 1)
        wrt = (0, 1) if x[0] else ()
        case = OpCase("conv2d", pair, sliding, WIDE, wrt, label, scale=16)
        yield case
        (y,) = case.graph(f32).outputs
        dy = Sample(tuple(int(n) for n in y.shape if isinstance(n, int)), -1, 1)
        by_input = {**sliding, "input_shape": x}
        yield OpCase("conv2d_grad_input", (dy, pair[1]), by_input, WIDE, wrt, label, scale=16)
        by_weight = {**sliding, "weight_shape": w}
        yield OpCase("conv2d_grad_weight", (pair[0], dy), by_weight, WIDE, wrt, label, scale=32)


def _windows() -> Iterable[OpCase]:
    none, one = ((0, 0), (0, 0)), ((1, 1), (1, 1))
    rows = (
        ("halves", (2, 3, 6, 8), (2, 2), (2, 2), none),
        ("overlap", (1, 2, 7, 7), (3, 3), (2, 2), one),
        ("odd", (1, 1, 5, 7), (2, 3), (1, 2), ((1, 0), (0, 1))),
        ("remainder", (1, 2, 5, 5), (2, 2), (2, 2), none),
    )
    for label, x, kernel, stride, padding in rows:
        window = {"kernel": kernel, "stride": stride, "padding": padding}
        case = OpCase("max_pool2d", (Sample(x),), window, NUMBERS, (0,), label)
        yield case
        (y,) = case.graph(f32).outputs
        dy = Sample(tuple(int(n) for n in y.shape if isinstance(n, int)))
        ties = Sample(x, whole=True)
        yield OpCase(
            "max_pool2d", (Sample(x, special=True),), window, WIDE, label=f"{label}-special"
        )
        yield OpCase("max_pool2d_grad", (Sample(x), dy), window, WIDE, label=label)
        yield OpCase("max_pool2d_grad", (ties, dy), window, WIDE, label=f"{label}-ties")
        special = Sample(x, special=True)
        yield OpCase("max_pool2d_grad", (special, dy), window, WIDE, label=f"{label}-special")
        for include in (True, False):
            attrs = {**window, "count_include_pad": include}
            kind = f"{label}-{'all' if include else 'inside'}"
            yield OpCase("avg_pool2d", (Sample(x),), attrs, WIDE, (0,), kind, scale=4)
            shaped = {**attrs, "input_shape": x}
            yield OpCase("avg_pool2d_grad", (dy,), shaped, WIDE, (0,), kind, scale=4)


def _indexed() -> Iterable[OpCase]:
    x = Sample((4, 5, 3))
    for axis, extent in ((0, 4), (1, 5), (2, 3)):
        for kind in (i32, i64, u8):
            index = Sample((2, 6), 0, extent - 1, dtype=kind)
            label = f"axis{axis}-{kind}"
            yield OpCase("take", (x, index), {"axis": axis}, EVERY, (0,), label)
            taken = Sample((*x.shape[:axis], 2, 6, *x.shape[axis + 1 :]))
            attrs = {"axis": axis, "shape": x.shape}
            yield OpCase("take_grad", (index, taken), attrs, NUMBERS, (1,), label, scale=8)
            shape = tuple(7 if i == axis else n for i, n in enumerate(x.shape))
            along = Sample(shape, 0, extent - 1, dtype=kind)
            yield OpCase("take_along", (x, along), {"axis": axis}, EVERY, (0,), label)
            dy = Sample(shape)
            yield OpCase("take_along_grad", (along, dy), attrs, NUMBERS, (1,), label, scale=8)
    empty = Sample((0,), 0, 1, dtype=i64)
    yield OpCase("take", (x, empty), {"axis": 1}, EVERY, label="nothing")


def _leaves() -> Iterable[OpCase]:
    for dtype in EVERY:
        value: Any = True if dtype.is_bool else 1.5 if dtype.is_float else 3
        yield OpCase("constant", (), {"value": value, "dtype": dtype}, (dtype,), label=str(dtype))
    for dtype in NUMBERS:
        for axis in (0, 1):
            attrs = {"shape": (3, 5), "axis": axis, "dtype": dtype}
            yield OpCase("iota", (), attrs, (dtype,), label=f"{dtype}-axis{axis}")
    yield OpCase("size", (), {"dim": 7, "dtype": f32}, (f32,))
    literal = ops.Literal(np.arange(6, dtype=np.float32).reshape(2, 3))
    yield OpCase("array", (), {"data": literal}, (f32,))
    state = Sample((4,), 0, 2**32 - 1, dtype=u32)
    for shape in ((), (1000,), (3, 0), (7, 11)):
        drawn: dict[str, Any] = {"shape": shape, "site": 3}
        yield OpCase("random_bits", (state,), drawn, (u32,), label=str(shape))


@cache
def cases() -> tuple[OpCase, ...]:
    """Return the table: rows for every operation but `input` and `data`."""
    families = (_leaves, _elementwise, _reductions, _movement, _contractions, _windows, _indexed)
    return tuple(case for family in families for case in family())


# --- checks -------------------------------------------------------------------------------------

TOLERANCES = {f64: 2e-14, f32: 1e-6, f16: 1.5e-3, bf16: 1.2e-2, f8e4m3: 0.13, f8e5m2: 0.26}
"""Relative error of one operation that rounds once, with a little room for its argument."""


def assert_close(actual: Array, expected: Array, dtype: DType, scale: float = 1.0) -> None:
    """Check that arrays agree: integers exactly, floats to the tolerance of `dtype`.

    Raises:
        AssertionError: naming the worst place.
    """
    if not dtype.is_float:
        np.testing.assert_array_equal(actual, expected)
        return
    tolerance = TOLERANCES[dtype] * scale
    got, wanted = (np.asarray(array).astype(np.float64) for array in (actual, expected))
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def check_device(device: Device, case: OpCase, dtype: DType) -> None:
    """Check a row of the table on a device against the reference of the operation.

    Raises:
        AssertionError: when shapes, types or values differ.
    """
    graph, arrays = case.graph(dtype), case.arrays(dtype)
    actual = device.compile(graph, {})(*arrays)
    (expected,) = evaluate(graph, arrays)
    assert isinstance(actual, np.ndarray), f"{device.name} returned {type(actual).__name__}"
    assert actual.shape == expected.shape, f"{case}: {actual.shape} is not {expected.shape}"
    assert actual.dtype == expected.dtype, f"{case}: {actual.dtype} is not {expected.dtype}"
    assert_close(actual, expected, graph.outputs[0].dtype, case.scale)


def check_gradient(case: OpCase, tolerance: float = 1e-6) -> None:
    """Check the derivative of a row of the table against central differences in f64.

    Raises:
        AssertionError: when a derivative differs.
    """
    graph, arrays = case.graph(f64), case.arrays(f64)
    (output,) = graph.outputs
    seed = np.random.default_rng(0).uniform(0.5, 1.5, _static(output))
    gradients = backward(graph.outputs, [graph.inputs[i] for i in case.wrt], [ops.array(seed)])
    found = evaluate(replace(graph, outputs=gradients), arrays)
    for place, gradient in zip(case.wrt, found, strict=True):
        expected = _differences(graph, arrays, place, seed)
        np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)


def _static(node: Node) -> tuple[int, ...]:
    return tuple(int(extent) for extent in node.shape if isinstance(extent, int))


def _differences(graph: Graph, arrays: tuple[Array, ...], place: int, seed: Array) -> Array:
    """Return the central differences of sum(seed * output) by each element of an operand."""
    result = np.zeros(arrays[place].shape)
    for index in np.ndindex(result.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = list(arrays)
            moved[place] = arrays[place].copy()
            moved[place][index] += step
            (value,) = evaluate(graph, moved)
            ends.append(float((seed * value).sum()))
        result[index] = (ends[0] - ends[1]) / (2 * STEP)
    return result


def covered() -> frozenset[str]:
    """Return the operations that have a row in the table."""
    return frozenset(case.op for case in cases())


def uncovered() -> frozenset[str]:
    """Return the operations that lack a row.

    The leaves that are bound from outside need none, nor the compounds that a compiler registers.
    """
    names = {op.name for op in operations.all_ops() if "compound" not in op.traits}
    return frozenset(names) - covered() - {"input", "data"}
