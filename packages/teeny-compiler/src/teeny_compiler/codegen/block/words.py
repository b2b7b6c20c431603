"""Which small integers are packed into words of 32 bits, to be multiplied several at a time."""

from __future__ import annotations

from dataclasses import dataclass

import teeny_triton.language as tl
from teeny_core import DType, i8, i16, i32, u8
from teeny_triton import Target
from teeny_triton.builder import current
from teeny_triton.ir import Value

from teeny_compiler.codegen.block.evaluate import Buffer
from teeny_compiler.codegen.integers import multiplies_bytes, multiplies_pairs


@dataclass(frozen=True)
class Words:
    """What the integers of A and of B are in words.

    `bias` is what is added to the integers of A, so that they are unsigned: results are then too
    large by it times the sums of the columns of B.
    """

    left: DType
    right: DType
    bias: int = 0

    @property
    def count(self) -> int:
        """Integers in a word."""
        return 32 // self.left.bits

    def of_left(self, x: tl.Tile) -> tl.Tile:
        """Return integers of A as they lie in words."""
        return x.to(u8, bitcast=True) ^ self.bias if self.bias else x.to(self.left)

    def joined(self, parts: list[tl.Tile]) -> tl.Tile:
        """Return words of integers of B, the first in the lowest bits."""
        bits = self.right.bits
        words = [part.to(i32) & ((1 << bits) - 1) for part in parts]
        result = words[0]
        for place, word in enumerate(words[1:], 1):
            result = result | (word << bits * place)
        return result

    def multiply_add(self, a: tl.Tile, b: tl.Tile, total: tl.Tile) -> tl.Tile:
        """Add the products of the integers in words."""
        words = (a.value, b.value, total.value)
        left, right = self.left.name, self.right.name
        return tl.Tile(current().op("dot_words", *words, left=left, right=right))


def words_of(target: Target, a: DType | object, b: DType | object) -> Words | None:
    """Choose how a target multiplies integers packed into words, None if not faster that way."""
    if a not in (i8, u8) or b not in (i8, u8) or not target.vector_bits:
        return None
    assert isinstance(a, DType)
    assert isinstance(b, DType)
    if multiplies_bytes(target, a.name, b.name):
        return Words(a, b)
    if (a, b) == (i8, i8) and multiplies_bytes(target, "u8", "i8"):
        return Words(u8, i8, 128)
    return Words(i16, i16) if multiplies_pairs(target) else None


def as_words(buffer: Buffer) -> Value:
    """Return the address of the first word of a buffer."""
    return tl.Tile(buffer.pointer).to(tl.pointer_type(i32), bitcast=True).value
