"""Memory, atomics, random numbers, control flow, checks."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import teeny_triton as triton
import teeny_triton.language as tl
from teeny_core import f32, f64, i32, i64, u32, u64

from .harness import (
    CUBE,
    FLOATS,
    INTEGERS,
    MATRIX,
    ONE,
    PLAIN_ROW,
    SCALAR,
    TILES,
    Array,
    Case,
    Operand,
)

NUMBERS = (*INTEGERS, *FLOATS)
TWO = (Operand(), Operand())

# --- memory ---


def _held(x: Any) -> Any:
    """Put a tile in memory of its own; return the addresses of its elements."""
    pointer = tl.scratch(x.numel, x.dtype)
    places = tl.arange(0, x.numel).reshape(*x.shape) if x.shape else 0
    tl.store(pointer + places, x)
    return pointer + places


def _masked(x: Any) -> Any:
    return tl.load(_held(x), mask=x == x.flip(0), other=1)


def _part_stored(x: Any) -> Any:
    place = _held(x)
    tl.store(place, tl.zeros_like(x), mask=x == x.flip(0))
    return tl.load(place)


def _prefetched(x: Any) -> Any:
    place = _held(x)
    tl.prefetch(place)
    return tl.load(place)


def _block(x: Any, at: tuple[int, int]) -> Any:
    held = tl.scratch(x.numel, x.dtype)
    rows, columns = x.shape
    index = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    tl.store(held + index, x)
    return tl.make_block_ptr(held, x.shape, (columns, 1), at, (4, 2), (1, 0))


def _window(x: Any) -> Any:
    return tl.load(_block(x, (2, 0)), boundary_check=(0, 1))


def _advanced(x: Any) -> Any:
    return tl.load(tl.advance(_block(x, (0, 0)), (3, 2)), boundary_check=(0, 1))


def _cut(x: Array, row: int, column: int) -> Array:
    """A block of 4 by 2, with zeros outside."""
    padded = np.zeros((12, 12), x.dtype)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded[row : row + 4, column : column + 2]


def _descriptor(x: Any) -> Any:
    base = _block(x, (0, 0)).base
    return tl.make_tensor_descriptor(base, x.shape, (x.shape[1], 1), (4, 2))


def _stored_by_descriptor(x: Any) -> Any:
    descriptor = _descriptor(x)
    block = tl.load_tensor_descriptor(descriptor, (0, 0))
    tl.store_tensor_descriptor(descriptor, (3, 1), block)
    return descriptor.load((2, 0))


def _restored(x: Array) -> Array:
    held = np.zeros((12, 12), x.dtype)
    held[:5, :3] = x
    held[3:5, 1:3] = x[:2, :2]
    return _cut(held[:5, :3], 2, 0)


def _an_instance(kind: type, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: tl.full((), isinstance(make(x), kind), tl.int1)


def _through_a_number(x: Any) -> Any:
    address = _held(x).to(i64)
    return tl.load(address.to(tl.pointer_type(x.dtype)))


MATRIX_ONLY = (MATRIX,)
MEMORY = (
    Case("load", lambda x: tl.load(_held(x)), lambda x: x),
    Case("load masked", _masked, lambda x: np.where(x == np.flip(x, 0), x, 1).astype(x.dtype),
         layouts=TILES),
    Case("store", _part_stored,
         lambda x: np.where(x == np.flip(x, 0), 0, x).astype(x.dtype), layouts=TILES),
    Case("scratch", lambda x: tl.load(_held(x)), lambda x: x),
    Case("prefetch", _prefetched, lambda x: x),
    Case("pointer_type", _through_a_number, lambda x: x),
    Case("make_block_ptr", _window, lambda x: _cut(x, 2, 0), layouts=MATRIX_ONLY),
    Case("advance", _advanced, lambda x: _cut(x, 3, 2), layouts=MATRIX_ONLY),
    Case("BlockPointer", _an_instance(tl.BlockPointer, lambda x: _block(x, (0, 0))),
         lambda x: True, layouts=MATRIX_ONLY),
    Case("make_tensor_descriptor", lambda x: _descriptor(x).load((2, 1)),
         lambda x: _cut(x, 2, 1), layouts=MATRIX_ONLY),
    Case("load_tensor_descriptor", lambda x: tl.load_tensor_descriptor(_descriptor(x), (4, 2)),
         lambda x: _cut(x, 4, 2), layouts=MATRIX_ONLY),
    Case("store_tensor_descriptor", _stored_by_descriptor, _restored, layouts=MATRIX_ONLY),
    Case("TensorDescriptor", _an_instance(tl.TensorDescriptor, _descriptor), lambda x: True,
         layouts=MATRIX_ONLY),
    Case("tensor_descriptor", _an_instance(tl.tensor_descriptor, _descriptor), lambda x: True,
         layouts=MATRIX_ONLY),
)  # fmt: skip

# --- atomics ---


def _atomic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what was in memory and what is then, half of it masked."""

    def body(x: Any, y: Any) -> tuple[Any, Any]:
        place = _held(x)
        old = function(place, y, mask=x == x)
        return old, tl.load(place)

    return body


def _changed(function: Callable[..., Array]) -> Callable[..., Any]:
    def reference(x: Array, y: Array) -> tuple[Array, Array]:
        return x, np.asarray(function(x, y)).astype(x.dtype)

    return reference


def _exchange(x: Any, y: Any) -> tuple[Any, Any]:
    place = _held(x)
    old = tl.atomic_cas(place, tl.where(y == y.flip(0), x, y), y)
    return old, tl.load(place)


def _exchanged(x: Array, y: Array) -> tuple[Array, Array]:
    expected = np.where(y == np.flip(y, 0), x, y)
    return x, np.where(x == expected, y, x)


def _xchg(x: Array, y: Array) -> Array:
    return y


CHANGES: dict[str, Callable[..., Array]] = {
    "atomic_add": operator.add,
    "atomic_and": operator.and_,
    "atomic_or": operator.or_,
    "atomic_xor": operator.xor,
    "atomic_max": np.fmax,
    "atomic_min": np.fmin,
    "atomic_xchg": _xchg,
}
ATOMICS = (
    *(
        Case(name, _atomic(getattr(tl, name)), _changed(function), TWO, TILES)
        for name, function in CHANGES.items()
    ),
    Case("atomic_cas", _exchange, _exchanged, TWO, TILES),
)

# --- random numbers: Philox 4x32-10 and 4x64-10, by the paper of Salmon and others ---

WORDS = {
    4: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    8: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}
SEED = 0x1234ABCD5678


def philox(counter: list[int], key: list[int], size: int) -> list[int]:
    """Ten rounds, in Python's integers."""
    a, b, step_a, step_b = WORDS[size]
    bits = 8 * size
    full = 2**bits - 1
    x, (k, m) = [c & full for c in counter], key
    for _ in range(10):
        first, second = x[0] * a, x[2] * b
        x = [
            (second >> bits) ^ x[1] ^ k,
            second & full,
            (first >> bits) ^ x[3] ^ m,
            first & full,
        ]
        k, m = (k + step_a) & full, (m + step_b) & full
    return x


def _words(offset: Array) -> Array:
    """The four words of each offset, in a last axis, as `randint4x` gives them."""
    key = [SEED & 0xFFFFFFFF, SEED >> 32]
    rows = []
    for value in offset.ravel().tolist():
        wide = value % 2**64
        high = wide >> 32 if offset.dtype.itemsize == 8 else 0
        rows.append(philox([wide, high, 0, 0], key, 4))
    return np.array(rows, np.uint32).reshape(*offset.shape, 4)


def _uniform(words: Array) -> Array:
    signed = words.view(np.int32) if words.ndim else words.astype(np.int32)
    folded = np.where(signed < 0, -signed.astype(np.int64) - 1, signed)
    return folded.astype(np.float32) * np.float32(4.6566127342e-10)


def _normal(u: Array, v: Array) -> tuple[Array, Array]:
    u, v = (np.float64(x) for x in (u, v))
    radius = np.sqrt(-2 * np.log(np.maximum(1e-7, u)))
    return radius * np.cos(2 * math.pi * v), radius * np.sin(2 * math.pi * v)


def _each(words: Array) -> tuple[Array, ...]:
    return tuple(words[..., i] for i in range(4))


def _normals(offset: Array) -> tuple[Array, ...]:
    a, b, c, d = _each(_uniform(_words(offset)))
    return (*_normal(a, b), *_normal(c, d))


def _counted(offset: Array) -> tuple[Array, ...]:
    """Philox of words as wide as the offset, whose counter is (offset, 1, 2, 3)."""
    size = max(4, offset.dtype.itemsize)
    key = [SEED & 0xFFFFFFFF, SEED >> 32] if size == 4 else [SEED, 0]
    rows = [philox([value, 1, 2, 3], key, size) for value in offset.ravel().tolist()]
    return _each(np.array(rows, f"u{size}").reshape(*offset.shape, 4))


def _keyed(offset: Array) -> tuple[Array, ...]:
    size = max(4, offset.dtype.itemsize)
    rows = [philox([value, 1, 2, 3], [5, 7], size) for value in offset.ravel().tolist()]
    return _each(np.array(rows, f"u{size}").reshape(*offset.shape, 4))


OFFSETS = (Operand(0, 2**20),)
DRAWN = (SCALAR, MATRIX)
ANY = (SCALAR, ONE, PLAIN_ROW, MATRIX, CUBE)
WORD = (i32, i64, u32, u64)
UNIFORM = (Operand(0.01, 1, f32), Operand(0, 1, f32))
RANDOM = (
    Case("philox", lambda x: tl.philox(SEED, x, 1, 2, 3), _counted, OFFSETS, DRAWN, WORD),
    Case("philox_impl", lambda x: tl.philox_impl(x, 1, 2, 3, 5, 7), _keyed, OFFSETS, DRAWN,
         WORD),
    Case("randint4x", lambda x: tl.randint4x(SEED, x), lambda x: _each(_words(x)), OFFSETS, DRAWN,
         WORD),
    Case("randint", lambda x: tl.randint(SEED, x), lambda x: _words(x)[..., 0], OFFSETS, DRAWN,
         WORD),
    Case("rand4x", lambda x: tl.rand4x(SEED, x), lambda x: _each(_uniform(_words(x))), OFFSETS,
         DRAWN, WORD, 0),
    Case("rand", lambda x: tl.rand(SEED, x), lambda x: _uniform(_words(x))[..., 0], OFFSETS, DRAWN,
         WORD, 0),
    Case("randn4x", lambda x: tl.randn4x(SEED, x), _normals, OFFSETS, (MATRIX,), WORD, 16,
         of_largest=True),
    Case("randn", lambda x: tl.randn(SEED, x), lambda x: _normals(x)[0], OFFSETS, DRAWN, WORD,
         16, of_largest=True),
    Case("uint_to_uniform_float", tl.uint_to_uniform_float, lambda x: _uniform(x),
         (Operand(0, 2**31),), DRAWN, (u32,), 0),
    Case("pair_uniform_to_normal", tl.pair_uniform_to_normal, _normal, UNIFORM, DRAWN, (f32,), 8,
         of_largest=True),
)  # fmt: skip

# --- control flow ---


@triton.jit
def _counted_loop(x):
    total = x
    for _ in tl.range(6):
        total = total + x
    return total


@triton.jit
def _unrolled(x):
    total = x
    for _ in tl.static_range(6):
        total = total + x
    return total


def _looped(x: Any) -> Any:
    steps = tl.loop(0, 6, 1, [x])
    with steps as (_, (value,)):
        tl.yield_(value + x)
    return steps.results[0]


def _while(x: Any) -> Any:
    _, value = tl.while_(
        (tl.num_programs(0), x), lambda count, _: count < 7, lambda count, v: (count + 1, v + x)
    )
    return value


def _branch(x: Any) -> Any:
    (first,) = tl.if_(tl.num_programs(0) == 1, lambda: x, lambda: x + x)
    (second,) = tl.if_(tl.program_id(0) == 1, lambda: first, lambda: first + x)
    return second


@tl.constexpr_function
def _twice(n):
    return 2 * n


@triton.jit
def _halvings(x, y):
    """How often x can be halved until it is below one, and the larger of the two."""
    count = 0
    while x >= 1:
        x = (x / 2).to(x.dtype)
        count += 1
    if x > y:
        return count, x
    return count, y


def _halved(x: Array, y: Array) -> tuple[Array, Array]:
    counts, left = np.zeros(x.shape, np.int32), np.copy(x)
    while (left >= 1).any():
        counts += left >= 1
        left = np.where(left >= 1, (left / 2).astype(x.dtype), left)
    return counts, np.maximum(left, y)


def _sevenfold(x: Array) -> Array:
    return (x * 7).astype(x.dtype)


CONTROL = (
    Case("range", _counted_loop, _sevenfold, dtypes=NUMBERS, layouts=ANY, units=6),
    Case("map_elementwise", lambda x, y: tl.map_elementwise(_halvings, x, y), _halved, TWO, DRAWN,
         (i32, i64, f32, f64)),
    Case("static_range", _unrolled, _sevenfold, dtypes=NUMBERS, layouts=ANY, units=6),
    Case("for_", lambda x: tl.for_(0, 6, 1, (x,), lambda i, v: v + x)[0], _sevenfold,
         dtypes=NUMBERS, layouts=ANY, units=6),
    Case("loop", _looped, _sevenfold, dtypes=NUMBERS, layouts=ANY, units=6),
    Case("yield_", _looped, _sevenfold, dtypes=NUMBERS, layouts=ANY, units=6),
    Case("while_", _while, _sevenfold, dtypes=NUMBERS, layouts=ANY, units=6),
    Case("if_", _branch, lambda x: x + x, dtypes=NUMBERS, layouts=ANY),
    Case("constexpr_function", lambda x: x * _twice(3), lambda x: x * x.dtype.type(6),
         dtypes=NUMBERS, layouts=ANY),
    Case("program_id", lambda x: tuple(x + tl.program_id(a).to(x.dtype) for a in range(3)),
         lambda x: (x, x, x), dtypes=NUMBERS, layouts=ANY),
    Case("num_programs", lambda x: tuple(x * tl.num_programs(a).to(x.dtype) for a in range(3)),
         lambda x: (x, x, x), dtypes=NUMBERS, layouts=ANY),
    Case("arange", lambda x: x + tl.arange(3, 3 + x.shape[-1]).to(x.dtype),
         lambda x: (x + np.arange(3, 3 + x.shape[-1])).astype(x.dtype), dtypes=NUMBERS,
         layouts=TILES),
)  # fmt: skip

# --- checks and hints ---


def _same(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the tile itself, after a check that must not change it."""

    def body(x: Any) -> Any:
        check(x)
        return x

    return body


def _hinted(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(tl, name)(x, 4)


HINTS = ("multiple_of", "max_contiguous", "max_constancy")
CHECKS = (
    *(Case(name, _hinted(name), lambda x: x) for name in HINTS),
    Case("assume", _same(lambda x: tl.assume(tl.num_programs(0) >= 1)), lambda x: x),
    Case("debug_barrier", _same(lambda x: tl.debug_barrier()), lambda x: x),
    Case("device_assert", _same(lambda x: tl.device_assert((x == x) | (x != x), "never")),
         lambda x: x),
    Case("device_print", _same(lambda x: tl.device_print("seen", x)), lambda x: x,
         layouts=(SCALAR, ONE)),
    Case("static_assert", _same(lambda x: tl.static_assert(x.dtype.bits > 0)), lambda x: x),
    Case("static_print", _same(lambda x: tl.static_print(x.shape)), lambda x: x,
         layouts=(SCALAR, ONE)),
    Case("inline_asm_elementwise",
         lambda x: tl.inline_asm_elementwise("", "", [x], x.dtype, True, 1), lambda x: x),
)  # fmt: skip
