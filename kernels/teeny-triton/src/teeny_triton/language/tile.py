"""`Tile`: a value of a kernel with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import teeny_core
from teeny_core import DType

from teeny_triton.builder import Scalar
from teeny_triton.errors import KernelError
from teeny_triton.ir import Pointer, Type, Value
from teeny_triton.language import pointers, semantic
from teeny_triton.language.methods import Functions, Methods
from teeny_triton.language.semantic import Raw, Shape


class Tile(Methods, Functions):
    """A block of values, an address, or a scalar, known when the kernel runs.

    Operators promote as Triton does and broadcast with ranks aligned at the right. `//` and `%`
    floor, as in Python (Triton truncates). Comparisons, `==` too, give tiles of bool.
    """

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    @property
    def type(self) -> Type:
        """The tile type: shape and element."""
        return self.value.type

    @property
    def shape(self) -> Shape:
        """The static shape; empty for a scalar."""
        return self.value.type.shape

    @property
    def dtype(self) -> DType | Pointer:
        """The type of the elements."""
        return self.value.type.element

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self.value.type.size

    @property
    def T(self) -> Tile:  # noqa: N802 - the name that Triton and NumPy give it
        """The matrix transposed."""
        return self.trans()

    def to(
        self, dtype: DTypeLike, fp_downcast_rounding: str | None = None, bitcast: bool = False
    ) -> Tile:
        """Convert the elements, or reinterpret their bits.

        An address becomes an integer, and back, by its bits, and may come to point at another type.
        Float to integer truncates and saturates, with NaN to 0. All else rounds to nearest even;
        float to narrower float by `fp_downcast_rounding`: "rtne", or "rtz" towards zero.
        """
        if isinstance(dtype, Pointer) or self.type.is_pointer:
            return Tile(pointers.convert(self.value, as_element(dtype)))
        wanted, rounding = as_dtype(dtype), fp_downcast_rounding
        return Tile(semantic.cast(self.value, wanted, bitcast=bitcast, rounding=rounding))

    cast = to

    def reshape(self, *shape: int | tuple[int, ...]) -> Tile:
        """Return the elements in row-major order as another shape; one extent may be -1."""
        return Tile(semantic.reshape(self.value, as_shape(*shape)))

    view = reshape

    def trans(self, *order: int | tuple[int, ...]) -> Tile:
        """Permute the axes; without an order, swap the last two."""
        rank = len(self.shape)
        axes = as_shape(*order) or (*range(rank - 2), rank - 1, rank - 2)
        return Tile(semantic.permute(self.value, axes))

    permute = trans

    def expand_dims(self, axis: int) -> Tile:
        """Insert an axis of extent 1."""
        return Tile(semantic.expand_dims(self.value, axis))

    def broadcast_to(self, *shape: int | tuple[int, ...]) -> Tile:
        """Repeat to `shape`."""
        return Tile(semantic.broadcast_to(self.value, as_shape(*shape)))

    def __getitem__(self, key: object) -> Tile:
        return Tile(semantic.index(self.value, key))

    def __add__(self, other: Operand) -> Tile:
        return _binary("add", self, other)

    def __radd__(self, other: Operand) -> Tile:
        return _binary("add", other, self)

    def __sub__(self, other: Operand) -> Tile:
        return _binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Tile:
        return _binary("sub", other, self)

    def __mul__(self, other: Operand) -> Tile:
        return _binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Tile:
        return _binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Tile:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Tile:
        return _binary("div", other, self)

    def __floordiv__(self, other: Operand) -> Tile:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Tile:
        return _binary("floordiv", other, self)

    def __mod__(self, other: Operand) -> Tile:
        return _binary("mod", self, other)

    def __rmod__(self, other: Operand) -> Tile:
        return _binary("mod", other, self)

    def __pow__(self, other: Operand) -> Tile:
        return _binary("pow", self, other)

    def __rpow__(self, other: Operand) -> Tile:
        return _binary("pow", other, self)

    def __and__(self, other: Operand) -> Tile:
        return _binary("and", self, other)

    def __rand__(self, other: Operand) -> Tile:
        return _binary("and", other, self)

    def __or__(self, other: Operand) -> Tile:
        return _binary("or", self, other)

    def __ror__(self, other: Operand) -> Tile:
        return _binary("or", other, self)

    def __xor__(self, other: Operand) -> Tile:
        return _binary("xor", self, other)

    def __rxor__(self, other: Operand) -> Tile:
        return _binary("xor", other, self)

    def __lshift__(self, other: Operand) -> Tile:
        return _binary("shl", self, other)

    def __rlshift__(self, other: Operand) -> Tile:
        return _binary("shl", other, self)

    def __rshift__(self, other: Operand) -> Tile:
        return _binary("shr", self, other)

    def __rrshift__(self, other: Operand) -> Tile:
        return _binary("shr", other, self)

    def __eq__(self, other: object) -> Tile:  # type: ignore[override]
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> Tile:  # type: ignore[override]
        return _compare("ne", self, other)

    def __lt__(self, other: Operand) -> Tile:
        return _compare("lt", self, other)

    def __le__(self, other: Operand) -> Tile:
        return _compare("le", self, other)

    def __gt__(self, other: Operand) -> Tile:
        return _compare("gt", self, other)

    def __ge__(self, other: Operand) -> Tile:
        return _compare("ge", self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> Tile:
        return Tile(semantic.unary("neg", self.value))

    def __pos__(self) -> Tile:
        return self

    def __abs__(self) -> Tile:
        return Tile(semantic.unary("abs", self.value))

    def __invert__(self) -> Tile:
        return Tile(semantic.unary("not", self.value))

    def __bool__(self) -> bool:
        raise KernelError(
            f"{self.type} is known only when the kernel runs, so Python cannot branch on it",
            hint="use tl.where, `if` inside a @kernel, or tl.if_",
        )

    def __index__(self) -> int:
        raise KernelError(
            f"{self.type} is known only when the kernel runs, so Python cannot count with it",
            hint="declare the parameter as tl.constexpr, or loop by `for` inside a @kernel",
        )

    def __iter__(self) -> Iterator[Any]:
        raise KernelError(f"{self.type} cannot be unpacked", hint="tl.split halves the last axis")

    def __repr__(self) -> str:
        return f"Tile({self.type})"


Operand: TypeAlias = Tile | Value | Scalar
"""What the functions of the language take for a value."""

DTypeLike: TypeAlias = DType | Pointer | type[Any] | str
"""An element type: a dtype, or its name; an address is refused."""


def raw(x: Operand) -> Raw:
    """Return the bare value or the Python number behind `x`.

    Raises:
        KernelError: anything else.
    """
    if isinstance(x, Tile):
        return x.value
    if isinstance(x, Value | bool | int | float):
        return x
    unwrapped = getattr(x, "__index__", None)  # NumPy's integers and wrapped constants
    if unwrapped is not None:
        return int(unwrapped())
    raise KernelError(f"{x!r} is no value of a kernel", hint="pass a tile or a number")


def tile(x: Operand) -> Tile:
    """Return `x` as a Tile; a number becomes a constant."""
    return x if isinstance(x, Tile) else Tile(semantic.value(raw(x)))


def as_dtype(dtype: DTypeLike) -> DType:
    """Coerce to a dtype.

    Raises:
        KernelError: for the type of an address.
        DTypeError: for anything else that names no dtype.
    """
    if isinstance(dtype, Pointer):
        raise KernelError(f"{dtype} is an address, not an element type")
    return teeny_core.dtype(dtype)


def as_element(element: DTypeLike) -> DType | Pointer:
    """Coerce to an element type, that of an address included."""
    return element if isinstance(element, Pointer) else as_dtype(element)


def as_shape(*shape: int | tuple[int, ...]) -> Shape:
    """Accept `(2, 3)` and `2, 3` alike."""
    items: list[int] = []
    for part in shape:
        items.extend(part if isinstance(part, tuple | list) else (part,))
    for item in items:
        if not isinstance(item, int):
            raise KernelError(
                f"a shape is made of Python integers, not {item!r}",
                hint="declare the parameter as tl.constexpr",
            )
    return tuple(items)


def reduction(kind: str, x: Operand, axis: int | None, keep_dims: bool) -> Tile:
    """Reduce with the result types of Triton: small integers widen to 32 bits first."""
    source = tile(x)
    return Tile(semantic.reduce(kind, widen(kind, source.value), axis, keep_dims=keep_dims))


def accumulated(
    kind: str, x: Operand, dtype: DTypeLike | None, fold: Callable[[Tile], Tile]
) -> Tile:
    """Convert to `dtype`, if given, else widen; fold 16-bit floats in f32 and round the result."""
    source = tile(x)
    source = Tile(widen(kind, source.value)) if dtype is None else source.to(dtype)
    element = semantic.element(source.value)
    if element.is_float and element.bits < 32:
        return fold(source.to(teeny_core.f32)).to(element)
    return fold(source)


def widen(kind: str, x: Value) -> Value:
    """bool and small integers become i32 or u32; `max` and `min` take 16-bit floats to f32."""
    dtype = semantic.element(x)
    if kind == "xor_sum":
        return x
    if dtype.is_float:
        halves = (dtype.bits < 32 and kind in ("max", "min")) or dtype.bits == 8
        return semantic.cast(x, teeny_core.f32) if halves else x
    if dtype.bits < 32:
        target = teeny_core.u32 if dtype.kind == "uint" else teeny_core.i32
        return semantic.cast(x, target)
    return x


def _binary(opcode: str, a: Operand, b: Operand) -> Tile:
    return Tile(semantic.binary(opcode, raw(a), raw(b)))


def _compare(opcode: str, a: object, b: object) -> Tile:
    return Tile(semantic.compare(opcode, raw(a), raw(b)))  # type: ignore[arg-type]
