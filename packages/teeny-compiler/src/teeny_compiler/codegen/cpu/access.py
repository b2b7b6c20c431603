"""Vector and scalar accesses to memory under masks: lanes that are masked off touch nothing."""

from __future__ import annotations

from collections.abc import Sequence

from teeny_compiler.codegen.builder import (
    BITS,
    I32,
    I64,
    PTR,
    TRUE,
    VOID,
    LType,
    Operand,
    constant,
)
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.lanes import LaneMask
from teeny_compiler.codegen.cpu.layout import ceil_power
from teeny_compiler.codegen.llvm import is_x86

SMALLEST_REGISTER = 128  # bits
STREAMED = "!0"
"""What LLVM wants to be told of a store past the caches."""


def can_mask(c: Context, scalar: str) -> bool:
    """Whether the machine loads and stores under a mask in one instruction."""
    bits = 64 if scalar == "ptr" else BITS[scalar]
    if not is_x86(c.target.triple) or c.lanes == 1:
        return False
    if bits < 32:
        return c.target.has("avx512bw") and c.target.has("avx512vl")
    return c.target.has("avx") or c.target.has("avx512f")


def read(
    c: Context, pointer: Operand, type: LType, align: int, *, volatile: bool = False
) -> Operand:
    """Load a scalar or a whole vector."""
    opcode = "load volatile" if volatile else "load"
    return c.b.ordered(type, f"{opcode} {type}, {pointer}, align {align}")


def write(c: Context, pointer: Operand, value: Operand, align: int) -> None:
    """Store a scalar or a whole vector."""
    c.b.effect(f"store {value}, {pointer}, align {align}")


def can_stream(c: Context, type: LType) -> bool:
    """Whether the machine stores a vector past its caches: x86 does, from 16 bytes on.

    AArch64 has such stores for pairs of registers, which few machines heed.
    """
    if not is_x86(c.target.triple) or c.lanes == 1 or type.scalar == "ptr":
        return False
    return type.lanes * BITS[type.scalar] >= SMALLEST_REGISTER


def stream(c: Context, pointer: Operand, values: Sequence[Operand]) -> None:
    """Store whole vectors one after another past the caches, where `pointer` is aligned to them.

    Others see such stores in order only after a fence: see `fence`.
    """
    scalar, lanes = values[0].type
    size = lanes * BITS[scalar] // 8
    low = c.b.binary("and", c.b.convert("ptrtoint", pointer, "i64"), constant(I64, size - 1))
    aligned, other, after = c.b.new_block(), c.b.new_block(), c.b.new_block()
    places = [c.b.offset(pointer, scalar, lanes * k) for k in range(len(values))]
    c.b.branch(c.b.compare("icmp eq", low, constant(I64, 0)), aligned, other)
    c.b.place(aligned)
    for place, value in zip(places, values, strict=True):
        c.b.effect(f"store {value}, {place}, align {size}, !nontemporal {STREAMED}")
    c.b.jump(after)
    c.b.place(other)
    for place, value in zip(places, values, strict=True):
        write(c, place, value, BITS[scalar] // 8)
    c.b.jump(after)
    c.b.place(after)
    c.streams = True


def fence(c: Context) -> None:
    """Put the stores of `stream` before all that follows."""
    if c.streams:
        c.b.constants.append(f"{STREAMED} = !{{i32 1}}")
        c.b.call("llvm.x86.sse.sfence", VOID)


def read_if(
    c: Context,
    condition: Operand,
    pointer: Operand,
    scalar: str,
    other: Operand,
    align: int,
    *,
    volatile: bool = False,
) -> Operand:
    """Load a scalar where `condition` holds, else give `other`; without a branch."""
    if condition.text == "false":
        return other
    if condition == TRUE:
        return read(c, pointer, LType(scalar), align, volatile=volatile)
    safe = c.b.select(condition, pointer, _zero(c))
    value = read(c, safe, LType(scalar), align, volatile=volatile)
    return c.b.select(condition, value, other)


def _zero(c: Context) -> Operand:
    """Return the address of eight zero bytes that may always be read."""
    slot = Operand(PTR, "%zero")
    entry = c.b.blocks[0].lines
    if not entry or not entry[0].startswith("  %zero ="):
        entry[0:0] = ["  %zero = alloca i64, align 8", "  store i64 0, ptr %zero, align 8"]
    return slot


def write_if(c: Context, condition: Operand, pointer: Operand, value: Operand, align: int) -> None:
    """Store where a scalar condition holds, by a branch."""
    if condition.text == "false":
        return
    if condition == TRUE:
        write(c, pointer, value, align)
        return
    then, after = c.b.new_block(), c.b.new_block()
    c.b.branch(condition, then, after)
    c.b.place(then)
    write(c, pointer, value, align)
    c.b.jump(after)
    c.b.place(after)


def read_run(
    c: Context,
    pointer: Operand,
    scalar: str,
    count: int,
    mask: LaneMask,
    other: Operand,
    align: int,
) -> Operand:
    """Load `count` consecutive elements into the first lanes of a vector of `mask.width`.

    Lanes that are masked off give `other`; those past `count` are undefined.
    """
    type = LType(scalar, mask.width)
    if mask.is_full and count == mask.width:
        return read(c, pointer, type, align)
    if mask.is_full and not can_mask(c, scalar):
        return _read_parts(c, pointer, scalar, count, mask.width, align)
    if mask.vector is None and mask.bits is None and not can_mask(c, scalar):
        return _read_branch(c, pointer, scalar, count, mask, other, align)
    active = limited(mask, count).to_vector(c)
    if type.lanes == 1:
        return read_if(c, active, pointer, scalar, other, align)
    text = (
        f"call {type} @llvm.masked.load.{type.suffix}.p0("
        f"ptr align {align} {pointer.text}, {active}, {other})"
    )
    c.b.declarations[f"llvm.masked.load.{type.suffix}"] = (
        f"declare {type} @llvm.masked.load.{type.suffix}.p0(ptr, {active.type}, {type})"
    )
    return c.b.ordered(type, text)


def write_run(
    c: Context, pointer: Operand, value: Operand, count: int, mask: LaneMask, align: int
) -> None:
    """Store the first `count` lanes of a vector at consecutive addresses, where the mask holds."""
    scalar, width = value.type
    first = mask.known_count
    if first is not None:
        count, mask = min(count, first), LaneMask(width, None, mask.scalar, mask.vector)
    if mask.is_full and count == width:
        write(c, pointer, value, align)
        return
    if mask.is_full and not (can_mask(c, scalar) and c.target.has("avx512f")):
        _write_parts(c, pointer, value, count, align)  # a masked store of AVX is slow on some cores
        return
    if mask.vector is None and mask.bits is None and not can_mask(c, scalar):
        assert mask.scalar is not None
        then, after = c.b.new_block(), c.b.new_block()
        c.b.branch(mask.scalar, then, after)
        with c.b.scope(is_loop=False):
            c.b.place(then)
            write_run(c, pointer, value, count, LaneMask(width), align)
            c.b.jump(after)
        c.b.place(after)
        return
    active = limited(mask, count).to_vector(c)
    if width == 1:
        write_if(c, active, pointer, value, align)
        return
    suffix = value.type.suffix
    c.b.declarations[f"llvm.masked.store.{suffix}"] = (
        f"declare void @llvm.masked.store.{suffix}.p0({value.type}, ptr, {active.type})"
    )
    c.b.effect(
        f"call void @llvm.masked.store.{suffix}.p0("
        f"{value}, ptr align {align} {pointer.text}, {active})"
    )


def limited(mask: LaneMask, count: int) -> LaneMask:
    """Switch off the lanes past `count`."""
    if count == mask.width:
        return mask
    bits = mask.bits or (True,) * mask.width
    limited = tuple(bit and lane < count for lane, bit in enumerate(bits))
    return LaneMask(mask.width, limited, mask.scalar, mask.vector)


def _read_parts(
    c: Context, pointer: Operand, scalar: str, count: int, width: int, align: int
) -> Operand:
    """Load a number of elements that is no power of two by parts that are."""
    result = Operand(LType(scalar, width), "poison")
    for start, size in _powers(count):
        address = c.b.offset(pointer, scalar, start)
        part = read(c, address, LType(scalar, size), align)
        result = joined(c, result, part, start)
    return result


def _write_parts(c: Context, pointer: Operand, value: Operand, count: int, align: int) -> None:
    scalar = value.type.scalar
    for start, size in _powers(count):
        part = c.b.shuffle(value, None, range(start, start + size))
        write(c, c.b.offset(pointer, scalar, start), part, align)


def _powers(count: int) -> list[tuple[int, int]]:
    """Cut [0, count) into (start, size) with sizes that are falling powers of two."""
    cut = []
    start = 0
    while start < count:
        size = ceil_power(count - start + 1) // 2
        cut.append((start, size))
        start += size
    return cut


def joined(c: Context, vector: Operand, part: Operand, start: int) -> Operand:
    """Put `part` into the lanes of `vector` from `start` on."""
    width, size = vector.type.lanes, part.type.lanes
    if size == 1:
        return c.b.insert(vector, part, start)
    inside = range(start, start + size)
    spread = [lane - start if lane in inside else -1 for lane in range(width)]
    wide = c.b.shuffle(part, None, spread)
    if vector.text == "poison":
        return wide
    picks = [width + lane if lane in inside else lane for lane in range(width)]
    return c.b.shuffle(vector, wide, picks)


def _read_branch(
    c: Context,
    pointer: Operand,
    scalar: str,
    count: int,
    mask: LaneMask,
    other: Operand,
    align: int,
) -> Operand:
    """Load a whole vector under a scalar condition by a branch."""
    assert mask.scalar is not None
    then, after, before = c.b.new_block(), c.b.new_block(), c.b.block
    c.b.branch(mask.scalar, then, after)
    with c.b.scope(is_loop=False):
        c.b.place(then)
        loaded = read_run(c, pointer, scalar, count, LaneMask(mask.width), other, align)
        end = c.b.block
        c.b.jump(after)
    c.b.place(after)
    phi = c.b.phi(loaded.type)
    phi.incoming = [(other, before.label), (loaded, end.label)]
    return phi.result


def gather(
    c: Context, pointers: Operand, scalar: str, mask: LaneMask, other: Operand, align: int
) -> Operand:
    """Load from an address for each lane."""
    type = LType(scalar, mask.width)
    active = mask.to_vector(c)
    if type.lanes == 1:
        return read_if(c, active, pointers, scalar, other, align)
    suffix = f"{type.suffix}.v{mask.width}p0"
    c.b.declarations[f"llvm.masked.gather.{suffix}"] = (
        f"declare {type} @llvm.masked.gather.{suffix}({pointers.type}, {active.type}, {type})"
    )
    text = (
        f"call {type} @llvm.masked.gather.{suffix}("
        f"{pointers.type} align {align} {pointers.text}, {active}, {other})"
    )
    return c.b.ordered(type, text)


def scatter(c: Context, pointers: Operand, value: Operand, mask: LaneMask, align: int) -> None:
    """Store to an address for each lane, in the order of lanes."""
    active = mask.to_vector(c)
    if mask.width == 1:
        write_if(c, active, pointers, value, align)
        return
    suffix = f"{value.type.suffix}.v{mask.width}p0"
    c.b.declarations[f"llvm.masked.scatter.{suffix}"] = (
        f"declare void @llvm.masked.scatter.{suffix}({value.type}, {pointers.type}, {active.type})"
    )
    c.b.effect(
        f"call void @llvm.masked.scatter.{suffix}("
        f"{value}, {pointers.type} align {align} {pointers.text}, {active})"
    )


def any_lane(c: Context, mask: LaneMask) -> Operand:
    """Return whether some lane is active."""
    if mask.vector is None:
        return TRUE if mask.scalar is None else mask.scalar
    vector = mask.to_vector(c)
    if mask.width == 1:
        return vector
    return c.b.call(f"llvm.vector.reduce.or.{vector.type.suffix}", LType("i1"), vector)


def prefetch(c: Context, pointer: Operand, write: bool, locality: int) -> None:
    """Hint that an address will be used."""
    options = (constant(I32, int(write)), constant(I32, locality), constant(I32, 1))
    c.b.call("llvm.prefetch.p0", VOID, pointer, *options)
