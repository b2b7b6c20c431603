"""Guards of a launch as the words that `relaunch.ll` reads."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

from teeny_core import DType, f64
from teeny_triton.guards import (
    DIVISIBILITY,
    ArrayGuard,
    FloatGuard,
    Guard,
    Guards,
    IntegerGuard,
    MemoryGuard,
    SpanGuard,
)
from teeny_triton.ir import Pointer

_GUARD_WORDS = 9
_DENSE, _WRITEABLE = 0x1, 0x400  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE
_KINDS = {ArrayGuard: 0, SpanGuard: 1, IntegerGuard: 2}
_DOUBLE, _SINGLE = 3, 4
_CODES = {ArrayGuard: "Q", SpanGuard: "QQ", IntegerGuard: "q", FloatGuard: "d"}


def layout(guards: Guards) -> str:
    """Return what `struct` calls the words of the arguments."""
    in_order = sorted(guards.items, key=lambda guard: guard.word)
    return "".join(_CODES[type(guard)] for guard in in_order)


def encode(guards: Guards, elements: Sequence[DType | Pointer]) -> ctypes.Array[ctypes.c_int64]:
    """Return the words of guards, for a kernel with parameters of these types."""
    overlaps = sum(1 << piece for piece in guards.overlapping)
    words = [len(elements), len(guards.items), overlaps]
    for guard in guards.items:
        own = [*_head(guard, elements), *_body(guard)]
        words += own + [0] * (_GUARD_WORDS - len(own))
    return (ctypes.c_int64 * len(words))(*words)


def _head(guard: Guard, elements: Sequence[DType | Pointer]) -> Iterator[int]:
    if isinstance(guard, FloatGuard):
        assert guard.parameter is not None
        yield _DOUBLE if elements[guard.parameter] == f64 else _SINGLE
    else:
        yield _KINDS[type(guard)]
    yield guard.word
    yield -1 if guard.parameter is None else guard.parameter


def _body(guard: Guard) -> Iterator[int]:
    if isinstance(guard, IntegerGuard):
        yield guard.low
        yield guard.high
        yield 0 if guard.divides is None else DIVISIBILITY - 1
        yield guard.divides is not False
    if isinstance(guard, MemoryGuard):
        yield 0 if guard.alignment is None else -1
        yield guard.alignment or 0
        yield guard.itemsize
    if isinstance(guard, ArrayGuard):
        wanted = _WRITEABLE * guard.writeable | _DENSE * guard.dense
        yield id(guard.dtype)
        yield _WRITEABLE | _DENSE * guard.dense
        yield wanted
