"""Counter-based random numbers: Philox with 10 rounds, bit for bit as in Triton.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The same
seed and offset give the same numbers on any machine.
"""

from __future__ import annotations

import math as python_math
from typing import TypeAlias

from teeny_core import DType, f32, i32, i64, u32, u64

from teeny_triton.errors import KernelError
from teeny_triton.language import semantic
from teeny_triton.language.math import cos, log, maximum, sin, sqrt, umulhi, where
from teeny_triton.language.tile import Operand, Tile, raw, tile

ROUNDS = 10

Four: TypeAlias = tuple[Tile, Tile, Tile, Tile]

# For words of 32 and of 64 bits: what the two products multiply by, and what the keys step by.
MULTIPLIERS = {
    u32: (0xD2511F53, 0xCD9E8D57),
    u64: (0xD2E7470EE14C6C93, 0xCA5A826395121157),
}
STEPS = {u32: (0x9E3779B9, 0xBB67AE85), u64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}

# The largest f32 by which the greatest signed integer stays below 1.
SCALES = {i32: 4.6566127342e-10, i64: 1.0842020432385337e-19}


def philox_impl(
    c0: Operand,
    c1: Operand,
    c2: Operand,
    c3: Operand,
    k0: Operand,
    k1: Operand,
    n_rounds: int = ROUNDS,
) -> Four:
    """Return four tiles of random bits for a counter and a key.

    Words are u32, or u64 when `c0` has 64 bits (Philox 4x64); the others are read as such.
    """
    word = _word(c0)
    x0, x1, x2, x3, k0, k1 = (_bits(x, word) for x in (c0, c1, c2, c3, k0, k1))
    (a, b), (step_a, step_b) = MULTIPLIERS[word], STEPS[word]
    for _ in range(n_rounds):
        high0, low0 = umulhi(x0, a), x0 * a
        high2, low2 = umulhi(x2, b), x2 * b
        x0, x1, x2, x3 = high2 ^ x1 ^ k0, low2, high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + step_a, k1 + step_b
    return x0, x1, x2, x3


def philox(
    seed: Operand, c0: Operand, c1: Operand, c2: Operand, c3: Operand, n_rounds: int = ROUNDS
) -> Four:
    """Return four tiles of random bits for a counter; the key is the 64 bits of `seed`."""
    key = tile(seed).to(u64)
    if _word(c0) == u64:
        return philox_impl(c0, c1, c2, c3, key, 0, n_rounds)
    return philox_impl(c0, c1, c2, c3, key, key >> 32, n_rounds)


def randint4x(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Four:
    """Return four tiles of u32 random bits, of the shape of `offset` (32 or 64 bits)."""
    place = tile(offset)
    high: Operand = place >> 32 if semantic.element(place.value).bits > 32 else 0
    words = philox(seed, place.to(u32), high, 0, 0, n_rounds)
    first, second, third, fourth = (word.broadcast_to(place.shape) for word in words)
    return first, second, third, fourth


def randint(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Tile:
    """Return u32 random bits of the shape of `offset`, the first of `randint4x`."""
    return randint4x(seed, offset, n_rounds)[0]


def rand(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Tile:
    """Return f32 uniform in [0, 1) of the shape of `offset`, from the bits of `randint`."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Four:
    """Return four tiles of f32 uniform in [0, 1), of the shape of `offset`."""
    a, b, c, d = (uint_to_uniform_float(x) for x in randint4x(seed, offset, n_rounds))
    return a, b, c, d


def randn(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Tile:
    """Return f32 of the standard normal distribution, of the shape of `offset`."""
    first, second, _, _ = rand4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(first, second)[0]


def randn4x(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Four:
    """Return four tiles of f32 of the standard normal distribution, of the shape of `offset`."""
    a, b, c, d = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(a, b), *pair_uniform_to_normal(c, d))


def uint_to_uniform_float(x: Tile) -> Tile:
    """Turn 32 or 64 random bits into f32 uniform in [0, 1), by the formula of Triton.

    Raises:
        KernelError: the elements are not integers of 32 or 64 bits.
    """
    dtype = semantic.element(x.value)
    if not dtype.is_int or dtype.bits < 32:
        raise KernelError(f"uniform numbers are made of 32 or 64 bits, not of {dtype}")
    wanted = i32 if dtype.bits == 32 else i64
    signed = x.to(wanted, bitcast=True)
    return where(signed < 0, -signed - 1, signed).to(f32) * SCALES[wanted]


def pair_uniform_to_normal(u1: Tile, u2: Tile) -> tuple[Tile, Tile]:
    """Turn two independent uniform tiles (f32) into two independent normal ones.

    Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
    """
    radius = sqrt(log(maximum(1.0e-7, u1)) * -2.0)
    angle = u2 * (2.0 * python_math.pi)
    return radius * cos(angle), radius * sin(angle)


def _word(counter: Operand) -> DType:
    dtype = semantic.element(raw(counter))
    if not dtype.is_int:
        raise KernelError(f"a counter is made of integers, not {dtype}")
    return u64 if dtype.bits == 64 else u32


def _bits(x: Operand, word: DType) -> Tile:
    """The low bits as u32 or u64."""
    source = raw(x)
    if isinstance(source, int):
        return tile(semantic.value(source & (2**word.bits - 1), word))
    return tile(source).to(word)
