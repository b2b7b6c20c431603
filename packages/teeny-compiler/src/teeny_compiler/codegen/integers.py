"""Instructions that multiply small integers, which lie side by side in words of 32 bits."""

from __future__ import annotations

from teeny_core import f32
from teeny_triton import Target

from teeny_compiler.codegen.llvm import is_x86

_PAIRS = {4: ("sse2", "sse2.pmadd.wd"), 8: ("avx2", "avx2.pmadd.wd")}
_PAIRS[16] = ("avx512bw", "avx512.pmaddw.d.512")
"""By the lanes: the feature and the instruction that multiplies pairs and adds each."""

_NEON = {("i8", "i8"): ("dotprod", "sdot"), ("u8", "u8"): ("dotprod", "udot")}
_NEON |= {("u8", "i8"): ("i8mm", "usdot"), ("i8", "u8"): ("i8mm", "usdot")}
"""By the kinds of bytes: the feature and the instruction that adds products of four."""


def multiplies_bytes(target: Target, left: str, right: str) -> bool:
    """Whether whole vectors of words of bytes are multiplied by one instruction."""
    return of_bytes(target, target.lanes(f32), left, right) is not None


def multiplies_pairs(target: Target) -> bool:
    """Whether whole vectors of pairs of i16 are multiplied by one instruction."""
    return of_pairs(target, target.lanes(f32)) is not None


def of_pairs(target: Target, lanes: int) -> str | None:
    """Return the name of the intrinsic for pairs of i16, in so many words."""
    if not is_x86(target.triple) or lanes not in _PAIRS:
        return None
    feature, name = _PAIRS[lanes]
    return f"llvm.x86.{name}" if target.has(feature) else None


def of_bytes(target: Target, lanes: int, left: str, right: str) -> str | None:
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
