"""Launches that are recalled: they must run what `bind` says, and refuse what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
import teeny_cpu
from teeny_core import KernelError
from teeny_triton import Ptr, TypeVar, constexpr, contiguous, f32, f64, i8, i64, kernel
from teeny_triton import language as tl
from teeny_triton.recall import MOST_WAYS, Way

T = TypeVar("T")
FACTOR = 2


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "cpu")


@pytest.fixture
def recalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each attempt to launch as before did."""
    attempts: list[bool] = []
    launch = Way.launch

    def noted(way: Way, *args: Any) -> bool:
        attempts.append(launch(way, *args))
        return attempts[-1]

    monkeypatch.setattr(Way, "launch", noted)
    return attempts


def memory(count: int, dtype: type = np.float32, offset: int = 0) -> np.ndarray:
    """Return zeros that begin `offset` bytes behind a multiple of 64."""
    item = np.dtype(dtype).itemsize
    block = np.zeros(count * item + 128, np.uint8)
    start = -block.ctypes.data % 64 + offset
    return block[start : start + count * item].view(dtype)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


class Sub(np.ndarray):
    """An array of another class."""


# --- the same specialisation, whatever came before ---


@kernel
def sees(out, x, n, alpha, flag):
    tl.store(out, 1.0)


@kernel(do_not_specialize=["n"], do_not_specialize_on_alignment=["x"])
def sees_less(out, x, n, alpha, flag):
    tl.store(out, 1.0)


BASE = memory(64)
MEMORY = {
    "cache line": memory(64),
    "16 bytes": memory(64, offset=16),
    "4 bytes": memory(64, offset=4),
    "f64": memory(32, np.float64),
    "f64, 8 bytes": memory(32, np.float64, 8),
    "i8": memory(5, np.int8, 3),
    "none": memory(64)[:0],
    "none of it": np.zeros((3, 0, 2), np.float32)[::2],
    "0-d": memory(1).reshape(()),
    "strided": memory(64)[::2],
    "backward": memory(64)[::-1],
    "transposed": memory(64).reshape(8, 8).T,
    "broadcast": np.broadcast_to(memory(1), (4, 4)),
    "read-only": read_only(memory(64)),
    "overlap": BASE[:32],
    "overlap backward": BASE[40:0:-1],
    "behind": memory(128)[64:],
    "teeny": tn.Tensor(np.zeros(20, np.float32)),
    "subclass": memory(64).view(Sub),
}
NUMBERS = [0, 1, 2, 15, 16, -16, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**40, 2**63, True]
NUMBERS += [1.0, None, np.int32(1), np.float64(2), constexpr(1), (1, 2)]


def arguments() -> Iterator[tuple[Any, ...]]:
    out = memory(16)
    for x in MEMORY.values():
        yield out, x, 16, 0.5, True
        yield BASE[16:], x, 17, 0.5, True
    for number in NUMBERS:
        yield out, MEMORY["cache line"], number, 0.5, False
        yield out, MEMORY["cache line"], 5, number, number


@pytest.mark.parametrize("k", [sees, sees_less])
def test_what_runs_is_what_the_arguments_specialise(k: Any, recalled: list[bool]) -> None:
    every = list(arguments())
    for values in [*every, *every, *reversed(every)]:
        assert (
            k[(1,)](*values).function == k._specialised_function(k._bound(values).specialisation)[0]
        )
    assert recalled.count(True) > len(every)


def test_tensors_of_torch(recalled: list[bool]) -> None:
    torch = pytest.importorskip("torch")
    base = torch.zeros(64)
    tensors = [
        base,
        base[1:],
        base[4:],
        base[::2],
        base.reshape(8, 8).t(),
        base.expand(3, 64),
        torch.zeros(64, dtype=torch.float64),
        torch.zeros(64, dtype=torch.bfloat16),
        torch.zeros(0),
        torch.zeros(3).numpy(),
    ]
    for first in (torch.zeros(64), base):
        for x in [*tensors, *tensors, *reversed(tensors)]:
            values = first, x, 3, 0.5, True
            found = sees[(1,)](*values).function
            assert found == sees._specialised_function(sees._bound(values).specialisation)[0]
    assert recalled.count(True) > 2 * len(tensors)
    with pytest.raises(KernelError, match="argument `x` of type Tensor cannot be passed"):
        sees[(1,)](base, torch.zeros(4, device="meta"), 3, 0.5, True)


# --- values ---


@kernel
def collect(out: Ptr[f64], a: i8, b: i64, c: f32, d: f64, e, f, BLOCK: constexpr = 4):
    i = tl.arange(0, BLOCK)
    values = tl.where(i == 0, a.to(f64), tl.where(i == 1, b.to(f64), tl.where(i == 2, c, d)))
    tl.store(out + i, values.to(f64))
    tl.store(out + 4 + i, tl.where(i < 2, e, f).to(f64))


def test_numbers_arrive(recalled: list[bool]) -> None:
    out = np.zeros(8)
    for a, b, c, d, e, f in [
        (-3, 2**40 + 1, 0.1, 0.1, 7, 0.5),
        (127, -1, -2.5, 1e300, 9, -0.5),
    ] * 2:
        collect[(1,)](out, a, b, c, d, e, f)
        single = float(np.float32(c))
        assert out.tolist() == [a, b, single, d, e, e, f, f]
    assert recalled == [True] * 3
    with pytest.raises(KernelError, match="argument `a` must be i8, not 128"):
        collect[(1,)](out, 128, 1, 0.1, 0.1, 7, 0.5)
    collect[(1,)](out, 1, 2, 3, 4, 5, 6)  # integers for floats
    assert out.tolist() == [1, 2, 3, 4, 5, 5, 6, 6]
    collect[(1,)](out, 1, 2, 1e300, 4.0, 5, 6.0)  # too large for f32
    assert out[2] == np.inf


def test_arguments_by_name_and_defaults(recalled: list[bool]) -> None:
    @kernel
    def fill(out, n, value: constexpr = 3, BLOCK: constexpr = 8):
        i = tl.arange(0, BLOCK)
        tl.store(out + i, value, mask=i < n)

    for _ in range(2):
        for given, expected in [
            ({"n": 2}, [3, 3, 0, 0]),
            ({"value": 4, "n": 2, "num_warps": 8}, [4, 4, 0, 0]),
            ({"BLOCK": 4, "n": 20}, [3, 3, 3, 3]),
        ]:
            out = memory(4)
            fill[(1,)](out, **given)
            assert out.tolist() == expected
            again = memory(4)
            fill[lambda arguments: (arguments["BLOCK"] // 4,)](**given, out=again)
            assert again.tolist() == expected
    assert recalled.count(True) >= 9
    for args, given, message in [
        ((out,), {}, "missing a required argument: 'n'"),
        ((out, 2), {"n": 2}, "multiple values for argument 'n'"),
        ((out, 2), {"other": 2}, "unexpected keyword argument 'other'"),
        ((out, 2, 3, 4, 5), {}, "too many positional arguments"),
    ]:
        with pytest.raises(KernelError, match=message):
            fill[(1,)](*args, **given)


def test_constants_that_are_equal_differ() -> None:
    @kernel
    def k(x, value: constexpr):
        tl.store(x, 10.0 if value is True else value)

    x = np.zeros(1, np.float32)
    for _ in range(2):
        for value, expected in ((1, 1), (True, 10), (1.0, 1), (0.0, 0.0), (-0.0, -0.0)):
            k[(1,)](x, value)
            assert x[0] == expected
            assert np.signbit(x[0]) == np.signbit(expected)


# --- refusals ---


@kernel
def copy(x: Ptr[T, contiguous], y: Ptr[T], n: i64, BLOCK: constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_what_is_refused_after_a_launch() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    frozen = read_only(y.copy())
    misaligned = np.zeros(33, np.uint8)[1:].view(np.float32)
    for _ in range(2):
        copy[(1,)](x, y, 8, BLOCK=8)
        np.testing.assert_array_equal(y, x)
        for args, message in [
            ((x, y.astype(np.float64), 8), "`y` must be ptr<T> where T is f32, not ptr<f64>"),
            ((x[::2], y, 4), "argument `x` must be contiguous"),
            ((x, frozen, 8), "argument `y` is written, but its memory is read-only"),
            ((misaligned, y, 8), "argument `x` of type ndarray cannot be passed"),
            ((x, y, 8.0), "argument `n` must be i64, not 8.0"),
            ((x, y, 2**63), "argument `n` must be i64, not 9223372036854775808"),
            ((x.astype(">f4"), y, 8), "argument `x` of type ndarray cannot be passed"),
            ((x, None, 8), "argument `y` must be"),
        ]:
            with pytest.raises(KernelError, match=message):
                copy[(1,)](*args, BLOCK=8)
        with pytest.raises(KernelError, match="cannot be a constant"):
            copy[(1,)](x, y, 8, BLOCK=[{}])


def test_flags_that_change_are_seen() -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    copy[(1,)](x, y, 4, BLOCK=4)
    y.flags.writeable = False
    with pytest.raises(KernelError, match="read-only"):
        copy[(1,)](x, y, 4, BLOCK=4)


# --- what is remembered ---


def test_a_changed_global_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    @kernel
    def k(x):
        tl.store(x, FACTOR)

    x = np.zeros(1, np.float32)
    for value in (2, 2, 5, 5, 2):
        monkeypatch.setitem(globals(), "FACTOR", value)
        k[(1,)](x)
        assert x[0] == value


def test_a_bounded_number_of_ways_is_kept() -> None:
    @kernel
    def k(x, n):
        tl.store(x, n)

    for dtype in "bBhHiIlLfd":
        x = np.zeros(1, dtype)
        k[(1,)](x, 5)
        assert x[0] == 5
    (ways,) = k._memory._ways.values()
    assert len(ways) == MOST_WAYS


def test_grids(recalled: list[bool]) -> None:
    @kernel
    def where(out: Ptr[i64]):
        place = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0)
        tl.store(out + place + tl.program_id(0), 1)

    for grid, count in [
        ((2, 3, 4), 24),
        ((5,), 5),
        ((2, 2), 4),
        ((0,), 0),
        ((3, 0), 0),
        (7, 7),
    ] * 2:
        out = memory(30, np.int64)
        where[grid](out)
        assert out.sum() == count
        assert out[:count].all()
    assert all(recalled)
    for grid in ((), (1, 1, 1, 1), (-1,), (1.5,)):
        with pytest.raises(KernelError, match="a grid has one to three integer extents"):
            where[grid](memory(30, np.int64))


def test_scratch_memory_is_not_shared_by_launches_at_a_time() -> None:
    from concurrent.futures import ThreadPoolExecutor

    @kernel
    def product(a, b, c, N: constexpr):
        i = tl.arange(0, N)
        at = i[:, None] * N + i[None, :]
        tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))

    teeny_cpu.set_num_threads(1)
    random = np.random.default_rng(0)
    pairs = [random.integers(-4, 5, (2, 64, 64)).astype(np.float32) for _ in range(4)]

    def run(pair: np.ndarray) -> bool:
        c = np.zeros((64, 64), np.float32)
        for _ in range(100):
            product[(1,)](pair[0], pair[1], c, N=64)
        return bool((c == pair[0] @ pair[1]).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, pairs))
