"""Reshaped indices and addresses: right, and never gathered where they are linear."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from teeny_triton import Ptr, constexpr, f32, i32, kernel


def i(a: Any) -> Any:
    """Count, by `tl` or by NumPy."""
    return a.arange(0, 60)


def rows(n: Any, a: Any) -> Any:
    """Count the elements of six rows that are n apart."""
    return a.arange(0, 6)[:, None] * n + a.arange(0, 10)[None]


PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "cut": lambda n, a: a.arange(0, 60).reshape(4, 15),
    "cut twice, with units": lambda n, a: a.arange(0, 60).reshape(1, 4, 1, 5, 3).reshape(20, 3, 1),
    "cut from three": lambda n, a: a.arange(3, 63).reshape(60) * 2,
    "computed, then cut": lambda n, a: (i(a) * n - 7 + n).reshape(6, 10),
    "divided, then cut": lambda n, a: (a.arange(0, 60) // 15 * n + a.arange(0, 60) % 15).reshape(
        4, 15
    ),
    "a row, cut": lambda n, a: rows(n, a).reshape(6, 5, 2),
    "merged": lambda n, a: rows(n, a).reshape(60),
    "merged, then moved": lambda n, a: rows(n, a).reshape(60) + n,
    "merged and cut": lambda n, a: rows(n, a).reshape(60).reshape(3, 2, 10),
    "units, cut": lambda n, a: (a.arange(0, 1)[:, None, None] + i(a) + n).reshape(5, 12),
    "across": lambda n, a: rows(n, a).reshape(4, 15),
}
GATHERED = ("divided, then cut", "cut from three", "computed, then cut", "across")
"""Those whose neighbours are apart, or that are rows of no axis."""


@kernel
def doubled(x: Ptr[f32], out: Ptr[f32], n: i32, limit: i32, PLACE: constexpr, MASKED: constexpr):
    place = PLACE(n, tl)
    if MASKED:
        inside = place < limit
        tl.store(out + place, tl.load(x + place, mask=inside, other=-1.0) * 2, mask=inside)
    else:
        tl.store(out + place, tl.load(x + place) * 2)


def check(place: Callable[[Any, Any], Any], masked: bool) -> None:
    n = 17
    index = place(n, np).ravel()
    x, out = np.random.default_rng(0).standard_normal((2, 2000)).astype(np.float32)
    expected = out.copy()
    used = index[index < 40] if masked else index
    expected[used] = 2 * x[used]
    doubled[(1,)](x, out, n, 40, PLACE=place, MASKED=masked)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", PLACES)
def test_memory_by_reshaped_indices(name: str, masked: bool) -> None:
    check(PLACES[name], masked)


@pytest.mark.parametrize("name", [name for name in PLACES if name not in GATHERED])
def test_linear_indices_are_not_gathered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("teeny_cpu")
    monkeypatch.setenv("TEENY_DEVICE", "cpu")
    text = doubled.emit("llvm", PLACE=PLACES[name], MASKED=False)
    assert "gather" not in text
    assert "scatter" not in text


@pytest.mark.usefixtures("mode")
def test_addresses_and_bits_are_reshaped() -> None:
    @kernel
    def k(x: Ptr[f32], out: Ptr[f32], n: i32):
        rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
        addresses = (x + rows * n + columns).reshape(32)
        odd = ((rows ^ columns) & 1).to(tl.int1).ravel()
        value = tl.load(addresses, mask=odd, other=0.5)
        tl.store(out + tl.arange(0, 32), value)
        tl.atomic_add(addresses, tl.where(odd, 1.0, 2.0))

    x, out = np.arange(44, dtype=np.float32).reshape(4, 11), np.zeros((4, 8), np.float32)
    before = x.copy()
    k[(1,)](x, out, 11)
    odd = np.indices((4, 8)).sum(0) % 2 == 1
    np.testing.assert_array_equal(out, np.where(odd, before[:, :8], 0.5))
    np.testing.assert_array_equal(x[:, :8], before[:, :8] + np.where(odd, 1, 2))
    np.testing.assert_array_equal(x[:, 8:], before[:, 8:])


@pytest.mark.usefixtures("mode")
def test_what_comes_from_ops_of_several_results_is_reshaped() -> None:
    @kernel
    def k(out: Ptr[i32], n: i32):
        even, odd = tl.split(tl.arange(0, 16).reshape(8, 2))
        both = even + odd
        for _ in range(n):
            both += 1
            even = even * 2
        place = tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)[None, :]
        tl.store(out + place, both.reshape(2, 4))
        tl.store((out + 8 + even // 8).reshape(2, 4), odd.reshape(2, 4))

    out = np.zeros(16, np.int32)
    k[(1,)](out, 2)
    np.testing.assert_array_equal(out[:8], 4 * np.arange(8) + 3)
    np.testing.assert_array_equal(out[8:], 2 * np.arange(8) + 1)


def test_what_is_used_often_is_reshaped_once() -> None:
    @kernel
    def k(x: Ptr[f32], n: i32):
        place = tl.arange(0, 32)
        for _ in tl.static_range(40):  # 2**40 paths from the address to the range
            place = (place ^ n) + place
        tl.store(x + place.reshape(4, 8), 1.0)
        tl.store(x + place, 1.0)

    assert len(str(k.function()).splitlines()) < 400


@st.composite
def factored(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of as many elements."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5))

    def shape(order: list[int]) -> tuple[int, ...]:
        cuts = sorted(draw(st.sets(st.integers(1, len(order)), max_size=3)) | {len(order)})
        return tuple(math.prod(order[i:j]) for i, j in zip([0, *cuts], cuts, strict=False))

    return shape(factors), shape(draw(st.permutations(factors)))


@given(shapes=factored(), masked=st.booleans())
@settings(
    max_examples=15,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.usefixtures("mode")
def test_any_shapes(shapes: tuple[tuple[int, ...], tuple[int, ...]], masked: bool) -> None:
    first, second = shapes

    def place(n: Any, a: Any) -> Any:
        total = 0
        for axis, extent in enumerate(first):
            ones = [extent if i == axis else 1 for i in range(len(first))]
            total = total + a.arange(0, extent).reshape(*ones) * (2, 9, 30, 70)[axis % 4]
        return total.reshape(*second)

    if len({*place(17, np).ravel().tolist()}) == math.prod(first):  # no element stored twice
        check(place, masked)
