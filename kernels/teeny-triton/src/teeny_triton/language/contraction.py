"""Matrix products, of numbers and of blocks of small numbers that share a scale."""

from __future__ import annotations

from teeny_core import DType, bf16, f8e4m3, f8e5m2, f16, f32, u8, u16, u32

from teeny_triton.errors import KernelError
from teeny_triton.language import semantic
from teeny_triton.language.math import where
from teeny_triton.language.shape import join
from teeny_triton.language.tile import DTypeLike, Tile, as_dtype
from teeny_triton.rules import accumulator

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
FORMATS = {"e4m3": f8e4m3, "e5m2": f8e5m2, "bf16": bf16, "fp16": f16}
GROUPS = (16, 32)  # how many elements may share a scale


def dot(
    input: Tile,
    other: Tile,
    acc: Tile | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: DTypeLike | None = None,
) -> Tile:
    """Return `input @ other`, plus `acc` when given.

    Matrices are [M, K] and [K, N], or batches of them: [B, M, K] and [B, K, N]. f16, bf16, f8 (any
    two) and f32 sum in f32, f64 in f64, i8 and u8 in i32. The result is of `out_dtype`, else of
    the type of `acc`, else of the sum; a narrower type than that of the sum is rounded to once, at
    the end. What GPUs take to multiply less precisely is accepted and has no effect.

    Raises:
        KernelError: types or shapes that do not fit, or an unknown precision.
    """
    _check_precision(input_precision, allow_tf32)
    held = _accumulator(input, other)
    wanted = held if acc is None else semantic.element(acc.value)
    wanted = wanted if out_dtype is None else as_dtype(out_dtype)
    _check_result(wanted, held, acc)
    start = None if acc is None else acc.to(held).value
    return Tile(semantic.dot(input.value, other.value, start, held)).to(wanted)


def _check_precision(input_precision: str | None, allow_tf32: bool | None) -> None:
    if input_precision is not None and allow_tf32 is not None:
        raise KernelError(
            "dot takes input_precision or allow_tf32, not both",
            hint='input_precision="tf32" is what allow_tf32=True means',
        )
    if input_precision is not None and input_precision not in PRECISIONS:
        raise KernelError(
            f"{input_precision!r} is no precision of dot", hint=f"it is one of {PRECISIONS}"
        )


def _accumulator(a: Tile, b: Tile) -> DType:
    left, right = semantic.element(a.value), semantic.element(b.value)
    held = accumulator(left, right)
    if held is None:
        raise KernelError(
            f"dot cannot multiply {left} by {right}",
            hint="both must have one type: f16, bf16, f32, f64, i8, u8, f8e4m3 or f8e5m2",
        )
    return held


def _check_result(wanted: DType, held: DType, acc: Tile | None) -> None:
    allowed = (held, f16, bf16) if held == f32 else (held,)
    if wanted not in allowed:
        raise KernelError(
            f"a sum in {held} cannot be given as {wanted}", hint="cast the result with .to(...)"
        )
    if acc is not None and semantic.element(acc.value) != wanted:
        raise KernelError(
            f"the accumulator is {semantic.element(acc.value)}, but the result {wanted}",
            hint="out_dtype must be the type of acc",
        )


def dot_scaled(
    lhs: Tile,
    lhs_scale: Tile | None,
    lhs_format: str,
    rhs: Tile,
    rhs_scale: Tile | None,
    rhs_format: str,
    acc: Tile | None = None,
    fast_math: bool = False,
    lhs_k_pack: bool = True,
    rhs_k_pack: bool = True,
    out_dtype: DTypeLike = f32,
) -> Tile:
    """Multiply blocks of small numbers that share scales, in f32 (OCP Microscaling Formats 1.0).

    Args:
        lhs: [M, K], of `lhs_format`: "e2m1" as u8 of two numbers, the first in the low bits;
            "e4m3" and "e5m2" as f8 or its bits, "bf16" and "fp16" as such or their bits.
        lhs_scale: [M, K / 32] of u8, powers of two (e8m0: 0 is 2**-127, 255 is NaN), or of f8e4m3,
            or [M, K / 16]; None for 1.
        rhs: [K, N] in `rhs_format`.
        rhs_scale: [N, K / 32] or [N, K / 16], as `lhs_scale`.
        acc: [M, N] of `out_dtype` to add to.
        fast_math: accepted; products are always of the full precision.
        lhs_k_pack: whether "e2m1" pairs neighbours along K, else along M.
        rhs_k_pack: whether "e2m1" pairs neighbours along K, else along N.
        out_dtype: f32, f16 or bf16.

    Raises:
        KernelError: an unknown format, or types or shapes that do not fit.
    """
    left = _numbers(lhs, lhs_format, 1 if lhs_k_pack else 0)
    right = _numbers(rhs, rhs_format, 0 if rhs_k_pack else 1)
    left = _scaled(left, lhs_scale)
    right = _scaled(right.trans(), rhs_scale).trans()
    return dot(left, right, acc, out_dtype=out_dtype)


def _numbers(x: Tile, form: str, axis: int) -> Tile:
    """Return a matrix as f32; packed numbers double the extent of `axis`."""
    if form != "e2m1" and form not in FORMATS:
        raise KernelError(
            f"{form!r} is no format of dot_scaled", hint=f"it is e2m1 or one of {(*FORMATS,)}"
        )
    if len(x.shape) != 2:
        raise KernelError(f"dot_scaled takes matrices, not {x.type}")
    found = semantic.element(x.value)
    if form == "e2m1":
        if found != u8:
            raise KernelError(f"e2m1 is packed in u8, not in {found}")
        return _unpacked(x, axis)
    wanted = FORMATS[form]
    bits = u8 if wanted.bits == 8 else u16
    if found not in (wanted, bits):
        raise KernelError(f"{form} is held as {wanted} or {bits}, not as {found}")
    return x.to(wanted, bitcast=True).to(f32)


def _unpacked(x: Tile, axis: int) -> Tile:
    """Take bytes apart into numbers of a sign, two bits of exponent and one of fraction."""
    pair = join(_e2m1(x & 15), _e2m1(x >> 4))
    rows, columns = x.shape
    if axis == 1:
        return pair.reshape(rows, columns * 2)
    return pair.permute(0, 2, 1).reshape(rows * 2, columns)


def _e2m1(x: Tile) -> Tile:
    """Place the fields as f32 has them; a power of two corrects the exponent's bias."""
    word = x.to(u32)
    fields = ((word & 7) << 22) | ((word & 8) << 28)
    return fields.to(f32, bitcast=True) * 2.0**126


def _scaled(x: Tile, scale: Tile | None) -> Tile:
    """Multiply the rows of a matrix by what neighbours in them share."""
    if scale is None:
        return x
    rows, depth = x.shape
    group = depth // scale.shape[-1] if scale.shape[-1:] != (0,) else 0
    if scale.shape != (rows, depth // max(group, 1)) or group not in GROUPS:
        raise KernelError(
            f"scales of {scale.type} do not fit {rows} rows of {depth} numbers",
            hint="one scale stands for 32 or 16 neighbours along K",
        )
    factors = _factors(scale).expand_dims(2).broadcast_to(rows, scale.shape[1], group)
    return x * factors.reshape(rows, depth)


def _factors(scale: Tile) -> Tile:
    """Return scales as f32."""
    found = semantic.element(scale.value)
    if found == f8e4m3:
        return scale.to(f32)
    if found != u8:
        raise KernelError(f"scales are u8 or f8e4m3, not {found}")
    word = scale.to(u32)
    bits = where(word == 0, 1 << 22, word << 23)  # 2**-127 is subnormal in f32
    return where(word == 255, float("nan"), bits.to(f32, bitcast=True))
