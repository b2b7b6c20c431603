"""Products of small integers that lie side by side in words of 32 bits."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core import f32
from teeny_triton import Target
from teeny_triton.ir import Op

from teeny_compiler.codegen.builder import Builder, LType, Operand, constant
from teeny_compiler.codegen.cpu.elementwise import apply
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.llvm import is_x86

_PAIRS = {4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd")}
_PAIRS[16] = ("avx512bw", "avx512.pmaddw.d.512")
"""By the lanes: the feature and the instruction that multiplies pairs and adds each."""

_NEON = {("i8", "i8"): ("dotprod", "sdot"), ("u8", "u8"): ("dotprod", "udot")}
_NEON |= {("u8", "i8"): ("i8mm", "usdot"), ("i8", "u8"): ("i8mm", "usdot")}
"""By the kinds of bytes: the feature and the instruction that adds products of four."""


def multiplies_bytes(target: Target, left: str, right: str) -> bool:
    """Whether whole vectors of words of bytes are multiplied by one instruction."""
    return _of_bytes(target, target.lanes(f32), left, right) is not None


def multiplies_pairs(target: Target) -> bool:
    """Whether whole vectors of pairs of i16 are multiplied by one instruction."""
    return _of_pairs(target, target.lanes(f32)) is not None


def dot_words(e: Emitter, op: Op) -> None:
    """Emit `dot_words`: by an instruction made for it, else part by part."""
    b, target = e.c.b, e.c.target
    left, right = op.attrs["left"], op.attrs["right"]

    def compute(x: Operand, y: Operand, acc: Operand) -> Operand:
        lanes = acc.type.lanes
        if left == "i16":
            name = _of_pairs(target, lanes)
            if name is None:
                return _by_parts(b, x, y, acc, left, right)
            pairs = (_parts(b, word, "i16") for word in (x, y))
            return b.binary("add", acc, b.call(name, acc.type, *pairs))
        name = _of_bytes(target, lanes, left, right)
        if name is None:
            return _by_parts(b, x, y, acc, left, right)
        if left == "i8" and right == "u8":
            x, y = y, x  # the unsigned factor goes first
        return b.call(name, acc.type, acc, _parts(b, x, "i8"), _parts(b, y, "i8"))

    apply(e, op, compute)


def _of_pairs(target: Target, lanes: int) -> str | None:
    """Return the name of the intrinsic for pairs of i16, in so many words."""
    if not is_x86(target.triple) or lanes not in _PAIRS:
        return None
    feature, name = _PAIRS[lanes]
    return f"llvm.x86.{name}" if target.has(feature) else None


def _of_bytes(target: Target, lanes: int, left: str, right: str) -> str | None:
    """Return the name of the intrinsic for bytes of given signs, in so many words."""
    if is_x86(target.triple):
        wide = target.has("avx512vnni") and (lanes == 16 or target.has("avx512vl"))
        known = wide or (target.has("avxvnni") and lanes < 16)
        mixed = left != right and lanes in (4, 8, 16)
        return f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" if known and mixed else None
    feature, name = _NEON[left, right]
    if target.triple.startswith(("aarch64", "arm64")) and lanes == 4 and target.has(feature):
        return f"llvm.aarch64.neon.{name}.v4i32.v16i8"
    return None


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
