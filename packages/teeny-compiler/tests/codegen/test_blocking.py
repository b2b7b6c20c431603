"""Functions on large tiles: blocked, they mean the same and fit the registers.

Each kernel is checked against NumPy in f64, compiled for every vector width; and the blocked tile
IR is run by the interpreter, which also checks the bounds of memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_compiler.codegen.block import block, is_large
from teeny_compiler.codegen.cpu.kernel import lanes_of
from teeny_core import bf16, f32, i32
from teeny_triton import Ptr, build_function, interpret
from teeny_triton.ir import Function
from teeny_triton.verifier import verify

INF = float("inf")
Arrays = list[Any]


@dataclass(frozen=True)
class Case:
    """A kernel, its grid and arguments, and what it should leave in the array at `out`."""

    function: Function
    grid: tuple[int, ...]
    arguments: Arrays
    wanted: dict[int, np.ndarray]
    tolerance: float = 1e-5


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def gelu() -> Case:
    with build_function("gelu", [("x", Ptr[f32]), ("o", Ptr[f32]), ("n", i32)]) as f:
        x, o, n = f.arguments
        at = tl.program_id(0) * 1024 + tl.arange(0, 1024)
        v = tl.load(x + at, at < n)
        tl.store(o + at, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), at < n)
    x = random(2500)
    wide = x.astype(np.float64)
    erf = np.vectorize(math.erf)(wide * math.sqrt(0.5))
    return Case(f.function, (3,), [x, zeros(2500), 2500], {1: wide * 0.5 * (1 + erf)})


def softmax(n: int) -> Case:
    with build_function("softmax", [("x", Ptr[f32]), ("o", Ptr[f32]), ("n", i32)]) as f:
        x, o, size = f.arguments
        column = tl.arange(0, 1024)
        inside, at = column < size, tl.program_id(0) * size + column
        v = tl.load(x + at, inside, -INF)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(o + at, e / tl.sum(e, 0), inside)
    x = random(3, n) * 3
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return Case(f.function, (3,), [x, zeros(3, n), n], {1: e / e.sum(1, keepdims=True)})


def softmax_of_rows(rows: int, n: int, width: int, height: int = 16) -> Case:
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("s", Ptr[f32]), ("n", i32), ("rows", i32)]
    with build_function("softmax_rows", parameters) as f:
        x, o, sums, size, count = f.arguments
        column = tl.arange(0, width)[None, :]
        line = tl.program_id(0) * height + tl.arange(0, height)
        row = line[:, None]
        mask, at = (column < size) & (row < count), row * size + column
        v = tl.load(x + at, mask, -INF)
        top = tl.max(v, 1)
        e = tl.exp(v - tl.where(top == -INF, 0.0, top)[:, None])
        total = tl.sum(e, 1)
        tl.store(o + at, e / total[:, None], mask)
        tl.store(sums + line, tl.log(total) + top, line < count)
    x = random(rows, n)
    e = np.exp(x.astype(np.float64))
    total = e.sum(1)
    wanted = {1: e / total[:, None], 2: np.log(total)}
    grid = (-(-rows // height),)
    return Case(f.function, grid, [x, zeros(rows, n), zeros(rows), n, rows], wanted)


def rows_or_none(rows: int, n: int) -> Case:
    """A program for each row and some more; a scalar says whether there is a row."""
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("n", i32), ("rows", i32)]
    with build_function("rows_or_none", parameters) as f:
        x, o, size, count = f.arguments
        column, row = tl.arange(0, 512)[None, :], tl.program_id(0)
        mask, at = (column < size) & (row < count), row * size + column
        v = tl.load(x + at, mask, 0.0)
        centred = tl.where(mask, v - (tl.sum(v, 1) / size.to(f32))[:, None], 0.0)
        spread = tl.sum(centred * centred, 1)[:, None]
        tl.store(o + at, centred * tl.rsqrt(spread), mask)
    x = random(rows, n)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).sum(1, keepdims=True))
    return Case(f.function, (rows + 2,), [x, zeros(rows, n), n, rows], {1: wanted})


def layer_norm(n: int) -> Case:
    names = ("x", "w", "b", "o")
    with build_function("norm", [*((name, Ptr[f32]) for name in names), ("n", i32)]) as f:
        x, w, b, o, size = f.arguments
        column = tl.arange(0, 1024)
        inside, at = column < size, tl.program_id(0) * size + column
        v = tl.load(x + at, inside, 0.0)
        mean = tl.sum(v, 0) / size.to(f32)
        d = tl.where(inside, v - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(d * d, 0) / size.to(f32) + 1e-5)
        y = d * scale * tl.load(w + column, inside) + tl.load(b + column, inside)
        tl.store(o + at, y, inside)
    x, w, b = random(2, n), random(n, seed=1), random(n, seed=2)
    wide = x.astype(np.float64)
    d = wide - wide.mean(1, keepdims=True)
    wanted = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b
    return Case(f.function, (2,), [x, w, b, zeros(2, n), n], {3: wanted})


def reductions() -> Case:
    """Every kind, along both axes of one tile."""
    rows, columns = 24, 200
    outs = [(kind, axis) for kind in ("sum", "max", "min", "argmax", "argmin") for axis in (0, 1)]
    types = [i32 if kind.startswith("arg") else f32 for kind, _ in outs]
    parameters = [("x", Ptr[f32])]
    parameters += [(f"{k}{a}", Ptr[t]) for (k, a), t in zip(outs, types, strict=True)]
    with build_function("reductions", parameters) as f:
        row, column = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
        v = tl.load(f.arguments[0] + row * columns + column)
        for (kind, axis), out in zip(outs, f.arguments[1:], strict=True):
            result = tl.reduce(v, axis, kind)
            tl.store(out + tl.arange(0, result.shape[0]), result)
    x = np.round(random(rows, columns) * 4) / 4  # ties, and sums that are exact
    x[3, 7] = x[5, 150] = np.nan
    arrays = [np.zeros((columns, rows)[a], t.numpy) for (_, a), t in zip(outs, types, strict=True)]
    wanted = {1 + k: getattr(np, kind)(x, axis=axis) for k, (kind, axis) in enumerate(outs)}
    return Case(f.function, (1,), [x, *arrays], wanted, 0)


def matmul(m: int, n: int, k: int, by_columns: bool, masked: bool, dtype=f32) -> Case:
    bm, bn, bk = 32, 64, 32
    sizes = [(s, i32) for s in ("m", "n", "k")]
    with build_function(
        "matmul", [("a", Ptr[dtype]), ("b", Ptr[dtype]), ("c", Ptr[f32]), *sizes]
    ) as f:
        a, b, c, rows, columns, depth = f.arguments
        across = tl.cdiv(columns, bn)
        row = (tl.program_id(0) // across * bm + tl.arange(0, bm))[:, None]
        column = (tl.program_id(0) % across * bn + tl.arange(0, bn))[None, :]
        along = tl.arange(0, bk)
        pitch = (1, depth) if by_columns else (columns, 1)
        left = a + row * depth + along[None, :]
        right = b + along[:, None] * pitch[0] + column * pitch[1]

        def step(i, acc, left, right):
            if masked:
                x = tl.load(left, (row < rows) & (i + along[None, :] < depth), 0.0)
                y = tl.load(right, (i + along[:, None] < depth) & (column < columns), 0.0)
            else:
                x, y = tl.load(left), tl.load(right)
            return tl.dot(x, y, acc), left + bk, right + pitch[0] * bk

        acc, _, _ = tl.for_(0, depth, bk, (tl.zeros((bm, bn)), left, right), step)
        mask = (row < rows) & (column < columns)
        tl.store(c + row * columns + column, tl.maximum(acc, 0.0), mask)
    x, y = random(m, k).astype(dtype.numpy), random(k, n, seed=1).astype(dtype.numpy)
    stored = np.ascontiguousarray(y.T) if by_columns else y
    wanted = np.maximum(x.astype(np.float64) @ y.astype(np.float64), 0)
    grid = (-(-m // bm) * -(-n // bn),)
    return Case(f.function, grid, [x, stored, zeros(m, n), m, n, k], {2: wanted})


def attention(causal: bool) -> Case:
    heads, length, depth, bm, bn = 2, 64, 32, 32, 32
    with build_function("attention", [(n, Ptr[f32]) for n in ("q", "k", "v", "o")]) as f:
        q, k, v, o = f.arguments
        blocks = length // bm
        head, part = tl.program_id(0) // blocks, tl.program_id(0) % blocks
        base = head * length * depth
        row, lane = part * bm + tl.arange(0, bm), tl.arange(0, depth)
        query = tl.load(q + (base + row[:, None] * depth + lane[None, :])) * depth**-0.5

        def step(start, top, total, acc):
            column = start + tl.arange(0, bn)
            scores = tl.dot(query, tl.load(k + (base + column[None, :] * depth + lane[:, None])))
            if causal:
                scores = tl.where(row[:, None] >= column[None, :], scores, -INF)
            higher = tl.maximum(top, tl.max(scores, 1))
            shrink, p = tl.exp(top - higher), tl.exp(scores - higher[:, None])
            values = tl.load(v + (base + column[:, None] * depth + lane[None, :]))
            acc = tl.dot(p, values, acc * shrink[:, None])
            return higher, total * shrink + tl.sum(p, 1), acc

        stop = (part + 1) * bm if causal else length
        inits = (tl.full((bm,), -1e30, f32), tl.zeros((bm,)), tl.zeros((bm, depth)))
        _, total, acc = tl.for_(0, stop, bn, inits, step)
        tl.store(o + (base + row[:, None] * depth + lane[None, :]), acc / total[:, None])
    arrays = [random(heads, length, depth, seed=s) for s in range(3)]
    wide = [a.astype(np.float64) for a in arrays]
    scores = wide[0] @ wide[1].transpose(0, 2, 1) / math.sqrt(depth)
    if causal:
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = (p / p.sum(-1, keepdims=True)) @ wide[2]
    grid = (heads * (length // 32),)
    return Case(f.function, grid, [*arrays, zeros(heads, length, depth)], {3: wanted})


def slanted_masks(rows: int, columns: int) -> Case:
    """Masks whose bound along one axis moves along the other."""
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("s", Ptr[f32]), ("p", Ptr[f32])]
    with build_function("slanted", [*parameters, ("n", i32), ("m", i32)]) as f:
        x, o, s, p, n, m = f.arguments
        row, column = tl.arange(0, rows)[:, None], tl.arange(0, columns)[None, :]
        at = row * columns + column
        v = tl.load(x + at)
        tl.store(o + at, v, row + column < n)
        tl.store(s + tl.arange(0, rows), tl.sum(tl.load(x + at, row + column < n, 2.0), 1))
        tl.store(s + rows + tl.arange(0, rows), tl.sum(tl.load(x + at, column < n - row, 0.0), 1))
        across = tl.arange(0, rows)[None, :]
        product = tl.dot(v, tl.load(x + at, at < m, 3.0).trans())
        tl.store(p + row * rows + across, product)
    n, m = rows // 2 + columns // 3, (rows - 1) * columns + columns // 2
    x = random(rows, columns)
    wide = x.astype(np.float64)
    index = np.arange(rows)[:, None], np.arange(columns)[None, :]
    slanted, linear = sum(index) < n, index[0] * columns + index[1] < m
    sums = [np.where(slanted, wide, other).sum(1) for other in (2.0, 0.0)]
    wanted = {
        1: np.where(slanted, wide, 0.0),
        2: np.concatenate(sums),
        3: wide @ np.where(linear, wide, 3.0).T,
    }
    out = [zeros(rows, columns), zeros(2 * rows), zeros(rows, rows)]
    return Case(f.function, (1,), [x, *out, n, m], wanted, 1e-4)


def in_place_updates() -> Case:
    """Three arrays changed in place by expressions of one another, as an optimiser does."""
    n = 1500
    with build_function("adam", [*((name, Ptr[f32]) for name in "pmvg"), ("n", i32)]) as f:
        p, m, v, g, size = f.arguments
        at = tl.program_id(0) * 2048 + tl.arange(0, 2048)
        inside = at < size
        grad = tl.load(g + at, inside)
        first = 0.9 * tl.load(m + at, inside) + 0.1 * grad
        second = 0.99 * tl.load(v + at, inside) + 0.01 * grad * grad
        tl.store(m + at, first, inside)
        tl.store(v + at, second, inside)
        step = first / (tl.sqrt(second) + 1e-8)
        tl.store(p + at, tl.load(p + at, inside) - 0.1 * step, inside)
    p, m, v, g = (random(n, seed=s) for s in range(4))
    v = np.abs(v)
    first, second = 0.9 * m.astype(np.float64) + 0.1 * g, 0.99 * v.astype(np.float64) + 0.01 * g * g
    wanted = {1: first, 2: second, 0: p - 0.1 * first / (np.sqrt(second) + 1e-8)}
    return Case(f.function, (1,), [p, m, v, g, n], wanted)


def shifted_in_place() -> Case:
    """A store that later loads of the same tile must not see, and a load that must see it."""
    n = 1024
    facts = tl.Facts(noalias=False)
    with build_function("shift", [("x", Ptr[f32], facts), ("o", Ptr[f32], facts)]) as f:
        x, o = f.arguments
        lane = tl.arange(0, n)
        before = tl.load(x + lane)
        tl.store(x + lane + 1, before * 2.0)
        after = tl.load(x + lane)
        tl.store(o + lane, before + after)
    x = random(n + 1)
    moved = np.concatenate([x[:1], 2 * x[:n]])
    return Case(f.function, (1,), [x, zeros(n)], {0: moved, 1: x[:n] + moved[:n]}, 1e-6)


def movements() -> Case:
    """Reshapes, transposes, joins, splits and concatenations of large tiles."""
    names = ("x", "a", "b", "c", "d")
    with build_function("moves", [(name, Ptr[f32]) for name in names]) as f:
        x, a, b, c, d = f.arguments
        row, column = tl.arange(0, 32)[:, None], tl.arange(0, 64)[None, :]
        v = tl.load(x + row * 64 + column) * 2.0
        other = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
        tl.store(a + other, v.trans() + 1.0)
        tl.store(b + other, v.reshape(64, 32))
        even, odd = tl.split(v.reshape(32, 32, 2))
        tl.store(c + row * 32 + tl.arange(0, 32)[None, :], even - odd)
        both = tl.cat(v, v + 1.0, dim=1)
        tl.store(d + row * 128 + tl.arange(0, 128)[None, :], both)
    x = random(32, 64)
    y = x * 2
    wanted = {
        1: y.T + 1,
        2: y.reshape(64, 32),
        3: y[:, ::2] - y[:, 1::2],
        4: np.concatenate([y, y + 1], 1),
    }
    outs = [zeros(64, 32), zeros(64, 32), zeros(32, 32), zeros(32, 128)]
    return Case(f.function, (1,), [x, *outs], wanted, 1e-6)


def control() -> Case:
    """Large tiles through loops and branches, also as their condition."""
    n = 1024
    with build_function("control", [("x", Ptr[f32]), ("o", Ptr[f32]), ("k", i32)]) as f:
        x, o, k = f.arguments
        lane = tl.arange(0, n)
        v = tl.load(x + lane)

        def swap(i, a, b, count):
            return b + 1.0, a * 0.5, count + 1

        a, b, count = tl.for_(0, k, 1, (v, v * v, 0), swap)
        (c,) = tl.while_(
            (a,), lambda c: tl.max(c, 0) > 4.0, lambda c: c * 0.5 + tl.load(x + lane) * 0.0
        )
        d = tl.if_(k > 2, lambda: (c + b,), lambda: (c - b,))[0]
        tl.store(o + lane, d + count.to(f32))
    x = random(n)
    a, b = x.astype(np.float64), x.astype(np.float64) ** 2
    for _ in range(3):
        a, b = b + 1, a * 0.5
    while a.max() > 4:
        a = a * 0.5
    return Case(f.function, (1,), [x, zeros(n), 3], {1: a + b + 3})


def histogram() -> Case:
    """Atomics and gathers of many elements, with a mask that is data."""
    n = 1500
    parameters = [("x", Ptr[i32]), ("h", Ptr[i32]), ("o", Ptr[i32]), ("t", Ptr[i32]), ("n", i32)]
    with build_function("histogram", parameters) as f:
        x, h, o, table, size = f.arguments
        lane = tl.arange(0, 2048)
        v = tl.load(x + lane, lane < size, 0)
        tl.atomic_add(h + v, 1, (lane < size) & (v > 2))
        tl.store(o + lane, tl.load(table + v, lane < size, 0) * 2, lane < size)
        tl.prefetch(x + lane)
    x = np.random.default_rng(0).integers(0, 10, n).astype(np.int32)
    table = np.arange(10, dtype=np.int32) ** 2
    counts = np.where(np.arange(10) > 2, np.bincount(x, minlength=10), 0)
    arrays = [x, np.zeros(10, np.int32), np.zeros(n, np.int32), table, n]
    return Case(f.function, (1,), arrays, {1: counts, 2: table[x] * 2}, 0)


CASES: dict[str, Callable[[], Case]] = {
    "slanted-64x64": lambda: slanted_masks(64, 64),
    "slanted-33x48": lambda: slanted_masks(33, 48),
    "slanted-128x8": lambda: slanted_masks(128, 8),
    "gelu": gelu,
    "softmax-1024": lambda: softmax(1024),
    "softmax-1000": lambda: softmax(1000),
    "softmax-5": lambda: softmax(5),
    "softmax-short": lambda: softmax_of_rows(3, 100, 128, 1),
    "rows-long": lambda: softmax_of_rows(30, 200, 256),
    "rows-short": lambda: softmax_of_rows(40, 20, 32, 32),
    "rows-odd": lambda: softmax_of_rows(7, 300, 300, 7),
    "rows-single": lambda: softmax_of_rows(3, 700, 1024, 1),
    "rows-or-none": lambda: rows_or_none(3, 500),
    "layernorm": lambda: layer_norm(1000),
    "reductions": reductions,
    "matmul-nn": lambda: matmul(64, 64, 64, False, False),
    "matmul-nt-masked": lambda: matmul(50, 70, 45, True, True),
    "matmul-nn-masked": lambda: matmul(33, 65, 31, False, True),
    "matmul-bf16": lambda: matmul(32, 64, 64, True, False, bf16),
    "attention-causal": lambda: attention(True),
    "attention-full": lambda: attention(False),
    "in-place": in_place_updates,
    "shifted": shifted_in_place,
    "movements": movements,
    "control": control,
    "histogram": histogram,
}


def check(arguments: Arrays, case: Case) -> None:
    for place, wanted in case.wanted.items():
        found = arguments[place]
        scale = np.nanmax(np.abs(wanted)) if wanted.size else 1
        np.testing.assert_allclose(
            found.reshape(wanted.shape), wanted, rtol=case.tolerance, atol=case.tolerance * scale
        )


def copies(case: Case) -> Arrays:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in case.arguments]


@pytest.mark.parametrize("name", CASES)
def test_compiled(load, extreme, name):
    case = CASES[name]()
    arguments = copies(case)
    load(case.function, extreme)(case.grid, arguments)
    check(arguments, case)


@pytest.mark.parametrize("name", CASES)
def test_blocked_tile_ir(host, name):
    """The result is tile IR again: it verifies, fits the registers, and means the same."""
    case = CASES[name]()
    lanes = lanes_of(case.function, host)
    blocked = block(case.function, host, lanes)
    assert blocked is not case.function
    verify(blocked)
    assert not is_large(blocked, host, lanes)
    arguments = copies(case)
    interpret(blocked, case.grid, arguments)
    check(arguments, case)


def test_pointers_in_memory(agree, extreme):
    """Addresses that a branch chooses, that are put side by side, that step unevenly."""
    parameters = [("x", Ptr[f32]), ("y", Ptr[f32]), ("o", Ptr[f32]), ("n", i32)]
    with build_function("pick", parameters) as f:
        x, y, o, n = f.arguments
        lane = tl.arange(0, 640)
        (chosen,) = tl.if_(n > 2, lambda: (x + lane,), lambda: (y + lane * 2,))
        tl.store(o + lane, tl.load(chosen))
        both = tl.arange(0, 1280)
        tl.store(o + 640 + both, tl.load(tl.cat(y + lane, x + 639 - lane)))

        def walk(i, at, total):
            return at + (lane % 2 + 1), total + tl.load(at)

        at, total = tl.for_(0, n, 1, (x + lane, tl.zeros((640,), f32)), walk)
        tl.store(o + 1920 + lane, total + tl.load(at))
    for n in (1, 3):
        agree(f.function, extreme, (1,), [random(1280), random(1280), zeros(2560), n])


def test_what_a_branch_or_loop_puts_into_memory_is_forgotten(agree, extreme):
    """A tile that a region yields, or wants in memory, is wanted after it too."""
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("n", i32)]
    with build_function("after", parameters) as f:
        x, o, n = f.arguments
        lane = tl.arange(0, 1024)
        v = tl.load(x + lane) * 2.0
        (kept,) = tl.if_(n > 0, lambda: (v,), lambda: (-v,))
        tl.store(o + lane, v + kept)
        (turned,) = tl.for_(0, n, 1, (tl.zeros((1024,), f32),), lambda i, t: (v,))
        tl.store(o + 1024 + lane, v - turned)
        square = v.reshape(32, 32)
        (rows,) = tl.if_(n > 0, lambda: (tl.trans(square),), lambda: (square,))
        tl.store(o + 2048 + lane, (tl.trans(square) + rows).reshape(1024))
        halves = v.reshape(2, 512)
        tl.store(o + 3072 + tl.arange(0, 2048), tl.cat(halves, halves, dim=1).reshape(2048))
    for n in (0, 1):
        agree(f.function, extreme, (1,), [random(1024), zeros(5120), n])


def test_small_functions_stay(host):
    with build_function("small", [("x", Ptr[f32])]) as f:
        (x,) = f.arguments
        lane = tl.arange(0, 64)
        tl.store(x + lane, tl.load(x + lane) * 2.0)
    assert block(f.function, host, 16) is f.function


@pytest.mark.parametrize("width", [64, 2048])
def test_shared_expressions_stay_linear(load, host, width):
    """Ten rounds of Philox share their words: code grows with rounds, not with paths."""
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("s", Ptr[f32]), ("n", i32)]
    with build_function("dropout", parameters) as f:
        x, o, s, n = f.arguments
        at = tl.program_id(0) * width + tl.arange(0, width)
        keep = tl.rand(7, at) > 0.25
        y = tl.where(keep, tl.load(x + at, at < n) * 2.0, 0.0)
        tl.store(o + at, y, at < n)
        tl.store(s + tl.program_id(0), tl.sum(tl.where(at < n, y, 0.0), 0))
    x = random(4000)
    grid = (-(-4000 // width),)
    found = [x, zeros(4000), zeros(grid[0]), 4000]
    wanted = [x, zeros(4000), zeros(grid[0]), 4000]
    load(f.function, host)(grid, found)
    interpret(f.function, grid, wanted)
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_allclose(found[2], wanted[2], rtol=1e-4, atol=1e-4)
