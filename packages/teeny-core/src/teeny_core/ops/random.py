"""Random bits by a counter-based generator: the same on every device.

Philox4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, https://doi.org/10.1145/2063384.2063405.
"""

from __future__ import annotations

import numpy as np

from teeny_core.dtype import u32
from teeny_core.errors import DTypeError, OpError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.shape import Shape

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_MASK = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_ROUNDS = 10
_BLOCK = 1 << 15  # numbers at a time, of which the words stay in the first caches


def random_bits(state: Node, *, shape: Shape, site: int) -> Node:
    """Make uniform u32 of `shape` from a state u32[4] = (seed low, seed high, step, 0).

    Element i, in row-major order, is word 0 of philox4x32-10 with
    key = (state[0], state[1]) and counter = (i mod 2^32, i div 2^32, site, state[2]).
    """
    return apply("random_bits", state, shape=shape, site=site)


def philox(counter: tuple[Array, Array, Array, Array], key: tuple[int, int]) -> tuple[Array, ...]:
    """Return the four words of philox4x32-10 as u32, elementwise over the counter's words."""
    words = np.broadcast_arrays(*(np.asarray(word, np.uint64) for word in counter))
    c0, c1, c2, c3 = (word.copy() for word in words)
    k0, k1 = key
    for _ in range(_ROUNDS):
        c0 *= _MULTIPLIERS[0]
        c2 *= _MULTIPLIERS[1]
        c1 ^= c2 >> _WORD
        c1 ^= np.uint64(k0)
        c3 ^= c0 >> _WORD
        c3 ^= np.uint64(k1)
        c0 &= _MASK
        c2 &= _MASK
        c0, c1, c2, c3 = c1, c2, c3, c0
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return tuple(word.astype(np.uint32) for word in (c0, c1, c2, c3))


def _infer(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (state,), site = inputs, attrs["site"]
    if state.dtype != u32:
        fail(DTypeError, "random_bits", inputs, f"the state is {state.dtype}", "it is u32[4]")
    if state.shape != (4,):
        fail(ShapeError, "random_bits", inputs, "the state has four words", "it is u32[4]")
    if not 0 <= site < 1 << 32:
        fail(OpError, "random_bits", inputs, f"site = {site}", "it is a word of 32 bits")
    return TensorType(attrs["shape"], u32)


def _reference(attrs: Attrs, state: Array) -> Array:
    shape: tuple[int, ...] = attrs["shape"]
    k0, k1, step, _ = (int(word) for word in state)
    bits = np.empty(int(np.prod(shape, dtype=np.int64)), np.uint32)
    for start in range(0, bits.size, _BLOCK):
        place = np.arange(start, min(start + _BLOCK, bits.size), dtype=np.uint64)
        counter = place & _MASK, place >> _WORD, np.asarray(attrs["site"]), np.asarray(step)
        bits[start : start + _BLOCK] = philox(counter, (k0, k1))[0]
    return bits.reshape(shape)


register(
    OpDef(
        "random_bits",
        _infer,
        _reference,
        None,
        frozenset({"random"}),
        1,
        ("shape", "site"),
    )
)
