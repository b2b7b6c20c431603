"""Products of small integers that lie side by side in words of 32 bits."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_triton.ir import Op

from teeny_compiler.codegen.builder import Builder, LType, Operand, constant
from teeny_compiler.codegen.cpu.elementwise import apply
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.integers import of_bytes, of_pairs


def dot_words(e: Emitter, op: Op) -> None:
    """Emit `dot_words`: by an instruction made for it, else part by part."""
    b, target = e.c.b, e.c.target
    left, right = op.attrs["left"], op.attrs["right"]

    def compute(x: Operand, y: Operand, acc: Operand) -> Operand:
        lanes = acc.type.lanes
        if left == "i16":
            name = of_pairs(target, lanes)
            if name is None:
                return _by_parts(b, x, y, acc, left, right)
            pairs = (_parts(b, word, "i16") for word in (x, y))
            return b.binary("add", acc, b.call(name, acc.type, *pairs))
        name = of_bytes(target, lanes, left, right)
        if name is None:
            return _by_parts(b, x, y, acc, left, right)
        if left == "i8" and right == "u8":
            x, y = y, x  # the unsigned factor goes first
        return b.call(name, acc.type, acc, _parts(b, x, "i8"), _parts(b, y, "i8"))

    apply(e, op, compute)


def _parts(b: Builder, words: Operand, scalar: str) -> Operand:
    """Return words as vectors of their parts."""
    kind = LType(scalar, words.type.lanes * (4 if scalar == "i8" else 2))
    return b.pure(kind, f"bitcast {words} to {kind}", words)


def _by_parts(b: Builder, x: Operand, y: Operand, acc: Operand, left: str, right: str) -> Operand:
    """Widen the parts one after another, and multiply and add."""
    bits = int(left[1:])
    for place in range(32 // bits):
        parts = []
        for words, kind in ((x, left), (y, right)):
            high = b.binary("shl", words, constant(words.type, 32 - bits * (place + 1)))
            shift = "ashr" if kind[0] == "i" else "lshr"
            parts.append(b.binary(shift, high, constant(words.type, 32 - bits)))
        acc = b.binary("add", acc, b.binary("mul", *parts))
    return acc


EMITTERS: Mapping[str, EmitOp] = {"dot_words": dot_words}
