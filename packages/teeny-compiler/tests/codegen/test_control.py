"""Loops and branches: what they carry, and in which form."""

from __future__ import annotations

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import bf16, bool_, f32, i32, i64, u32
from teeny_triton import Ptr, build_function


def lanes(n: int = 40) -> tl.Tile:
    return tl.arange(0, n)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_for_with_runtime_bounds(agree, target, count):
    with build_function("sum", [("x", Ptr[f32]), ("o", Ptr[f32]), ("n", i32)]) as f:
        x, o, n = f.arguments
        total, last = tl.for_(
            0,
            n,
            1,
            (tl.zeros(40), -1),
            lambda i, total, last: (total + tl.load(x + i * 40 + lanes()), i),
        )
        tl.store(o + lanes(), total)
        tl.store(o + 40, last.to(f32))
    x = np.arange(7 * 40, dtype=np.float32)
    agree(f.function, target, (1,), [x, np.zeros(41, np.float32), count])


@pytest.mark.parametrize(
    "bounds", [(0, 0, 1), (0, 1, 1), (3, 10, 3), (0, 16, 4), (5, 6, 9)], ids=str
)
def test_for_with_constant_bounds(agree, host, bounds):
    with build_function("count", [("o", Ptr[i32])]) as f:
        (o,) = f.arguments
        total, steps = tl.for_(*bounds, (0, 0), lambda i, total, steps: (total + i, steps + 1))
        tl.store(o, total)
        tl.store(o + 1, steps)
    agree(f.function, host, (1,), [np.zeros(2, np.int32)])


def test_carried_pointers_and_indices(agree, target):
    """A pointer tile that advances, one that turns around, and one whose pitch changes."""
    parameters = [("x", Ptr[f32]), ("o", Ptr[f32]), ("n", i32), ("ld", i32)]
    with build_function("walk", parameters) as f:
        x, o, n, ld = f.arguments
        row, column = tl.arange(0, 3)[:, None], tl.arange(0, 20)[None, :]

        def step(i, total, pointers, index, growing):
            total = total + tl.load(pointers) + tl.load(x + index) + tl.load(x + growing)
            return total, pointers + ld, index + 20, growing + column

        total, *_ = tl.for_(
            0,
            n,
            1,
            (tl.zeros((3, 20)), x + row * ld + column, row * ld + column, row * 0 + column),
            step,
        )
        tl.store(o + row * 20 + column, total)
    x = np.arange(400, dtype=np.float32)
    agree(f.function, target, (1,), [x, np.zeros(60, np.float32), 4, 20])


def test_swapped_pointers(agree, target):
    """Buffers that change places every round must not be taken for separate memory."""
    with build_function("swap", [("x", Ptr[f32]), ("o", Ptr[f32])]) as f:
        x, o = f.arguments
        here, there = tl.scratch(16, f32), tl.scratch(16, f32)
        lane = tl.arange(0, 16)
        tl.store(here + lane, tl.load(x + lane))
        tl.store(there + lane, 0.0)

        def step(i, a, b):
            value = tl.load(a + lane)
            tl.store(b + lane, value + 1.0)
            return b, a

        last, _ = tl.for_(0, 5, 1, (here, there), step)
        tl.store(o + lane, tl.load(last + lane))
    agree(f.function, target, (1,), [np.arange(16, dtype=np.float32), np.zeros(16, np.float32)])


def test_nested_loops_with_uses_outside(agree, target):
    with build_function("nest", [("x", Ptr[f32]), ("o", Ptr[f32]), ("n", i32)]) as f:
        x, o, n = f.arguments
        scale = tl.load(x + lanes()) * 2.0  # wanted inside and after the loops

        def outer(i, total):
            (inner,) = tl.for_(0, i + 1, 1, (total,), lambda j, t: t + scale * j)
            return inner + tl.load(x + i)

        (total,) = tl.for_(0, n, 1, (tl.zeros(40),), outer)
        tl.store(o + lanes(), total + scale)
    agree(f.function, target, (1,), [np.arange(40, dtype=np.float32), np.zeros(40, np.float32), 4])


def test_loads_before_a_loop_that_stores(agree, target):
    with build_function("before", [("x", Ptr[f32]), ("n", i32)]) as f:
        x, n = f.arguments
        old = tl.load(x + lanes())
        tl.for_(0, n, 1, (), lambda i: tl.store(x + lanes() + i, tl.load(x + lanes() + i) + old))
        tl.store(x + lanes(), old)
    agree(f.function, target, (1,), [np.arange(50, dtype=np.float32), 3])


@pytest.mark.parametrize("start", [0, 1, 27])
def test_while(agree, target, start):
    with build_function("collatz", [("o", Ptr[i32]), ("p", Ptr[f32]), ("n", i32)]) as f:
        o, p, n = f.arguments

        def step(x, steps, tile):
            return tl.where(x % 2 == 0, x // 2, 3 * x + 1), steps + 1, tile * 0.5

        x, steps, tile = tl.while_((n, 0, tl.full(20, 8.0, f32)), lambda x, s, t: x > 1, step)
        tl.store(o, x)
        tl.store(o + 1, steps)
        tl.store(p + tl.arange(0, 20), tile)
    agree(f.function, target, (1,), [np.zeros(2, np.int32), np.zeros(20, np.float32), start])


@pytest.mark.parametrize("flag", [False, True])
def test_if(agree, target, flag):
    """Tiles, scalars, pointers and index tiles come out of branches; only one branch stores."""
    parameters = [("x", Ptr[f32]), ("y", Ptr[f32]), ("o", Ptr[f32]), ("p", Ptr[i32]), ("c", bool_)]
    with build_function("branch", parameters) as f:
        x, y, o, p, c = f.arguments

        def yes():
            tl.store(o, 5.0)
            return tl.load(x + lanes()) * 2.0, 3, x + 1, lanes() * 2, lanes() < 3, 2.0

        def no():
            return tl.load(y + lanes()), 4, y + 2, lanes() + 7, lanes() > 30, 1.0

        tile, number, pointer, index, mask, scalar = tl.if_(c, yes, no)
        tl.store(o + lanes() + 1, tile * scalar, mask)
        tl.store(p, number)
        tl.store(p + 1 + lanes(), index)
        tl.store(o + 45, tl.load(pointer))
    x = np.arange(50, dtype=np.float32)
    arrays = [x, -x, np.zeros(50, np.float32), np.zeros(50, np.int32)]
    agree(f.function, target, (1,), [*arrays, flag])


def test_if_without_results_in_a_loop(agree, target):
    with build_function("some", [("o", Ptr[i32]), ("n", i32)]) as f:
        o, n = f.arguments

        def body(i):
            tl.if_(i % 3 == 1, lambda: tl.store(o + i, i * i), lambda: None)

        tl.for_(0, n, 1, (), body)
    agree(f.function, target, (1,), [np.zeros(12, np.int32), 11])


def test_carried_types(agree, target):
    """bool, unsigned, narrow float and 64-bit values keep their type across rounds."""
    parameters = [("a", Ptr[bool_]), ("b", Ptr[u32]), ("c", Ptr[bf16]), ("d", Ptr[i64]), ("n", i32)]
    with build_function("types", parameters) as f:
        a, b, c, d, n = f.arguments
        lane = tl.arange(0, 20)
        inits = (lane < 3, lane.to(u32) * 7, lane.to(bf16), lane.to(i64), tl.full((), 1, u32))

        def step(i, flag, hashed, small, wide, seed):
            hashed = (hashed * 1664525 + seed) ^ (hashed >> 13)
            return ~flag | (lane == i), hashed, small * 0.5 + 1.0, wide * 3 + i, seed * 69069

        flag, hashed, small, wide, seed = tl.for_(0, n, 1, inits, step)
        for pointer, value in ((a, flag), (b, hashed), (c, small), (d, wide)):
            tl.store(pointer + lane, value)
        tl.store(b + 20, seed)
    arrays = [np.zeros(21, t.numpy) for t in (bool_, u32, bf16, i64)]
    agree(f.function, target, (1,), [*arrays, 5])


def test_signed_values_wrap_where_they_are_stored(agree, target):
    with build_function("wrap", [("o", Ptr[i32]), ("n", i32)]) as f:
        o, n = f.arguments
        lane = tl.arange(0, 20)
        (x,) = tl.for_(0, 9, 1, (lane + n,), lambda i, x: x * 1103515245 + 12345)
        tl.store(o + lane, x ^ (lane * n))
    agree(f.function, target, (1,), [np.zeros(20, np.int32), 77])


def test_index_division_by_parts(agree, target):
    """Quotients and remainders of index tiles, exact for negative numbers too."""
    with build_function("divide", [("o", Ptr[i32]), ("n", i32)]) as f:
        o, n = f.arguments
        lane = tl.arange(0, 24)
        index = tl.program_id(0) * 48 + lane - 30
        results = [
            index // 8,
            index % 8,
            index // 7,
            index % 7,
            index // n,
            index % n,
            -index // 48,
        ]
        for k, value in enumerate(results):
            tl.store(o + tl.program_id(0) * 240 + k * 24 + lane, value)
        tl.store(o + 239 + tl.program_id(0) * 240, (tl.program_id(0) * 5 + n) // 3 % 4)
    for n in (5, -3):
        agree(f.function, target, (2,), [np.zeros(480, np.int32), n])


def test_assert_and_print(load, host, capfd):
    with build_function("debug", [("x", Ptr[f32]), ("n", i32)]) as f:
        x, n = f.arguments
        tl.device_assert(tl.load(x + tl.arange(0, 4)) >= 0.0, "negative")
        tl.device_print("values", n, tl.load(x))
    load(f.function, host)((2,), [np.ones(4, np.float32), 7])
    assert capfd.readouterr().out == "pid (0, 0, 0) values 7 1\npid (1, 0, 0) values 7 1\n"
