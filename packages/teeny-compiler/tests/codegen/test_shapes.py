"""Ops that move elements, reductions and dot products, on all layouts of vectors."""

from __future__ import annotations

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, bf16, f16, f32, f64, i8, i32, i64, u8, u32
from teeny_triton import Ptr, build_function

Shape = tuple[int, ...]


def at(base: tl.Tile, shape: Shape) -> tl.Tile:
    """Addresses of a row-major array."""
    size = int(np.prod(shape))
    flat = tl.arange(0, size)
    return base + (flat.reshape(*shape) if len(shape) != 1 else flat)


def data(dtype: DType, shape: Shape, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    return rng.integers(0 if dtype.kind == "uint" else -50, 100, shape).astype(dtype.numpy)


def moves(agree, target, shape: Shape, out: Shape, dtype: DType, move) -> None:
    """Check a function of one tile that was computed, and of one that was only loaded."""
    parameters = [("x", Ptr[dtype]), ("o", Ptr[dtype]), ("p", Ptr[dtype])]
    with build_function("move", parameters) as f:
        x, o, p = f.arguments
        loaded = tl.load(at(x, shape))
        tl.store(at(o, out), move(loaded + loaded))
        tl.store(at(p, out), move(loaded))
    zeros = np.zeros(out, dtype.numpy)
    agree(f.function, target, (1,), [data(dtype, shape), zeros, zeros])


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((16, 16), (1, 0)), ((14, 32), (1, 0)), ((8, 16), (1, 0)), ((32, 14), (1, 0)),
        ((3, 5), (1, 0)), ((2, 4, 8), (2, 0, 1)), ((2, 4, 8), (0, 2, 1)), ((16, 2), (1, 0)),
        ((2, 3, 20), (1, 2, 0)), ((1, 7), (1, 0)), ((4, 4), (1, 0)), ((33, 3), (1, 0)),
    ],
    ids=str,
)  # fmt: skip
def test_trans(agree, target, shape, order):
    out = tuple(shape[axis] for axis in order)
    moves(agree, target, shape, out, f32, lambda x: x.trans(*order))


@pytest.mark.parametrize("dtype", [u8, f64, f16], ids=str)
def test_trans_of_other_sizes(agree, target, dtype):
    moves(agree, target, (16, 8), (8, 16), dtype, lambda x: x.trans())


@pytest.mark.parametrize(
    ("shape", "out"),
    [
        ((32,), (16, 2)), ((4, 6), (6, 4)), ((3, 7), (21,)), ((2, 24), (48,)),
        ((48,), (2, 24)), ((1, 5), (5, 1)), ((2, 3, 4), (4, 6)), ((1,), (1, 1, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_reshape(agree, target, shape, out):
    moves(agree, target, shape, out, f32, lambda x: x.reshape(*out))


@pytest.mark.parametrize(
    ("shape", "out"),
    [
        ((14, 1), (14, 32)), ((1, 24), (3, 24)), ((1,), (40,)), ((2, 1, 4), (2, 3, 4)),
        ((5, 1), (5, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_broadcast(agree, target, shape, out):
    moves(agree, target, shape, out, f32, lambda x: x.broadcast_to(*out))


def test_expand_join_split_cat(agree, target):
    with build_function("mix", [(n, Ptr[f32]) for n in ("x", "y", "a", "b", "c", "d")]) as f:
        x, y, a, b, c, d = f.arguments
        left, right = tl.load(at(x, (3, 8))), tl.load(at(y, (3, 8)))
        joined = tl.join(left, right)
        tl.store(at(a, (3, 8, 2)), joined)
        even, odd = tl.split(joined.reshape(6, 4, 2))
        tl.store(at(b, (6, 4)), even - odd)
        tl.store(at(c, (6, 8)), tl.cat(left, right, dim=0))
        tl.store(at(d, (3, 1, 16)), tl.cat(left, right, dim=1).expand_dims(1))
    arrays = [data(f32, (3, 8), 1), data(f32, (3, 8), 2)]
    outs = [np.zeros(s, np.float32) for s in ((3, 8, 2), (6, 4), (6, 8), (3, 1, 16))]
    agree(f.function, target, (1,), [*arrays, *outs])


def test_index_tiles_move_too(agree, target):
    with build_function("index", [("o", Ptr[i32]), ("p", Ptr[i64]), ("n", i32)]) as f:
        o, p, n = f.arguments
        grid = tl.arange(0, 6)[:, None] * n + tl.arange(0, 8)[None, :]
        tl.store(at(o, (8, 6)), grid.trans() * 3 - n)
        tl.store(at(p, (12, 4)), grid.reshape(12, 4).to(i64))
    agree(f.function, target, (1,), [np.zeros((8, 6), np.int32), np.zeros((12, 4), np.int64), 11])


REDUCED = [(64,), (5,), (1,), (14, 32), (3, 5), (16, 2), (2, 24), (2, 3, 4), (16, 16), (4, 8, 8)]
KINDS = ["sum", "prod", "max", "min", "argmax", "argmin"]


@pytest.mark.parametrize("shape", REDUCED, ids=str)
def test_reduce(agree, target, shape):
    reduces(agree, target, shape, f32, KINDS)


@pytest.mark.parametrize("dtype", [f16, bf16, f64, i32, i64, u32, i8, u8], ids=str)
def test_reduce_dtypes(agree, extreme, dtype):
    kinds = KINDS if dtype.is_float else [*KINDS, "xor_sum"]
    for shape in [(40,), (3, 8)]:
        reduces(agree, extreme, shape, dtype, kinds)


def reduces(agree, target, shape, dtype, kinds):
    jobs = [(kind, axis) for kind in kinds for axis in range(len(shape))]

    def outs(axis):
        return (*shape[:axis], *shape[axis + 1 :])

    def kind_of(kind):
        return i32 if kind.startswith("arg") else dtype

    parameters = [("x", Ptr[dtype])]
    parameters += [(f"{kind}_{axis}", Ptr[kind_of(kind)]) for kind, axis in jobs]
    with build_function("reduce", parameters) as f:
        x = tl.load(at(f.arguments[0], shape))
        for (kind, axis), out in zip(jobs, f.arguments[1:], strict=True):
            result = tl.Tile(f.builder.op("reduce", x.value, kind=kind, axis=axis))
            tl.store(at(out, outs(axis)) if outs(axis) else out, result)
    rng = np.random.default_rng(0)
    if dtype.is_float:
        x = rng.choice([0.5, 1.0, 2.0], shape)  # every order of evaluation is exact
    else:
        x = rng.integers(0, 7, shape)
    x = x.astype(dtype.numpy)
    arrays = [np.zeros(outs(axis), kind_of(kind).numpy) for kind, axis in jobs]
    agree(f.function, target, (1,), [x, *arrays])


@pytest.mark.parametrize("where", [0, 3, 39])
@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin", "sum"])
def test_reduce_propagates_nan(agree, extreme, kind, where):
    dtype = i32 if kind.startswith("arg") else f32
    with build_function("nan", [("x", Ptr[f32]), ("o", Ptr[dtype])]) as f:
        x = tl.load(f.arguments[0] + tl.arange(0, 40))
        tl.store(f.arguments[1], tl.Tile(f.builder.op("reduce", x.value, kind=kind, axis=0)))
    x = data(f32, (40,))
    x[where] = np.nan
    x[(where + 7) % 40] = np.nan
    agree(f.function, extreme, (1,), [x, np.zeros(1, dtype.numpy)])


@pytest.mark.parametrize(
    ("a", "b", "acc"),
    [
        (f32, f32, f32), (f64, f64, f64), (bf16, bf16, f32), (f16, f16, f32), (i8, u8, i32),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "shape", [(4, 8, 32), (3, 5, 7), (1, 1, 1), (8, 4, 4), (2, 16, 24)], ids=str
)
def test_dot(agree, extreme, shape, a, b, acc):
    m, k, n = shape
    with build_function("dot", [("a", Ptr[a]), ("b", Ptr[b]), ("c", Ptr[acc])]) as f:
        x, y, z = f.arguments
        start = tl.load(at(z, (m, n)))
        tl.store(at(z, (m, n)), tl.dot(tl.load(at(x, (m, k))), tl.load(at(y, (k, n))), start))
    # small integers: exact in every format
    arrays = [
        data(i8 if t != u8 else u8, s, i) % 5
        for i, (t, s) in enumerate([(a, (m, k)), (b, (k, n)), (acc, (m, n))])
    ]
    arrays = [x.astype(t.numpy) for x, t in zip(arrays, (a, b, acc), strict=True)]
    agree(f.function, extreme, (1,), arrays)
