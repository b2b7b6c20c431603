"""Run cases in the interpreter and natively, and compare both with NumPy.

A case is a function of tiles beside a function of arrays. All cases of a group, for one dtype and
over all their layouts, are one kernel, launched with arrays of any strides.
"""

from __future__ import annotations

import itertools
import math
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import teeny_triton as triton
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
from teeny_core import dtype as dtype_of
from teeny_triton import KernelError, Ptr, Tile, build_function

SIGNED, UNSIGNED = (i8, i16, i32, i64), (u8, u16, u32, u64)
INTEGERS = (*SIGNED, *UNSIGNED)
NARROW, FLOATS = (f8e4m3, f8e5m2), (f16, bf16, f32, f64)
COLUMNS = (bool_, *INTEGERS, *NARROW, *FLOATS)

Array = Any
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A shape, and how an array of it lies in memory."""

    shape: Shape
    place: Callable[[Array], Array] = lambda x: x
    special: bool = False


def _every_other(x: Array) -> Array:
    held = np.zeros((2 * len(x), *x.shape[1:]), x.dtype)
    held[::2] = x
    return held[::2]


def _transposed(x: Array) -> Array:
    return np.ascontiguousarray(x.T).T


def _backwards(x: Array) -> Array:
    return np.ascontiguousarray(x[:, ::-1, ::-1])[:, ::-1, ::-1]


SCALAR = Layout(())
ONE = Layout((1,))
ROW = Layout((13,), _every_other, special=True)
PLAIN_ROW = Layout((13,), _every_other)
MATRIX = Layout((5, 3), _transposed)
CUBE = Layout((2, 3, 4), _backwards)
LAYOUTS = (ROW, SCALAR, ONE, CUBE, MATRIX)
TILES = (CUBE, ONE, PLAIN_ROW, MATRIX)
AXES = (ROW, ONE, MATRIX, CUBE)
STRIDES = {i32: 1, f32: 1, i64: 3, u8: 3, f16: 3, bf16: 3, f64: 3}
"""Of i32 and f32 all layouts are tried, of some types two, of the others one, to save time."""


@dataclass(frozen=True)
class Operand:
    """Values spread over [low, high]; whole numbers where the type has no others.

    `dtype` is that of the column unless given, `shape` follows from that of the layout.
    """

    low: float = -4
    high: float = 4
    dtype: DType | None = None
    shape: Callable[[Shape], Shape] = lambda shape: shape

    def make(self, layout: Layout, column: DType, rng: np.random.Generator) -> Array:
        """Return an array, with the special values of its type first where these are asked for."""
        dtype, shape = self.dtype or column, self.shape(layout.shape)
        if dtype.is_bool:
            values = np.asarray(rng.random(shape) < 0.5)
        elif dtype.is_int:
            low = max(int(self.low), int(dtype.min))
            values = np.asarray(rng.integers(low, int(self.high) + 1, shape)).astype(dtype.numpy)
        else:
            values = np.asarray(rng.uniform(self.low, self.high, shape))
            with np.errstate(over="ignore"):
                values = values.astype(dtype.numpy)
        if layout.special and values.ndim == 1:
            values[: len(SPECIAL)] = _special(dtype, values[: len(SPECIAL)])
        return layout.place(values) if shape == layout.shape else values


SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0)


def _special(dtype: DType, values: Array) -> Array:
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return np.array(SPECIAL).astype(dtype.numpy)
    return values


@dataclass(frozen=True)
class Case:
    """A function of the language.

    Attributes:
        name: its name, and what is special about the case.
        body: from tiles to a tile or several.
        reference: from arrays, floats in f64, to as many arrays.
        operands: what the body takes.
        layouts: how these lie in memory.
        dtypes: columns that the case is for.
        units: how far results may be off, in units in the last place, or of the largest element.
        of_largest: whether `units` are those of the largest element, as in sums.
    """

    name: str
    body: Callable[..., Any]
    reference: Callable[..., Any]
    operands: tuple[Operand, ...] = (Operand(),)
    layouts: tuple[Layout, ...] = LAYOUTS
    dtypes: tuple[DType, ...] = COLUMNS
    units: float = 1
    of_largest: bool = False

    @property
    def function(self) -> str:
        """The name of the function alone."""
        return self.name.partition(" ")[0]


@dataclass(frozen=True)
class Trial:
    """A case on arrays: `kinds` are the types of its results."""

    case: Case
    inputs: tuple[Array, ...]
    kinds: tuple[Any, ...]

    def expected(self) -> tuple[Array, ...]:
        """Return what NumPy gives."""
        wide = [_widened(x) for x in self.inputs]
        with np.errstate(all="ignore"):
            return _several(self.case.reference(*wide))


def _widened(x: Array) -> Array:
    return x if x.dtype.kind in "biu" else x.astype(np.float64)


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _loaded(pointer: Tile, shape: Shape, strides: Sequence[Any]) -> Tile:
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        index = tl.arange(0, extent).reshape(
            *(extent if a == axis else 1 for a in range(len(shape)))
        )
        pointer = pointer + index * stride
    return tl.load(pointer)


def _steps(x: Array) -> tuple[int, ...]:
    return tuple(stride // x.itemsize for stride in x.strides)


def _types(case: Case, inputs: Sequence[Array]) -> tuple[Any, ...] | None:
    """Return the types of the results, None where the function refuses its operands."""
    specs = [(f"x{i}", Ptr[dtype_of(x.dtype)]) for i, x in enumerate(inputs)]
    with build_function("types", specs) as f:
        tiles = [_loaded(p, x.shape, _steps(x)) for p, x in zip(f.arguments, inputs, strict=True)]
        try:
            return tuple(tl.to_tensor(result).type for result in _several(case.body(*tiles)))
        except KernelError:
            return None


def trials(case: Case, column: DType) -> list[Trial]:
    """Return the case on arrays of each layout; none where the function refuses the column."""
    found = []
    layouts = case.layouts[:: STRIDES.get(column, len(LAYOUTS))]
    for number, layout in enumerate(layouts):
        rng = np.random.default_rng(zlib.crc32(f"{case.name} {column} {number}".encode()))
        inputs = tuple(operand.make(layout, column, rng) for operand in case.operands)
        kinds = _types(case, inputs)
        if kinds is not None:
            found.append(Trial(case, inputs, kinds))
    assert len(found) in (0, len(layouts)), f"{case.name} of {column} takes some shapes only"
    return found


@triton.jit
def apply(inputs, strides, outputs, RUN: tl.constexpr):
    RUN(inputs, strides, outputs)


def launch(tried: Sequence[Trial]) -> list[tuple[Array, ...]]:
    """Run all trials as one kernel and return their results."""
    found = [
        tuple(np.zeros(kind.shape, kind.element.numpy) for kind in trial.kinds) for trial in tried
    ]

    def run(inputs: Any, strides: Any, outputs: Any) -> None:
        pointers, places, results = iter(inputs), iter(strides), iter(outputs)
        for trial in tried:
            tiles = [
                _loaded(next(pointers), x.shape, list(itertools.islice(places, x.ndim)))
                for x in trial.inputs
            ]
            for value, kind in zip(_several(trial.case.body(*tiles)), trial.kinds, strict=True):
                flat = tl.to_tensor(value).broadcast_to(kind.shape).reshape(kind.size)
                tl.store(next(results) + tl.arange(0, kind.size), flat)

    inputs = tuple(x for trial in tried for x in trial.inputs)
    strides = tuple(step for x in inputs for step in _steps(x))
    outputs = tuple(y for results in found for y in results)
    apply[(1,)](inputs, strides, outputs, RUN=run)
    return found


@contextmanager
def interpreting(on: bool) -> Iterator[None]:
    """Launch kernels in the interpreter, or natively."""
    before = os.environ.get("TEENY_INTERPRET")
    os.environ["TEENY_INTERPRET"] = "1" if on else "0"
    try:
        yield
    finally:
        del os.environ["TEENY_INTERPRET"]
        if before is not None:
            os.environ["TEENY_INTERPRET"] = before


def differences(group: Sequence[Case], column: DType) -> tuple[dict[str, str], dict[str, str]]:
    """Run a group for one dtype: what each case gives there, and where that is wrong.

    A cell is the type of the first result, `-` where the function refuses, and "" where it is not
    for this dtype.
    """
    cells = {case.name: "" for case in group}
    tried: list[Trial] = []
    for case in group:
        if column in case.dtypes:
            found = trials(case, column)
            cells[case.name] = str(found[0].kinds[0].element) if found else "-"
            tried += found
    if not tried:
        return cells, {}
    with interpreting(True):
        interpreted = launch(tried)
    with interpreting(False):
        native = launch(tried)
    wrong: dict[str, str] = {}
    for trial, ours, compiled in zip(tried, interpreted, native, strict=True):
        checks = (
            ("NumPy and the interpreter", trial.expected(), ours),
            ("the interpreter and native code", ours, compiled),
        )
        for what, wanted, got in checks:
            message = _difference(trial, wanted, got)
            if message:
                wrong.setdefault(trial.case.name, f"{what} differ: {message}")
    return cells, wrong


def _difference(trial: Trial, wanted: Sequence[Array], got: Sequence[Array]) -> str:
    if len(wanted) != len(got):
        return f"{len(wanted)} and {len(got)} results"
    for place, (expected, found) in enumerate(zip(wanted, got, strict=True)):
        expected = np.asarray(expected)
        if expected.shape != found.shape:
            return f"result {place} has shape {expected.shape}, not {found.shape}"
        same = _same(expected, found, trial.case)
        if not same.all():
            at = tuple(np.argwhere(~same)[0])
            shapes = [x.shape for x in trial.inputs]
            return f"{shapes}: result {place} at {at}: {expected[at]!r} and {found[at]!r}"
    return ""


def _same(expected: Array, found: Array, case: Case) -> Array:
    if found.dtype.kind in "biu":
        return np.asarray(expected == found)
    with np.errstate(all="ignore"):
        rounded = expected.astype(found.dtype)
        x, y = rounded.astype(np.float64), found.astype(np.float64)
        unit = np.abs(np.spacing(rounded)).astype(np.float64)
        finite = np.isfinite(x)
        if case.of_largest and finite.any():
            unit = np.broadcast_to(unit[finite].max(), x.shape)
        close = np.abs(x - y) <= case.units * unit
    return np.asarray((x == y) | (np.isnan(x) & np.isnan(y)) | (finite & close))
