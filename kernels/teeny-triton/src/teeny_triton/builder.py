"""The builder: makes typed ops at an insertion point and folds what is constant.

One builder is ambient at a time, and every function of `teeny_triton.language` emits into it: a
kernel is built by running ordinary Python, whether that is a compiler pass or the front end
walking an AST. The builder checks types and never converts; promotion is the language's work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np
from teeny_core import DType

from teeny_triton import semantics
from teeny_triton.errors import KernelError
from teeny_triton.ir import (
    COMPARISONS,
    UNARY_FLOAT,
    Block,
    Location,
    Op,
    Type,
    Value,
)
from teeny_triton.refining import changes_axes, refined
from teeny_triton.rules import Signature, result_types

Scalar: TypeAlias = bool | int | float

_current: ContextVar[Builder | None] = ContextVar("teeny_triton_builder", default=None)


def current() -> Builder:
    """Return the ambient builder.

    Raises:
        KernelError: outside of any kernel that is being built.
    """
    builder = _current.get()
    if builder is None:
        raise KernelError(
            "no kernel is being built",
            hint="use tile values inside a @kernel, or inside `with build_function(...)`",
        )
    return builder


def is_building() -> bool:
    """Whether a builder is ambient."""
    return _current.get() is not None


class Builder:
    """Emits ops at the end of a block. `location` is stamped on every op made.

    `trusting` says whether what a kernel assumes is believed, or checked as it runs.
    `checks` are comparisons `x >= 0` that are wanted only where `x` may be negative,
    `assumptions` conditions that hold, each with the block in which it is said to. `merges` says
    whether a reshape was emitted that joins axes.
    """

    def __init__(self, block: Block, *, trusting: bool = True) -> None:
        self.trusting = trusting
        self.location: Location | None = None
        self.checks: list[Value] = []
        self.assumptions: list[tuple[Value, Block]] = []
        self.merges = False
        self._block = block
        self._constants: dict[Value, Scalar] = {}
        self._splats: dict[Value, Value] = {}
        self._made: dict[Value, tuple[Op, Block]] = {}
        self._outermost = block

    @contextmanager
    def active(self) -> Iterator[Builder]:
        """Make this builder the ambient one."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """Move the insertion point to the end of `block`."""
        outer, self._block = self._block, block
        try:
            yield block
        finally:
            self._block = outer

    def assume(self, condition: Value) -> None:
        """Note that a scalar condition holds here: of `x == 3`, that x is 3 from here on."""
        self.assumptions.append((condition, self._block))
        op = self.definition(condition)
        if op is not None and op.opcode == "and":
            for part in op.operands:
                self.assume(part)
        if op is not None and op.opcode == "eq":
            for x, y in (op.operands, op.operands[::-1]):
                exact = not isinstance(self._constants.get(y, 0.0), float)  # 0.0 equals -0.0
                if exact and self._is_made_here(x):
                    self._constants[x] = self._constants[y]

    def _is_made_here(self, x: Value) -> bool:
        """Whether a value is defined in this block, so that what holds here holds for all of it."""
        if x in self._made:
            return self._made[x][1] is self._block
        return x in self._block.arguments or self._block is self._outermost

    def constant_of(self, value: Value) -> Scalar | None:
        """Return the Python number that every element of `value` is known to be, or None."""
        return self._constants.get(self._splats.get(value, value))

    def scalar_of(self, value: Value) -> Value | None:
        """Return the scalar that is repeated in a tile, or None."""
        return self._splats.get(value)

    def definition(self, value: Value) -> Op | None:
        """Return the op whose result a value is; None of a parameter and of what a loop carries."""
        return self._made[value][0] if value in self._made else None

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value] = (),
        attrs: Mapping[str, Any] | None = None,
        wanted: Sequence[Type] = (),
        regions: Sequence[Block] = (),
    ) -> tuple[Value, ...]:
        """Append an op exactly as given and return its results.

        Raises:
            KernelError: the op breaks its type rule.
        """
        attrs = dict(attrs or {})
        operand_types = tuple(operand.type for operand in operands)
        types = result_types(Signature(opcode, operand_types, attrs, tuple(wanted)))
        return self._append(opcode, tuple(operands), attrs, types, tuple(regions))

    def _append(
        self,
        opcode: str,
        operands: tuple[Value, ...],
        attrs: Mapping[str, Any],
        types: tuple[Type, ...],
        regions: tuple[Block, ...] = (),
    ) -> tuple[Value, ...]:
        results = tuple(Value(kind) for kind in types)
        op = Op(opcode, operands, results, attrs, regions, self.location)
        self._block.ops.append(op)
        self._made.update(dict.fromkeys(results, (op, self._block)))
        return results

    def op(self, opcode: str, *operands: Value, wanted: Type | None = None, **attrs: Any) -> Value:
        """Append an op of one result, or return a value that is known to equal it."""
        types = () if wanted is None else (wanted,)
        signature = Signature(opcode, tuple(x.type for x in operands), attrs, types)
        (kind,) = result_types(signature)
        fold = _FOLDERS.get(opcode)
        folded = fold(self, opcode, operands, attrs, kind) if fold else None
        if folded is not None:
            return folded
        (result,) = self._append(opcode, operands, attrs, (kind,))
        return result

    def constant(self, value: Scalar, dtype: DType) -> Value:
        """Return a scalar constant, rounded to `dtype`.

        Raises:
            KernelError: an integer that `dtype` does not hold.
        """
        exact = _normalise(value, dtype)
        (result,) = self.emit("const", (), {"value": exact}, (Type((), dtype),))
        self._constants[result] = exact
        return result

    def full(self, shape: tuple[int, ...], value: Scalar, dtype: DType) -> Value:
        """Return a tile (or scalar) of equal constants."""
        return self.splat(self.constant(value, dtype), shape)

    def splat(self, scalar: Value, shape: tuple[int, ...]) -> Value:
        """Return a tile of `shape` filled with `scalar`; `scalar` itself for the empty shape."""
        if not shape:
            return scalar
        (result,) = self.emit("splat", (scalar,), {}, (scalar.type.with_shape(shape),))
        self._splats[result] = scalar
        return result


# --- folding: everything here is exact, bit for bit, NaN and signed zeros included ---

Operands: TypeAlias = tuple[Value, ...]
Attrs: TypeAlias = Mapping[str, Any]
Folder: TypeAlias = Callable[[Builder, str, Operands, Attrs, Type], Value | None]


def _normalise(value: Scalar, dtype: DType) -> Scalar:
    if dtype.is_bool:
        return bool(value)
    if dtype.is_float:
        return _round(value, dtype)
    if isinstance(value, float) and not value.is_integer():
        raise KernelError(f"{value} is no {dtype}", hint="cast it, or write an integer")
    whole = int(value)
    if not dtype.min <= whole <= dtype.max:
        raise KernelError(f"{whole} does not fit {dtype}, which holds {dtype.min} to {dtype.max}")
    return whole


def _round(value: Scalar, dtype: DType) -> float:
    try:
        wide = float(value)
    except OverflowError as error:
        raise KernelError(f"the integer is too large for {dtype}") from error
    with np.errstate(all="ignore"):
        return float(semantics.cast(np.asarray(wide), dtype))


def _array(value: Scalar, dtype: DType) -> semantics.Array:
    return np.asarray(value).astype(dtype.numpy)


def _dtype(value: Value) -> DType | None:
    return value.type.element if isinstance(value.type.element, DType) else None


def _fold_elementwise(
    b: Builder, opcode: str, operands: Operands, attrs: Attrs, kind: Type
) -> Value | None:
    """Compute on constants, drop identities, and lift work on splats to their scalars."""
    known = [b.constant_of(operand) for operand in operands]
    if opcode not in _INEXACT and isinstance(kind.element, DType):
        arrays = [
            _array(value, dtype)
            for value, dtype in zip(known, map(_dtype, operands), strict=True)
            if value is not None and dtype is not None
        ]
        if len(arrays) == len(operands):
            result = semantics.elementwise(opcode, *arrays)
            return b.full(kind.shape, result.item(), kind.element)
    simpler = _identity(b, opcode, operands, known)
    if simpler is not None:
        return simpler
    if kind.shape and all(operand in b._splats for operand in operands):
        scalars = [b._splats[operand] for operand in operands]
        return b.splat(b.op(opcode, *scalars), kind.shape)
    return None


_INEXACT = frozenset(UNARY_FLOAT) - {"floor", "ceil", "round", "trunc", "sqrt"} | {"pow"}

# opcode -> (neutral integer, neutral float) on the right: x op neutral = x.
_NEUTRAL: Mapping[str, tuple[int | None, float | None]] = {
    "add": (0, -0.0),
    "sub": (0, 0.0),
    "mul": (1, 1.0),
    "div": (None, 1.0),
    "floordiv": (1, None),
    "or": (0, None),
    "xor": (0, None),
    "and": (-1, None),
    "shl": (0, None),
    "shr": (0, None),
}
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor"})
# integer and bool opcodes with x op absorber = absorber
_ABSORBING: Mapping[str, int] = {"mul": 0, "and": 0, "or": -1}


def _identity(
    b: Builder, opcode: str, operands: Operands, known: Sequence[Scalar | None]
) -> Value | None:
    if opcode == "where":
        _, yes, no = operands
        if known[0] is not None:
            return yes if known[0] else no
        return yes if yes is no else None
    dtype = _dtype(operands[0])
    if len(operands) != 2 or opcode in COMPARISONS or dtype is None:
        return None
    (x, y), (left, right) = operands, known
    if _is_neutral(opcode, right, dtype):
        return x
    if opcode in _COMMUTATIVE and _is_neutral(opcode, left, dtype):
        return y
    if not dtype.is_float and opcode in _ABSORBING:
        absorber = _from_bits(_ABSORBING[opcode], dtype)
        if right == absorber:
            return y
        if left == absorber:
            return x
    if opcode == "mod" and right == 1 and dtype.is_int:
        return b.full(x.type.shape, 0, dtype)
    return None


def _is_neutral(opcode: str, value: Scalar | None, dtype: DType) -> bool:
    if value is None or opcode not in _NEUTRAL:
        return False
    whole, real = _NEUTRAL[opcode]
    if dtype.is_float:
        return real is not None and value == real and _sign(value) == _sign(real)
    return whole is not None and value == _from_bits(whole, dtype)


def _from_bits(value: int, dtype: DType) -> int:
    """The number of `dtype` whose bits are those of `value`: -1 stands for all ones."""
    return value if value >= 0 or dtype.kind == "int" else int(dtype.max)


def _sign(value: Scalar) -> float:
    return math.copysign(1.0, value)


def _fold_cast(
    b: Builder, opcode: str, operands: Operands, attrs: Attrs, kind: Type
) -> Value | None:
    (x,) = operands
    if x.type == kind:
        return x
    target, source, known = kind.element, _dtype(x), b.constant_of(x)
    if known is not None and source is not None and isinstance(target, DType):
        convert = semantics.cast if opcode == "cast" else semantics.bitcast
        return b.full(kind.shape, convert(_array(known, source), target).item(), target)
    if x in b._splats:
        return b.splat(b.op(opcode, b._splats[x], wanted=kind.with_shape(())), kind.shape)
    return None


def _fold_movement(
    b: Builder, opcode: str, operands: Operands, attrs: Attrs, kind: Type
) -> Value | None:
    """A movement of a splat is a splat; one that moves nothing is its operand; a reshape of
    indices is computed in the new shape."""
    (x,) = operands
    if x in b._splats:
        return b.splat(b._splats[x], kind.shape)
    if opcode == "reshape" and changes_axes(x, kind.shape):
        found = refined(b, x, kind.shape)
        b.merges |= found is None
        return found
    order = tuple(attrs.get("order", ()))
    return x if kind == x.type and order == tuple(sorted(order)) else None


def _fold_addptr(
    b: Builder, opcode: str, operands: Operands, attrs: Attrs, kind: Type
) -> Value | None:
    pointer, offset = operands
    if b.constant_of(offset) == 0:
        return pointer
    if pointer in b._splats and offset in b._splats:
        return b.splat(b.op("addptr", b._splats[pointer], b._splats[offset]), kind.shape)
    return None


_FOLDERS: Mapping[str, Folder] = {
    **dict.fromkeys(semantics.ELEMENTWISE, _fold_elementwise),
    **dict.fromkeys(("expand_dims", "broadcast", "reshape", "trans"), _fold_movement),
    "cast": _fold_cast,
    "bitcast": _fold_cast,
    "addptr": _fold_addptr,
}
