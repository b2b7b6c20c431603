"""Type rules: for each opcode, the result types that follow from its operands and attributes.

The builder asks for the result types of an op that it makes, the verifier for those of an op that
it meets: one table serves both. A result that the operands do not determine (`const`, `splat`,
`reshape`, `cast`…) is given as `wanted`, and the rule says whether it is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from teeny_core import DType, bool_, f8e4m3, f8e5m2, f32, f64, i8, i32, i64, u8

from teeny_triton.errors import KernelError
from teeny_triton.ir import (
    ATOMICS,
    BINARY,
    COMPARISONS,
    ORDERS,
    REDUCTIONS,
    UNARY,
    UNARY_FLOAT,
    Pointer,
    Type,
)

NARROW_FLOATS = frozenset({f8e4m3, f8e5m2})
"""Storage formats: moved, converted and multiplied by `dot`, but without arithmetic."""

ADDRESS_BITS = 64
"""Bits of an address as a number, on any machine."""

PREFETCH_LEVELS = (1, 2, 3)


@dataclass(frozen=True)
class Signature:
    """What a rule sees of an op. `wanted` is empty when the caller leaves the results open."""

    opcode: str
    operands: tuple[Type, ...]
    attrs: Mapping[str, Any]
    wanted: tuple[Type, ...] = ()

    def require(self, condition: bool, message: str) -> None:
        """Raise KernelError about this op unless `condition` holds."""
        if not condition:
            operands = ", ".join(map(str, self.operands))
            raise KernelError(f"{self.opcode}({operands}): {message}")

    def count(self, low: int, high: int | None = None) -> None:
        """Require between `low` and `high` operands."""
        high = low if high is None else high
        wanted = str(low) if low == high else f"{low} to {high}"
        found = len(self.operands)
        self.require(low <= found <= high, f"takes {wanted} operands, not {found}")

    def attr(self, name: str, kind: type) -> Any:
        """Return an attribute that must be there and of type `kind`."""
        self.require(name in self.attrs, f"attribute `{name}` is missing")
        value = self.attrs[name]
        valid = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        self.require(valid, f"attribute `{name}` must be {kind.__name__}, not {value!r}")
        return value

    def axis(self, rank: int) -> int:
        """Return the attribute `axis`, which must be in [0, rank)."""
        axis: int = self.attr("axis", int)
        self.require(0 <= axis < rank, f"axis {axis} is outside [0, {rank})")
        return axis

    def result(self) -> Type:
        """Return the one wanted result type."""
        self.require(len(self.wanted) == 1, "needs one result type")
        return self.wanted[0]


Rule = Callable[[Signature], tuple[Type, ...]]


def result_types(signature: Signature) -> tuple[Type, ...]:
    """Return the result types of an op.

    Raises:
        KernelError: the opcode is unknown, or an operand, attribute or wanted type is not allowed.
    """
    rule = RULES.get(signature.opcode)
    if rule is None:
        raise KernelError(f"unknown opcode {signature.opcode!r}")
    types = rule(signature)
    if signature.wanted and types != signature.wanted:
        found = ", ".join(map(str, signature.wanted))
        signature.require(False, f"gives {', '.join(map(str, types)) or 'nothing'}, not {found}")
    return types


def accumulator(a: DType, b: DType) -> DType | None:
    """Return the element type in which `dot` sums products of `a` and `b`, None if it cannot."""
    if a == f64 and b == f64:
        return f64
    if a.kind == "float" and (a == b or {a, b} <= NARROW_FLOATS):
        return f32
    if a in (i8, u8) and b in (i8, u8):
        return i32
    return None


def is_kind(element: DType | Pointer, *kinds: str) -> bool:
    """Whether `element` is a dtype of one of `kinds` on which arithmetic is defined."""
    return isinstance(element, DType) and element.kind in kinds and element not in NARROW_FLOATS


def _const(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    wanted = s.result()
    s.require(wanted.shape == () and isinstance(wanted.element, DType), f"cannot be {wanted}")
    assert isinstance(wanted.element, DType)
    kind = {"bool": bool, "float": float}.get(wanted.element.kind, int)
    s.attr("value", kind)
    return (wanted,)


def _grid(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    s.axis(3)
    return (Type((), i32),)


def _arange(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    start, end = s.attr("start", int), s.attr("end", int)
    s.require(start < end, f"is empty: start {start}, end {end}")
    s.require(start >= -(2**31) and end <= 2**31, "does not fit i32")
    return (Type((end - start,), i32),)


def _splat(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted = s.result()
    s.require(s.operands[0] == wanted.with_shape(()), f"cannot fill {wanted}")
    return (wanted,)


def _expand_dims(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    shape = s.operands[0].shape
    axis = s.axis(len(shape) + 1)
    return (s.operands[0].with_shape((*shape[:axis], 1, *shape[axis:])),)


def _broadcast(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted, shape = s.result(), s.operands[0].shape
    fits = len(shape) == len(wanted.shape) and all(
        extent in (1, target) for extent, target in zip(shape, wanted.shape, strict=True)
    )
    s.require(fits, f"cannot become {wanted}")
    return (s.operands[0].with_shape(wanted.shape),)


def _trans(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    order, shape = s.attr("order", tuple), s.operands[0].shape
    s.require(sorted(order) == list(range(len(shape))), f"{order} is no permutation of its axes")
    return (s.operands[0].with_shape(tuple(shape[axis] for axis in order)),)


def _reshape(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted = s.result()
    s.require(wanted.size == s.operands[0].size, f"cannot become {wanted}")
    return (s.operands[0].with_shape(wanted.shape),)


def _join(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    a, b = s.operands
    s.require(a == b, "the two differ in type")
    return (a.with_shape((*a.shape, 2)),)


def _split(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    x = s.operands[0]
    s.require(x.shape[-1:] == (2,), "the last axis must have extent 2")
    half = x.with_shape(x.shape[:-1])
    return (half, half)


def _cat(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    a, b = s.operands
    axis = s.axis(len(a.shape))
    s.require(len(a.shape) == len(b.shape) and a.element == b.element, "the two do not match")
    joined = (*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1 :])
    rest = (*b.shape[:axis], a.shape[axis], *b.shape[axis + 1 :])
    s.require(rest == a.shape, f"extents differ off axis {axis}")
    return (a.with_shape(joined),)


def _unary(*kinds: str) -> Rule:
    def rule(s: Signature) -> tuple[Type, ...]:
        s.count(1)
        s.require(is_kind(s.operands[0].element, *kinds), f"takes {' or '.join(kinds)} elements")
        return s.operands

    return rule


def _binary(*kinds: str, bits: tuple[int, ...] = ()) -> Rule:
    def rule(s: Signature) -> tuple[Type, ...]:
        s.count(2)
        a, b = s.operands
        s.require(a == b, "the two differ in type")
        s.require(is_kind(a.element, *kinds), f"takes {' or '.join(kinds)} elements")
        assert isinstance(a.element, DType)
        s.require(not bits or a.element.bits in bits, f"takes elements of {bits} bits")
        return (a,)

    return rule


def _compare(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    a, b = s.operands
    s.require(a == b, "the two differ in type")
    pointers = a.is_pointer and s.opcode in ("eq", "ne")
    s.require(pointers or is_kind(a.element, *NUMBERS, "bool"), "elements have no such order")
    return (Type(a.shape, bool_),)


def _fma(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    a, b, c = s.operands
    s.require(a == b == c, "the three differ in type")
    s.require(is_kind(a.element, "float"), "takes float elements")
    return (a,)


def _where(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    condition, a, b = s.operands
    s.require(condition == Type(a.shape, bool_), f"the condition must be {Type(a.shape, bool_)}")
    s.require(a == b, "the two choices differ in type")
    return (a,)


def _cast(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted, x = s.result(), s.operands[0]
    s.require(not wanted.is_pointer and not x.is_pointer, "does not convert pointers")
    return (wanted.with_shape(x.shape),)


def _bitcast(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    wanted, x = s.result(), s.operands[0]
    s.require(_bits(wanted) == _bits(x), f"cannot become {wanted}: the sizes differ")
    if wanted.is_pointer or x.is_pointer:
        numbers = not any(is_kind(kind.element, "float") for kind in (wanted, x))
        s.require(numbers, f"cannot become {wanted}: an address is no float")
    return (wanted.with_shape(x.shape),)


def _bits(kind: Type) -> int:
    return kind.element.bits if isinstance(kind.element, DType) else ADDRESS_BITS


def _pointee(s: Signature) -> Type:
    """The type of what the first operand points at."""
    s.require(s.operands[0].is_pointer, "takes a pointer first")
    element = s.operands[0].element
    assert isinstance(element, Pointer)
    return Type(s.operands[0].shape, element.pointee)


def _mask(s: Signature, index: int) -> None:
    if len(s.operands) > index:
        wanted = Type(s.operands[0].shape, bool_)
        s.require(s.operands[index] == wanted, f"the mask must be {wanted}")


def _addptr(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    pointer, offset = s.operands
    _pointee(s)
    s.require(offset.element in (i32, i64), "the offset must be i32 or i64")
    s.require(offset.shape == pointer.shape, "pointer and offset differ in shape")
    return (pointer,)


def _load(s: Signature) -> tuple[Type, ...]:
    s.count(1, 3)
    pointee = _pointee(s)
    _mask(s, 1)
    if len(s.operands) == 3:
        s.require(s.operands[2] == pointee, f"`other` must be {pointee}")
    return (pointee,)


def _store(s: Signature) -> tuple[Type, ...]:
    s.count(2, 3)
    pointee = _pointee(s)
    s.require(s.operands[1] == pointee, f"the value must be {pointee}")
    _mask(s, 2)
    return ()


def _atomic_rmw(s: Signature) -> tuple[Type, ...]:
    _store(s)
    kind = s.attr("kind", str)
    s.require(kind in ATOMICS, f"kind {kind!r} is none of {', '.join(ATOMICS)}")
    _order(s)
    kinds = INTEGERS if kind in ("and", "or", "xor") else NUMBERS
    fits = kind == "xchg" or is_kind(s.operands[1].element, *kinds)
    s.require(fits, f"{kind} takes {' or '.join(kinds)} elements")
    return (s.operands[1],)


def _atomic_cas(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    pointee = _pointee(s)
    s.require(s.operands[1] == pointee, f"the expected value must be {pointee}")
    s.require(s.operands[2] == pointee, f"the value must be {pointee}")
    _order(s)
    return (pointee,)


def _order(s: Signature) -> None:
    order = s.attr("sem", str)
    s.require(order in ORDERS, f"sem {order!r} is none of {', '.join(ORDERS)}")


def _prefetch(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    _pointee(s)
    level = s.attr("level", int)
    s.require(level in PREFETCH_LEVELS, f"level {level} is none of {PREFETCH_LEVELS}")
    s.attr("write", bool)
    return ()


def _scratch(s: Signature) -> tuple[Type, ...]:
    s.count(0)
    wanted, size = s.result(), s.attr("size", int)
    s.require(size > 0, f"needs a positive size, not {size}")
    s.require(wanted.is_pointer and wanted.shape == (), f"cannot be {wanted}")
    return (wanted,)


def _reduce(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    x = s.operands[0]
    kind, axis = s.attr("kind", str), s.axis(len(x.shape))
    s.require(kind in REDUCTIONS, f"kind {kind!r} is none of {', '.join(REDUCTIONS)}")
    kinds = ("bool", "int", "uint") if kind == "xor_sum" else NUMBERS
    s.require(is_kind(x.element, *kinds), f"{kind} takes {' or '.join(kinds)} elements")
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return (Type(shape, i32 if kind.startswith("arg") else x.element),)


def _several(s: Signature) -> int:
    """Check tiles that a region combines along an axis, which is returned."""
    s.require(bool(s.operands), "takes at least one tile")
    shape = s.operands[0].shape
    s.require(all(x.shape == shape for x in s.operands), "the tiles differ in shape")
    s.require(not any(x.is_pointer for x in s.operands), "does not combine pointers")
    return s.axis(len(shape))


def _reduce_by(s: Signature) -> tuple[Type, ...]:
    axis = _several(s)
    shape = s.operands[0].shape
    return tuple(x.with_shape((*shape[:axis], *shape[axis + 1 :])) for x in s.operands)


def _scan(s: Signature) -> tuple[Type, ...]:
    _several(s)
    s.attr("reverse", bool)
    return s.operands


def _sort(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    x = s.operands[0]
    axis, keep = s.axis(len(x.shape)), s.attr("keep", int)
    s.attr("descending", bool)
    s.require(is_kind(x.element, "bool", *NUMBERS), "takes elements that have an order")
    s.require(1 <= keep <= x.shape[axis], f"cannot keep {keep} of {x.shape[axis]} elements")
    return (x.with_shape((*x.shape[:axis], keep, *x.shape[axis + 1 :])),)


def _gather(s: Signature) -> tuple[Type, ...]:
    s.count(2)
    x, index = s.operands
    axis = s.axis(len(x.shape))
    s.require(not x.is_pointer, "does not move pointers")
    s.require(index.element in (i32, i64), "the index must be i32 or i64")
    alike = len(index.shape) == len(x.shape) and all(
        a == b for i, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if i != axis
    )
    s.require(alike, f"extents differ off axis {axis}")
    return (x.with_shape(index.shape),)


def _flip(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    s.axis(len(s.operands[0].shape))
    return s.operands


def _histogram(s: Signature) -> tuple[Type, ...]:
    s.count(1, 2)
    x, wanted = s.operands[0], s.result()
    s.require(len(x.shape) == 1 and is_kind(x.element, *INTEGERS), "takes one axis of integers")
    _mask(s, 1)
    s.require(len(wanted.shape) == 1, f"cannot become {wanted}")
    return (Type(wanted.shape, i32),)


def _dot(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    a, b, acc = s.operands
    s.require(len(a.shape) == len(b.shape) in (2, 3), "takes two matrices, or batches of them")
    s.require(a.shape[:-2] == b.shape[:-2], "the batches differ")
    s.require(a.shape[-1] == b.shape[-2], f"inner extents {a.shape[-1]} and {b.shape[-2]} differ")
    pair = isinstance(a.element, DType) and isinstance(b.element, DType)
    element = accumulator(a.element, b.element) if pair else None  # type: ignore[arg-type]
    s.require(element is not None, "cannot multiply these elements")
    assert element is not None
    wanted = Type((*a.shape[:-1], b.shape[-1]), element)
    s.require(acc == wanted, f"the accumulator must be {wanted}")
    return (wanted,)


def _dot_words(s: Signature) -> tuple[Type, ...]:
    s.count(3)
    a, b, acc = s.operands
    s.require(a == b == acc and acc.element == i32, "takes three of i32 and of one shape")
    pair = (s.attr("left", str), s.attr("right", str))
    bytes_ = all(part in ("i8", "u8") for part in pair)
    s.require(bytes_ or pair == ("i16", "i16"), f"cannot multiply words of {' and '.join(pair)}")
    return (acc,)


def _assert(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    s.require(s.operands[0].element == bool_, "takes a bool")
    s.attr("message", str)
    if "place" in s.attrs:
        s.attr("place", str)
    return ()


def _print(s: Signature) -> tuple[Type, ...]:
    s.attr("prefix", str)
    if "hex" in s.attrs:
        s.attr("hex", bool)
    return ()


def _breakpoint(s: Signature) -> tuple[Type, ...]:
    s.attr("function", str)
    s.count(len(s.attr("names", str).split()))
    return ()


def _for(s: Signature) -> tuple[Type, ...]:
    s.require(len(s.operands) >= 3, "takes lower, upper and step first")
    lower, upper, step = s.operands[:3]
    scalar = lower.shape == () and lower.element in (i32, i64)
    s.require(scalar and lower == upper == step, "bounds must be three i32 or three i64 scalars")
    return s.operands[3:]


def _while(s: Signature) -> tuple[Type, ...]:
    return s.operands


def _if(s: Signature) -> tuple[Type, ...]:
    s.count(1)
    s.require(s.operands[0] == Type((), bool_), "the condition must be one bool")
    return s.wanted


def _yield(s: Signature) -> tuple[Type, ...]:
    return ()


INTEGERS = ("int", "uint")
NUMBERS = (*INTEGERS, "float")

_BINARY_KINDS: Mapping[str, tuple[str, ...]] = {
    "div": ("float",),
    "and": ("bool", *INTEGERS),
    "or": ("bool", *INTEGERS),
    "xor": ("bool", *INTEGERS),
    "shl": INTEGERS,
    "shr": INTEGERS,
    "umulhi": INTEGERS,
    "maxnum": ("float",),
    "minnum": ("float",),
}

RULES: Mapping[str, Rule] = {
    "const": _const,
    "program_id": _grid,
    "num_programs": _grid,
    "arange": _arange,
    "splat": _splat,
    "expand_dims": _expand_dims,
    "broadcast": _broadcast,
    "trans": _trans,
    "reshape": _reshape,
    "join": _join,
    "split": _split,
    "cat": _cat,
    **{name: _unary("float") for name in UNARY_FLOAT},
    **{name: _unary(*NUMBERS) for name in UNARY if name not in UNARY_FLOAT},
    "not": _unary("bool", *INTEGERS),
    **{name: _binary(*_BINARY_KINDS.get(name, NUMBERS)) for name in BINARY},
    "umulhi": _binary(*INTEGERS, bits=(32, 64)),
    **dict.fromkeys(COMPARISONS, _compare),
    "fma": _fma,
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
    "addptr": _addptr,
    "load": _load,
    "store": _store,
    "atomic_rmw": _atomic_rmw,
    "atomic_cas": _atomic_cas,
    "prefetch": _prefetch,
    "scratch": _scratch,
    "reduce": _reduce,
    "reduce_by": _reduce_by,
    "scan": _scan,
    "sort": _sort,
    "gather": _gather,
    "flip": _flip,
    "histogram": _histogram,
    "dot": _dot,
    "dot_words": _dot_words,
    "for": _for,
    "while": _while,
    "if": _if,
    "yield": _yield,
    "device_assert": _assert,
    "device_print": _print,
    "breakpoint": _breakpoint,
}

_HINTS = frozenset({"cache", "eviction", "volatile"})

ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "const": frozenset({"value"}),
    "program_id": frozenset({"axis"}),
    "num_programs": frozenset({"axis"}),
    "arange": frozenset({"start", "end"}),
    "expand_dims": frozenset({"axis"}),
    "trans": frozenset({"order"}),
    "cat": frozenset({"axis"}),
    "load": _HINTS,
    "store": _HINTS,
    "atomic_rmw": frozenset({"kind", "sem"}),
    "atomic_cas": frozenset({"sem"}),
    "prefetch": frozenset({"level", "write"}),
    "scratch": frozenset({"size"}),
    "reduce": frozenset({"kind", "axis"}),
    "reduce_by": frozenset({"axis"}),
    "scan": frozenset({"axis", "reverse"}),
    "sort": frozenset({"axis", "descending", "keep"}),
    "gather": frozenset({"axis"}),
    "flip": frozenset({"axis"}),
    "dot_words": frozenset({"left", "right"}),
    "device_assert": frozenset({"message", "place"}),
    "device_print": frozenset({"prefix", "hex"}),
    "breakpoint": frozenset({"names", "function"}),
}
"""The attributes that each opcode may have; those not listed have none."""

COMBINING = frozenset(
    {*UNARY, *BINARY, *COMPARISONS, "fma", "where", "cast", "bitcast", "const", "yield"}
)
"""The opcodes that may stand in the region of `reduce_by` and `scan`."""
