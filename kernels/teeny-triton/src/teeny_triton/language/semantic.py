"""The language on bare values: promotion, broadcasting, and the ops they become.

These functions take `Value`s and Python numbers and emit into the ambient builder; `Tile` and the
public functions wrap them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from teeny_core import DType, bool_, f8e4m3, f32, i32, i64, u8, u16, u32, u64

from teeny_triton.builder import Scalar, current
from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Type, Value
from teeny_triton.language import pointers
from teeny_triton.language.promotion import computation_dtype, scalar_dtype
from teeny_triton.rules import NARROW_FLOATS

Raw: TypeAlias = Value | Scalar
Shape: TypeAlias = tuple[int, ...]

_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}
BITWISE = frozenset({"and", "or", "xor", "shl", "shr"})
DIVISIONS = frozenset({"div", "floordiv", "mod"})
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def value(x: Raw, dtype: DType | None = None) -> Value:
    """Return `x` as a value: a Python number becomes a constant of `dtype` or of its own type."""
    if isinstance(x, Value):
        return x
    return current().constant(x, scalar_dtype(x) if dtype is None else dtype)


def element(x: Raw) -> DType:
    """Return the dtype of `x`; a pointer is refused."""
    if not isinstance(x, Value):
        return scalar_dtype(x)
    if isinstance(x.type.element, Pointer):
        raise KernelError(f"{x.type} is an address, not a number", hint="load from it first")
    return x.type.element


# --- shapes ---


def broadcast_to(x: Value, shape: Shape) -> Value:
    """Repeat `x` to `shape`, aligning ranks at the right."""
    builder, rank = current(), len(x.type.shape)
    if x.type.shape == shape:
        return x
    if rank == 0:
        return builder.splat(x, shape)
    if rank > len(shape):
        raise KernelError(f"cannot broadcast {x.type} to {_text(shape)}")
    for _ in range(len(shape) - rank):
        x = builder.op("expand_dims", x, axis=0)
    if any(have not in (1, want) for have, want in zip(x.type.shape, shape, strict=True)):
        raise KernelError(f"cannot broadcast {_text(x.type.shape[-rank:])} to {_text(shape)}")
    return builder.op("broadcast", x, wanted=x.type.with_shape(shape))


def broadcast(*values: Value) -> tuple[Value, ...]:
    """Bring values to their common shape."""
    shape = common_shape([x.type.shape for x in values])
    return tuple(broadcast_to(x, shape) for x in values)


def common_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that all `shapes` broadcast to.

    Raises:
        KernelError: two extents differ and neither is 1.
    """
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for extents in zip(*padded, strict=True):
        distinct = {extent for extent in extents if extent != 1}
        if len(distinct) > 1:
            listed = " and ".join(_text(shape) for shape in dict.fromkeys(shapes))
            raise KernelError(
                f"shapes {listed} do not broadcast",
                hint="align them with x[:, None], tl.expand_dims or tl.broadcast_to",
            )
        result.append(distinct.pop() if distinct else 1)
    return tuple(result)


def reshape(x: Value, shape: Shape) -> Value:
    """Return the elements of `x` in row-major order; one extent may be -1."""
    if shape.count(-1) == 1:
        rest = 1
        for extent in shape:
            rest *= extent if extent != -1 else 1
        inferred = x.type.size // rest if rest else 0
        shape = tuple(inferred if extent == -1 else extent for extent in shape)
    return current().op("reshape", x, wanted=x.type.with_shape(shape))


def permute(x: Value, order: Sequence[int]) -> Value:
    """Permute axes; negative axes count from the end."""
    rank = len(x.type.shape)
    return current().op("trans", x, order=tuple(axis_of(axis, rank) for axis in order))


def expand_dims(x: Value, axis: int) -> Value:
    """Insert an axis of extent 1; a scalar becomes a tile of one element."""
    axis = axis_of(axis, len(x.type.shape) + 1)
    if not x.type.shape:
        return current().splat(x, (1,))
    return current().op("expand_dims", x, axis=axis)


def index(x: Value, key: object) -> Value:
    """`x[:, None]` and the like: every item is `:`, `...` or None."""
    items = key if isinstance(key, tuple) else (key,)
    kept = sum(item == slice(None) for item in items)
    if Ellipsis in items:
        place = items.index(Ellipsis)
        rest = (slice(None),) * (len(x.type.shape) - kept)
        items = (*items[:place], *rest, *items[place + 1 :])
        kept += len(rest)
    if any(item is not None and item != slice(None) for item in items):
        raise KernelError(
            f"a tile is indexed by `:` and None only, not {key!r}",
            hint="elements of memory are reached by tl.load(pointer + offsets)",
        )
    if kept > len(x.type.shape):
        raise KernelError(f"{x.type} has {len(x.type.shape)} axes, not {kept}")
    for axis, item in enumerate(items):
        if item is None:
            x = expand_dims(x, axis)
    return x


def axis_of(axis: int, rank: int) -> int:
    """Return `axis` counted from the front."""
    if not -rank <= axis < rank:
        raise KernelError(f"axis {axis} is outside a tile of {rank} axes")
    return axis % rank


def _text(shape: Shape) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


# --- arithmetic ---


def cast(x: Raw, dtype: DType, *, bitcast: bool = False, rounding: str | None = None) -> Value:
    """Convert values, or reinterpret the bits. `rounding` says how floats become narrower floats:
    "rtne" to nearest, ties to even, which is the default, or "rtz" towards zero."""
    if rounding is not None and element(x) == dtype:
        return cast(x, dtype)
    if rounding is not None and not _is_downcast(element(x), dtype, bitcast):
        raise KernelError(
            f"fp_downcast_rounding does not apply to {element(x)} becoming {dtype}",
            hint="leave it out: it is for floats that become narrower floats",
        )
    if rounding not in (None, "rtne", "rtz"):
        raise KernelError(f"{rounding!r} is no rounding mode", hint='it is "rtne" or "rtz"')
    if rounding == "rtz":
        return _towards_zero(value(x), dtype)
    if not isinstance(x, Value):
        return current().constant(x, dtype) if not bitcast else cast(value(x), dtype, bitcast=True)
    opcode = "bitcast" if bitcast else "cast"
    return current().op(opcode, x, wanted=Type(x.type.shape, dtype))


def _is_downcast(source: DType, dtype: DType, bitcast: bool) -> bool:
    return not bitcast and source.is_float and dtype.is_float and dtype.bits < source.bits


def _towards_zero(x: Value, dtype: DType) -> Value:
    """Round to nearest, and step back where that made the magnitude larger."""
    source = element(x)
    size = unary("abs", x)
    if dtype == f8e4m3:  # what is beyond its largest number would become NaN
        most = binary("minimum", size, float(dtype.max))
        size = where(compare("lt", size, float("inf")), most, size)
    near = cast(size, dtype)
    bits = cast(near, _UNSIGNED[dtype.bits], bitcast=True)
    beyond = compare("gt", cast(near, source), size)
    bits = binary("sub", bits, cast(beyond, element(bits)))
    source_bits = cast(x, _UNSIGNED[source.bits], bitcast=True)
    sign = binary("shr", source_bits, source.bits - dtype.bits)
    sign = cast(binary("and", sign, 1 << (dtype.bits - 1)), element(bits))
    return cast(binary("or", bits, sign), dtype, bitcast=True)


def binary(opcode: str, a: Raw, b: Raw) -> Value:
    """Apply an arithmetic or bitwise op after promotion and broadcasting."""
    if _is_pointer(a) or _is_pointer(b):
        return _pointer_arithmetic(opcode, a, b)
    dtype = _computation(opcode, a, b)
    left, right = broadcast(_convert(a, dtype), _convert(b, dtype))
    return current().op(opcode, left, right)


def compare(opcode: str, a: Raw, b: Raw) -> Value:
    """Compare after promotion and broadcasting."""
    if _is_pointer(a) or _is_pointer(b):
        return pointers.compare(opcode, *broadcast(value(a), value(b)))
    dtype = computation_dtype(_weak(a), _weak(b))
    left, right = broadcast(_convert(a, dtype), _convert(b, dtype))
    return current().op(opcode, left, right)


def where(condition: Raw, a: Raw, b: Raw) -> Value:
    """Choose elementwise; the choices promote and all three broadcast."""
    if _is_pointer(a) or _is_pointer(b):
        yes, no = value(a), value(b)
    else:
        dtype = common_dtype(a, b)
        yes, no = _convert(a, dtype), _convert(b, dtype)
    test = truth(condition)
    yes, no = broadcast(yes, no)
    if not test.type.shape:
        test = broadcast_to(test, yes.type.shape)
    return current().op("where", *broadcast(test, yes, no))


def common_dtype(a: Raw, b: Raw) -> DType:
    """Return the dtype in which two choices meet; equal types stay, f8 and bool included."""
    if element(a) == element(b):
        return element(a)
    return computation_dtype(_weak(a), _weak(b))


def fma(a: Raw, b: Raw, c: Raw) -> Value:
    """`a * b + c` rounded once, after promotion and broadcasting."""
    pair = computation_dtype(_weak(a), _weak(b))
    strong = any(isinstance(x, Value) for x in (a, b))
    dtype = computation_dtype(pair if strong else scalar_dtype(1.0), _weak(c))
    return current().op("fma", *broadcast(*(_convert(x, dtype) for x in (a, b, c))))


def unary(opcode: str, x: Raw) -> Value:
    """Apply an elementwise function; narrow floats and, for real functions, integers go to f32."""
    dtype = element(x)
    real = opcode not in ("neg", "abs", "not")
    if dtype in NARROW_FLOATS or (real and not dtype.is_float):
        dtype = f32
    elif opcode == "neg" and dtype.is_bool:
        dtype = i32
    return current().op(opcode, _convert(x, dtype))


def truth(x: Raw) -> Value:
    """Return a bool tile: whether each element differs from zero; of an address, from null."""
    if isinstance(x, Value) and x.type.is_pointer:
        return pointers.convert(x, bool_)
    return cast(x, bool_)


def _computation(opcode: str, a: Raw, b: Raw) -> DType:
    dtype = computation_dtype(_weak(a), _weak(b), division=opcode in DIVISIONS)
    if opcode in BITWISE:
        if dtype.is_float:
            raise KernelError(f"{SYMBOLS[opcode]} takes integers or bools, not {dtype}")
        shift = opcode in ("shl", "shr")
        return i32 if shift and dtype.is_bool else dtype
    if opcode == "div" and not dtype.is_float:
        return f32
    return i32 if dtype.is_bool else dtype


def _weak(x: Raw) -> DType | Scalar:
    return element(x) if isinstance(x, Value) else x


def _convert(x: Raw, dtype: DType) -> Value:
    return cast(x, dtype)


def _is_pointer(x: Raw) -> bool:
    return isinstance(x, Value) and x.type.is_pointer


def _pointer_arithmetic(opcode: str, a: Raw, b: Raw) -> Value:
    if _is_pointer(b) and opcode == "add":
        a, b = b, a
    if opcode == "sub" and _is_pointer(a) and _is_pointer(b):
        return pointers.difference(*broadcast(value(a), value(b)))
    if opcode not in ("add", "sub") or _is_pointer(b):
        raise KernelError(
            f"cannot compute {_describe(a)} {SYMBOLS.get(opcode, opcode)} {_describe(b)}",
            hint="a pointer takes + or - an integer number of elements; tl.load reads its values",
        )
    offset = offset_of(b)
    if opcode == "sub":
        offset = unary("neg", offset)
    pointer, offset = broadcast(value(a), offset)
    return current().op("addptr", pointer, offset)


def offset_of(x: Raw) -> Value:
    """Return an integer as i32 or i64, the types that offsets have."""
    dtype = element(x)
    if dtype.is_float:
        raise KernelError(f"an offset must be an integer, not {dtype}", hint="cast it to tl.int32")
    if dtype == u64:
        return cast(x, i64, bitcast=True)
    return cast(x, i64 if dtype in (i64, u32) else i32)


def _describe(x: Raw) -> str:
    return str(x.type) if isinstance(x, Value) else repr(x)


# --- reductions and contraction ---


def reduce(kind: str, x: Value, axis: int | None, *, keep_dims: bool = False) -> Value:
    """Reduce an axis, or all of them when `axis` is None."""
    rank = len(x.type.shape)
    if rank == 0:
        return current().constant(0, i32) if kind.startswith("arg") else x
    if axis is None:
        result = current().op("reduce", reshape(x, (x.type.size,)), kind=kind, axis=0)
        return broadcast_to(result, (1,) * rank) if keep_dims else result
    axis = axis_of(axis, rank)
    result = current().op("reduce", x, kind=kind, axis=axis)
    return expand_dims(result, axis) if keep_dims else result


def dot(a: Value, b: Value, acc: Value | None, dtype: DType) -> Value:
    """Multiply matrices, adding up in `dtype`, to `acc` when it is given."""
    (*batch, rows, depth), (*others, inner, columns) = _matrix(a), _matrix(b)
    if batch != others or len(batch) > 1 or depth != inner:
        raise KernelError(
            f"dot takes [M, K] and [K, N], not {a.type} and {b.type}",
            hint="both may have a leading batch axis",
        )
    if acc is None:
        acc = current().full((*batch, rows, columns), 0, dtype)
    return current().op("dot", a, b, acc)


def _matrix(x: Value) -> Shape:
    if len(x.type.shape) < 2:
        raise KernelError(f"dot takes [M, K] and [K, N], not {x.type}")
    return x.type.shape
