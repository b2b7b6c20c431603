"""Counter-based random numbers: Philox 4x32-10, bit for bit as in Triton.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math as python_math

from teeny_core import f32, i32, u32, u64

from teeny_triton.language import semantic
from teeny_triton.language.math import cos, log, maximum, sin, sqrt, umulhi, where
from teeny_triton.language.tile import Operand, Tile, raw, tile

ROUND_A, ROUND_B = 0xD2511F53, 0xCD9E8D57
KEY_A, KEY_B = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10

_SCALE = 4.6566127342e-10  # the largest f32 with (2**31 - 1) * scale < 1


def philox(
    key0: Operand,
    key1: Operand,
    c0: Operand,
    c1: Operand,
    c2: Operand,
    c3: Operand,
    rounds: int = ROUNDS,
) -> tuple[Tile, Tile, Tile, Tile]:
    """Return four u32 tiles of random bits for a key and a counter, read as u32."""
    k0, k1, x0, x1, x2, x3 = (_bits(x) for x in (key0, key1, c0, c1, c2, c3))
    for _ in range(rounds):
        high0, low0 = umulhi(x0, ROUND_A), x0 * ROUND_A
        high2, low2 = umulhi(x2, ROUND_B), x2 * ROUND_B
        x0, x1, x2, x3 = high2 ^ x1 ^ k0, low2, high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + KEY_A, k1 + KEY_B
    return x0, x1, x2, x3


def randint4x(
    seed: Operand, offset: Operand, n_rounds: int = ROUNDS
) -> tuple[Tile, Tile, Tile, Tile]:
    """Return four blocks of u32 random bits; the key is `seed`, the counter is `offset`."""
    key, place = tile(seed).to(u64), tile(offset)
    high: Operand = 0
    if semantic.element(place.value).bits > 32:
        high = place >> 32
    shape = place.shape
    words = philox(key, key >> 32, place, high, 0, 0, n_rounds)
    first, second, third, fourth = (word.broadcast_to(shape) for word in words)
    return first, second, third, fourth


def randint(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Tile:
    """Return u32 random bits of the shape of `offset`."""
    return randint4x(seed, offset, n_rounds)[0]


def rand(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Tile:
    """Return f32 uniform in [0, 1) of the shape of `offset`."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def rand4x(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> tuple[Tile, Tile, Tile, Tile]:
    """Return four blocks of f32 uniform in [0, 1)."""
    a, b, c, d = (uint_to_uniform_float(x) for x in randint4x(seed, offset, n_rounds))
    return a, b, c, d


def randn(seed: Operand, offset: Operand, n_rounds: int = ROUNDS) -> Tile:
    """Return f32 of the standard normal distribution, of the shape of `offset`."""
    first, second, _, _ = rand4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(first, second)[0]


def uint_to_uniform_float(x: Tile) -> Tile:
    """Turn 32 random bits into f32 uniform in [0, 1)."""
    signed = x.to(i32, bitcast=True)
    return where(signed < 0, -signed - 1, signed).to(f32) * _SCALE


def pair_uniform_to_normal(u1: Tile, u2: Tile) -> tuple[Tile, Tile]:
    """Box and Muller: two independent uniform tiles give two independent normal ones."""
    radius = sqrt(log(maximum(1.0e-7, u1)) * -2.0)
    angle = u2 * (2.0 * python_math.pi)
    return radius * cos(angle), radius * sin(angle)


def _bits(x: Operand) -> Tile:
    """The low 32 bits as u32."""
    source = raw(x)
    if isinstance(source, int):
        return tile(semantic.value(source & 0xFFFFFFFF, u32))
    return tile(source).to(u32)
