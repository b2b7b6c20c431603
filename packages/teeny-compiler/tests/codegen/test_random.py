"""Random kernels: compiled and blocked code leaves the values that the interpreter leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import teeny_triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from teeny_core import DType, f32, f64, i32, i64, u32
from teeny_triton import Ptr, build_function
from teeny_triton.ir import Function

DTYPES = [f32, f64, i32, i64, u32]
UNARY = ["neg", "abs"]
BINARY = ["add", "sub", "mul", "maximum", "minimum"]
WHOLE = ["floordiv", "mod", "and", "xor"]  # of integers only
REDUCTIONS = ["sum", "max", "min", "argmax", "argmin"]


@dataclass(frozen=True)
class Step:
    """One op on values made so far, which are numbered; numbers are taken modulo their count."""

    kind: str
    opcode: str
    places: tuple[int, int, int]


@dataclass(frozen=True)
class Recipe:
    """A random kernel on a matrix, a row and a column."""

    dtype: DType
    rows: int
    columns: int
    limits: tuple[int, int]
    steps: tuple[Step, ...]
    reduction: str
    axis: int


steps = st.builds(
    Step,
    st.sampled_from(["unary", "binary", "whole", "where", "trans", "row", "column"]),
    st.sampled_from(BINARY),
    st.tuples(*[st.integers(0, 30)] * 3),
)
extents = st.sampled_from([1, 2, 3, 5, 8, 12, 16, 24, 32, 40])
recipes = st.builds(
    Recipe,
    st.sampled_from(DTYPES),
    extents,
    extents,
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
    st.lists(steps, min_size=1, max_size=8).map(tuple),
    st.sampled_from(REDUCTIONS),
    st.integers(0, 1),
)


def build(recipe: Recipe) -> Function:
    dtype, rows, columns = recipe.dtype, recipe.rows, recipe.columns
    result = i32 if recipe.reduction.startswith("arg") else dtype
    parameters = [(n, Ptr[dtype]) for n in ("x", "row", "column", "out")]
    parameters += [("reduced", Ptr[result]), ("m", i32), ("n", i32)]
    with build_function("random", parameters) as f:
        x, row, column, out, reduced, m, n = f.arguments
        i, j = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
        mask, at = (i < m) & (j < n), i * columns + j
        across = tl.load(row + j).broadcast_to(rows, columns)
        down = tl.load(column + i).broadcast_to(rows, columns)
        values = [tl.load(x + at, mask, 3), across, down]
        for step in recipe.steps:
            values.append(apply(recipe, step, values, f))
        tl.store(out + at, values[-1], mask)
        folded = tl.Tile(
            f.builder.op("reduce", values[-1].value, kind=recipe.reduction, axis=recipe.axis)
        )
        tl.store(reduced + tl.arange(0, folded.shape[0]), folded)
    return f.function


def apply(recipe: Recipe, step: Step, values: list[tl.Tile], f: build_function) -> tl.Tile:
    a, b, c = (values[place % len(values)] for place in step.places)
    shape = (recipe.rows, recipe.columns)
    if step.kind == "unary":
        return tl.Tile(f.builder.op(UNARY[step.places[0] % 2], a.value))
    if step.kind == "where":
        return tl.where(a < b, b, c)
    if step.kind == "trans":  # there and back, by another shape between
        return (a.trans() + b.trans()).trans()
    if step.kind in ("row", "column"):
        axis = int(step.kind == "column")
        return tl.max(a, axis).expand_dims(axis).broadcast_to(*shape) - b
    if step.kind == "whole" and not recipe.dtype.is_float:
        return tl.Tile(f.builder.op(WHOLE[step.places[2] % 4], a.value, b.value))
    return tl.Tile(f.builder.op(step.opcode, a.value, b.value))


def arguments(recipe: Recipe) -> list:
    """Small whole numbers: all orders of evaluation and all fusions are exact, to a depth."""
    rng = np.random.default_rng(0)
    kind = recipe.dtype.numpy
    low = 0 if recipe.dtype.kind == "uint" else -3
    shape = (recipe.rows, recipe.columns)
    inputs = [rng.integers(low, 4, s).astype(kind) for s in (shape, shape[1], shape[0])]
    result = np.int32 if recipe.reduction.startswith("arg") else kind
    limits = (min(recipe.limits[0], shape[0]), min(recipe.limits[1], shape[1]))
    outs = [np.zeros(shape, kind), np.zeros(shape[1 - recipe.axis], result)]
    return [*inputs, *outs, *limits]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(recipe=recipes, narrow=st.booleans())
def test_random_kernels(agree, host, recipe, narrow):
    lanes = 256 if narrow and host.vector_bits > 256 else host.vector_bits
    target = replace(host, vector_bits=lanes, vector_registers=16 if narrow else 32)
    function = build(recipe)
    exact = recipe.dtype in (f64, i32, i64, u32) or len(recipe.steps) < 4
    agree(function, target, (1,), arguments(recipe), 0 if exact else 8)
