"""Atomics: old values, masks, equal addresses in a tile, and threads that come between."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import teeny_triton.language as tl
from teeny_core import DType, bf16, bool_, f8e5m2, f16, f32, f64, i8, i16, i32, i64, u8, u32, u64
from teeny_triton import Facts, KernelError, Ptr, build_function
from teeny_triton.ir import ATOMICS, Function

INTEGERS = (i8, i16, i32, i64, u8, u32, u64)
FLOATS = (f16, bf16, f32, f64)
FUNCTIONS = {kind: getattr(tl, f"atomic_{kind}") for kind in ATOMICS}
ACCEPTED = {
    **dict.fromkeys(("add", "max", "min"), (*INTEGERS, *FLOATS)),
    **dict.fromkeys(("and", "or", "xor"), INTEGERS),
    "xchg": (*INTEGERS, *FLOATS, bool_, f8e5m2),
}


def numbers(dtype: DType, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_int:
        return rng.integers(dtype.min, dtype.max, count, dtype=dtype.numpy, endpoint=True)
    x = rng.uniform(-4, 4, count)
    x[::5] = np.nan
    return x.astype(dtype.numpy)


def change(kind: str, dtype: DType) -> Function:
    """Twelve lanes of which three share each address, under a mask, then one scalar."""
    parameters = [("o", Ptr[dtype]), ("old", Ptr[dtype]), ("x", Ptr[dtype]), ("n", i32)]
    with build_function("change", parameters) as f:
        o, old, x, n = f.arguments
        lane = tl.arange(0, 12)
        before = FUNCTIONS[kind](o + lane % 4, tl.load(x + lane), lane < n)
        tl.store(old + lane, before)
        tl.store(old + 12, FUNCTIONS[kind](o, tl.load(x), sem="relaxed", scope="gpu"))
    return f.function


@pytest.mark.parametrize("kind", ATOMICS)
def test_every_dtype(agree, extreme, kind):
    for number, dtype in enumerate(ACCEPTED[kind]):
        arrays = [numbers(dtype, size, number + size) for size in (4, 13, 12)]
        agree(change(kind, dtype), extreme, (3,), [*arrays, 9])


@pytest.mark.parametrize("kind", ATOMICS)
def test_against_a_loop_in_python(load, host, kind):
    """The interpreter's order: lane after lane; here with plain integers of Python."""
    step = {
        "add": lambda a, b: a + b,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "max": max,
        "min": min,
        "xchg": lambda a, b: b,
    }[kind]
    o, x, old = np.int32([7, -3, 12, 5]), np.arange(12, dtype=np.int32) * 5 - 20, np.zeros(13, "i4")
    state, seen = o.tolist(), [0] * 13
    for lane in range(9):
        seen[lane] = state[lane % 4]
        state[lane % 4] = step(state[lane % 4], int(x[lane]))
    seen[12] = state[0]
    state[0] = step(state[0], int(x[0]))
    load(change(kind, i32), host)((1,), [o, old, x, 9])
    assert o.tolist() == state
    assert old.tolist() == seen


@pytest.mark.parametrize("dtype", [i32, u64, i16, f16, f32, f64, bool_], ids=str)
def test_compare_and_swap(agree, extreme, dtype):
    with build_function("swap", [(n, Ptr[dtype]) for n in ("o", "a", "b", "old")]) as f:
        o, a, b, old = f.arguments
        lane = tl.arange(0, 10)
        before = tl.atomic_cas(o + lane % 5, tl.load(a + lane), tl.load(b + lane), sem="acquire")
        tl.store(old + lane, before)
        tl.store(old + 10, tl.atomic_cas(o, tl.load(a), tl.load(b)))
    o, b = numbers(dtype, 5, 0), numbers(dtype, 10, 1)
    a = np.concatenate([o, b[5:]])
    a[1] = b[1]
    if dtype.is_float:
        o[2], a[2] = 0.0, -0.0  # equal numbers, other bits
    agree(f.function, extreme, (1,), [o, a, b, np.zeros(11, dtype.numpy)])


def in_threads(compiled, programs: int, arguments: list, threads: int = 4) -> None:
    share = programs // threads
    ranges = [(i * share, (i + 1) * share) for i in range(threads)]
    compiled.arena = np.zeros(0, np.uint8)
    workers = [
        threading.Thread(target=compiled, args=((programs,), arguments, bounds))
        for bounds in ranges
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


@pytest.mark.parametrize("dtype", [i32, u64, bf16, f32, f64], ids=str)
def test_threads_lose_no_addition(load, host, dtype):
    with build_function("count", [("o", Ptr[dtype])]) as f:
        (o,) = f.arguments
        tl.atomic_add(o + tl.arange(0, 8) % 2, tl.full((8,), 1, dtype))
        tl.atomic_max(o + 2, tl.program_id(0).to(dtype))
    programs = 60 if dtype == bf16 else 40_000
    o = np.zeros(3, dtype.numpy)
    in_threads(load(f.function, host), programs, [o])
    most = np.asarray(programs - 1).astype(dtype.numpy)
    assert o.tolist() == [programs * 4, programs * 4, most]


def test_a_lock_guards_plain_memory(load, host):
    """A spin lock by compare-and-swap, released by exchange, around a load and a store."""
    with build_function("guard", [("lock", Ptr[i32]), ("o", Ptr[i64])]) as f:
        lock, o = f.arguments
        tl.while_(
            (tl.atomic_cas(lock, 0, 1),),
            lambda seen: seen == 1,
            lambda seen: tl.atomic_cas(lock, 0, 1),
        )
        lane = tl.arange(0, 16)
        tl.store(o + lane, tl.load(o + lane) + lane)
        tl.atomic_xchg(lock, 0)
    lock, o = np.zeros(1, np.int32), np.zeros(16, np.int64)
    in_threads(load(f.function, host), 20_000, [lock, o], threads=2)
    np.testing.assert_array_equal(o, np.arange(16) * 20_000)
    assert lock[0] == 0


def test_a_volatile_load_sees_what_others_store(load, host):
    """A program waits for a flag that is set outside, and then reads what came before."""
    with build_function("wait", [("flag", Ptr[i32]), ("x", Ptr[i32]), ("o", Ptr[i32])]) as f:
        flag, x, o = f.arguments
        tl.store(o + 1, tl.load(x))
        tl.while_((0,), lambda seen: seen == 0, lambda seen: tl.load(flag, volatile=True))
        tl.store(o, tl.load(x, volatile=True))
    flag, x, o = np.zeros(1, np.int32), np.array([5], np.int32), np.zeros(2, np.int32)
    compiled = load(f.function, host)
    waiting = threading.Thread(target=compiled, args=((1,), [flag, x, o]), daemon=True)
    waiting.start()
    while o[1] == 0:
        time.sleep(0.001)
    x[0] = 7
    flag[0] = 1
    waiting.join(timeout=20)
    assert not waiting.is_alive()
    assert o.tolist() == [7, 5]


def test_volatile_tiles(agree, extreme):
    with build_function("volatile", [("x", Ptr[i16]), ("o", Ptr[i16]), ("n", i32)]) as f:
        x, o, n = f.arguments
        lane = tl.arange(0, 20)
        tl.store(o + lane, tl.load(x + lane * 2, lane < n, 9, volatile=True))
    agree(f.function, extreme, (1,), [np.arange(40, dtype=np.int16), np.zeros(20, np.int16), 13])


def test_a_load_stays_before_a_release(load, host):
    """What follows in the program may be seen by others only after it."""
    with build_function("release", [("x", Ptr[f32]), ("flag", Ptr[i32]), ("o", Ptr[f32])]) as f:
        x, flag, o = f.arguments
        lane = tl.arange(0, 2048)
        value = tl.load(x + lane)
        tl.atomic_xchg(flag, 1, sem="release")
        tl.store(o + lane, value)
    text = load(f.function, host).text
    assert text.index("load <") < text.index("atomicrmw xchg") < text.rindex("store <")


def test_what_is_refused():
    with build_function("k", [("x", Ptr[f32]), ("n", Ptr[i32], Facts(noalias=False))]) as f:
        x, n = f.arguments
        with pytest.raises(KernelError, match="or takes int or uint elements"):
            tl.atomic_or(x, 1.0)
        with pytest.raises(KernelError, match="'seq_cst' is no memory order"):
            tl.atomic_add(n, 1, sem="seq_cst")
        with pytest.raises(KernelError, match="'block' is no scope"):
            tl.atomic_cas(n, 0, 1, scope="block")
