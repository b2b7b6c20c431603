"""Where a block may lie before its tensor, and where that is known not to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_triton import Kernel, Ptr, constexpr, f32, i32, interpret, ir, kernel, u8, verify


@kernel
def at(x: Ptr[f32], n: i32, place: constexpr, prepare: constexpr):
    """Add 1 to the block that `place` says, after `prepare`."""
    prepare(n)
    p = tl.make_block_ptr(x, (8,), (1,), (place(x, n),), (4,), (0,))
    tl.store(p, tl.load(p, boundary_check=(0,)) + 1, boundary_check=(0,))


def nothing(n: Any) -> None:
    pass


def checks(k: Kernel, **parameters: Any) -> int:
    """How many blocks are checked at their start."""
    function = verify(k.function(**parameters))
    return sum(op.opcode == "ge" for op in ir.walk(function.body))


NATURAL: dict[str, Callable[[Any, Any], Any]] = {
    "constant": lambda x, n: 3,
    "program": lambda x, n: tl.program_id(0) * 4,
    "size": lambda x, n: tl.num_programs(0) + 1,
    "largest": lambda x, n: tl.maximum(n, 0),
    "smallest": lambda x, n: tl.minimum(tl.program_id(0), 7),
    "remainder": lambda x, n: n % 5,
    "quotient": lambda x, n: tl.program_id(0) // 3,
    "bits": lambda x, n: n & 7,
    "shift": lambda x, n: tl.program_id(0) >> 1,
    "choice": lambda x, n: tl.where(n > 3, tl.program_id(0), 4),
    "unsigned": lambda x, n: n.to(u8).to(i32),
    "truth": lambda x, n: (n > 0).to(i32),
}

UNKNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "parameter": lambda x, n: n,
    "below": lambda x, n: tl.program_id(0) - 1,
    "negative": lambda x, n: -3,
    "loaded": lambda x, n: tl.load(x).to(i32),
    "smallest": lambda x, n: tl.minimum(n, 3),
    "remainder": lambda x, n: tl.program_id(0) % n,
    "choice": lambda x, n: tl.where(n > 3, n, 4),
    "narrowed": lambda x, n: tl.program_id(0).to(tl.int8).to(i32),
    "product": lambda x, n: n * 4,
}


@pytest.mark.parametrize("name", NATURAL)
def test_offsets_that_are_natural(name: str) -> None:
    assert checks(at, place=NATURAL[name], prepare=nothing) == 0


@pytest.mark.parametrize("name", UNKNOWN)
def test_offsets_that_may_be_negative(name: str) -> None:
    assert checks(at, place=UNKNOWN[name], prepare=nothing) == 1


@pytest.mark.parametrize("fact", [lambda n: n >= 0, lambda n: n > -1, lambda n: n > 2])
def test_assumptions(fact: Callable[[Any], Any]) -> None:
    assert checks(at, place=lambda x, n: n * 4, prepare=lambda n: tl.assume(fact(n))) == 0


@pytest.mark.parametrize("fact", [lambda n: n > -2, lambda n: n <= 0, lambda n: n != 0])
def test_assumptions_of_other_things(fact: Callable[[Any], Any]) -> None:
    assert checks(at, place=lambda x, n: n, prepare=lambda n: tl.assume(fact(n))) == 1


@kernel
def assumed_in_a_branch(x: Ptr[f32], n: i32):
    if n > 3:
        tl.assume(n >= 0)
    p = tl.make_block_ptr(x, (8,), (1,), (n,), (4,), (0,))
    tl.store(p, tl.load(p, boundary_check=(0,)) + 1)


def test_assumptions_hold_in_their_block_only() -> None:
    assert checks(assumed_in_a_branch) == 1


@kernel
def walk(x: Ptr[f32], n: i32, step: i32, first: constexpr, by: constexpr, WHILE: constexpr):
    """Add 1 to `n` blocks in a row."""
    p = tl.make_block_ptr(x, (16,), (1,), (first,), (4,), (0,))
    i = 0
    if WHILE:
        while i < n:
            tl.store(p, tl.load(p, boundary_check=(0,)) + 1, boundary_check=(0,))
            p = tl.advance(p, (by(step),))
            i += 1
    else:
        for _ in range(n):
            tl.store(p, tl.load(p, boundary_check=(0,)) + 1, boundary_check=(0,))
            if n > 2:
                p = tl.advance(p, (by(step),))
            else:
                p = tl.advance(p, (0,))


@pytest.mark.parametrize("loop", [False, True])
def test_blocks_that_are_moved(loop: bool) -> None:
    assert checks(walk, first=0, by=lambda step: 4, WHILE=loop) == 0
    assert checks(walk, first=0, by=lambda step: tl.maximum(step, 1), WHILE=loop) == 0
    assert checks(walk, first=0, by=lambda step: step, WHILE=loop) == 1
    assert checks(walk, first=8, by=lambda step: -4, WHILE=loop) == 1
    assert checks(walk, first=-1, by=lambda step: 4, WHILE=loop) == 1


@kernel
def offset_of(out: Ptr[i32], x: Ptr[f32], n: i32, place: constexpr):
    tl.store(out + tl.program_id(0), place(x, n))


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from([*NATURAL, *UNKNOWN]).filter(lambda name: name != "loaded"),
    n=st.integers(-20, 20).filter(bool),
    programs=st.integers(1, 4),
)
def test_dropped_checks_change_nothing(name: str, n: int, programs: int) -> None:
    place = (UNKNOWN | NATURAL)[name]
    offsets, x, expected = np.zeros(programs, np.int32), *np.zeros((2, 8), np.float32)
    interpret(offset_of.function(place=place), (programs,), [offsets, x, n])
    for offset in offsets:
        expected[max(offset, 0) : max(offset + 4, 0)] += 1
    interpret(at.function(place=place, prepare=nothing), (programs,), [x, n])
    np.testing.assert_array_equal(x, expected)
