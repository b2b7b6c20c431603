"""Addresses as values: loaded from memory, made of numbers, compared, pointed at other types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_triton as triton
import teeny_triton.language as tl
from teeny_core import KernelError
from teeny_triton import Ptr, f32, i32, parse, verify


@pytest.fixture(autouse=True)
def modes(mode: str) -> None:
    """Run every test interpreted and native."""


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@triton.jit
def double_all(pointers, sizes, out, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    p = tl.load(pointers + pid).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    inside = i < tl.load(sizes + pid)
    x = tl.load(p + i, mask=inside)
    tl.store(p + i, x * 2, mask=inside)
    tl.store(out + pid * stride + i, x, mask=inside)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_pointers_are_loaded_from_memory(dtype: Any) -> None:
    arrays = [normal(n, seed=n) for n in (1, 5, 8, 3)]
    before = [array.copy() for array in arrays]
    pointers = np.array([array.ctypes.data for array in arrays], dtype)
    sizes, out = np.array([1, 5, 8, 3], np.int32), np.zeros((4, 8), np.float32)
    double_all[(4,)](pointers, sizes, out, 8, BLOCK=8)
    for array, old, row in zip(arrays, before, out, strict=True):
        np.testing.assert_array_equal(array, old * 2)
        np.testing.assert_array_equal(row[: len(old)], old)


@triton.jit
def read_each(pointers, out, BLOCK: tl.constexpr):
    p = tl.load(pointers + tl.arange(0, BLOCK)).to(tl.pointer_type(tl.int16), bitcast=True)
    tl.store(out + tl.arange(0, BLOCK), tl.load(p))


def test_tiles_of_loaded_pointers() -> None:
    values, out = np.arange(100, 116, dtype=np.int16), np.zeros(16, np.int32)
    places = np.random.default_rng(0).permutation(16)
    read_each[(1,)](values.ctypes.data + 2 * places.astype(np.int64), out, BLOCK=16)
    np.testing.assert_array_equal(out, values[places])


@triton.jit
def pun(x, out):
    i = tl.arange(0, 4)
    words = tl.cast(x, tl.pointer_type(tl.int32))
    tl.store(out + i, tl.load(words + i))
    octets = (x + i).to(tl.pointer_type(tl.uint8))
    tl.store(out + 4 + i, tl.load(octets + 3))
    halves = x.to(tl.pointer_type(tl.uint16), bitcast=True)
    tl.store(halves + 20 + i, 0x4000)


def test_pointers_to_other_types() -> None:
    x, out = normal(16), np.zeros(8, np.int32)
    before = x.copy()
    pun[(1,)](x, out)
    np.testing.assert_array_equal(out[:4], before[:4].view(np.int32))
    np.testing.assert_array_equal(out[4:], before[:4].view(np.uint8)[3::4])
    np.testing.assert_array_equal(x[10:12].view(np.uint16), 0x4000)
    np.testing.assert_array_equal(np.delete(x, [10, 11]), np.delete(before, [10, 11]))


@triton.jit
def relate(x, out):
    i = tl.arange(0, 4)
    q = (x.to(tl.int64) + 16).to(tl.pointer_type(tl.float64))
    tl.store(out, q - x)
    tl.store(out + 1, (q > x) + 2 * (x >= q) + 4 * (x == q - 2) + 8 * (x != q) + 16 * (q <= x))
    tl.store(out + 2 + i, (x + 3 * i + 3) - (x + 1))
    tl.store(out + 6, x.to(tl.uint32).to(tl.int64) == (x.to(tl.int64) & 0xFFFFFFFF))
    tl.store(q, 7.0)


def test_differences_and_order() -> None:
    x, out = np.zeros(16), np.zeros(7, np.int64)
    relate[(1,)](x, out)
    assert out.tolist() == [2, 1 + 4 + 8, 2, 5, 8, 11, 1]
    assert x[2] == 7.0
    function = relate.function(x=Ptr[tl.f64], out=Ptr[tl.i64])
    assert [p.written for p in function.parameters] == [True, True]
    assert str(parse(str(verify(function)))) == str(function)


def test_what_is_refused() -> None:
    @triton.jit
    def to_float(x: Ptr[f32], n: i32):
        tl.store(x, x.to(tl.float32))

    @triton.jit
    def from_float(x: Ptr[f32], n: i32):
        tl.store((n * 1.0).to(tl.pointer_type(tl.float32)), 1)

    for kernel in (to_float, from_float):
        with pytest.raises(KernelError, match="an address is no float"):
            kernel.function()


def test_addresses_that_nobody_owns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter finds them; compiled code trusts what it is given, as C does."""
    monkeypatch.setenv("TEENY_INTERPRET", "1")
    out, sizes = np.zeros(8, np.float32), np.ones(1, np.int32)
    for address in (0, 8, -5, 1 << 60):
        with pytest.raises(KernelError, match=r"null pointer|an address of no tensor"):
            double_all[(1,)](np.array([address]), sizes, out, 8, BLOCK=8)


def test_the_constant_one_is_no_multiple_of_sixteen(mode: str) -> None:
    """A launch keeps what is known of integers apart: `1 == True` must not mix them up."""

    @triton.jit
    def put(out, n):
        tl.store(out, n)

    out = np.full(1, -1, np.int32)
    for n in (0, 1, 16, 1, 0, 5):
        put[(1,)](out, n)
        assert out[0] == n


@triton.jit
def add_if_given(table, out, bias):
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    value = tl.load(p) if p else 0.5
    if bias:
        value += tl.load(bias)
    if not bias:
        value = -value
    tl.store(out, value)


def test_whether_an_address_is_null() -> None:
    x, out = np.float32([3]), np.zeros(1, np.float32)
    add_if_given[(1,)](np.array([x.ctypes.data]), out, None)
    assert out[0] == -3
    add_if_given[(1,)](np.array([0]), out, None)
    assert out[0] == -0.5
    add_if_given[(1,)](np.array([0]), out, x)
    assert out[0] == 3.5
