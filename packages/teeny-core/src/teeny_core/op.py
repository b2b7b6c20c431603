"""Operations: a frozen definition for each, kept in one registry.

An `OpDef` says what an operation is: the type of its result (`infer`), its value in NumPy
(`reference`), its derivative (`vjp`), and its algebraic `traits`. Everything is explicit: operands
of equal shapes and types, no broadcasting, no promotion.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import DType
from teeny_core.errors import OpError, TeenyError
from teeny_core.shape import Dim, Shape

if TYPE_CHECKING:
    from teeny_core.graph import Node

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class TensorType:
    """Shape and element type of a value."""

    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{shapes.text(self.shape)}"


class Attrs(Mapping[str, Any]):
    """Immutable, hashable attributes of a node, sorted by name.

    Equality is by exact value and type: 1, 1.0 and True differ, so do 0.0 and -0.0; NaN is NaN.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        items = {**(values or {}), **more}
        self._values = {name: items[name] for name in sorted(items)}

    @cached_property
    def _key(self) -> Hashable:
        return tuple((name, _exact(value)) for name, value in self._values.items())

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attrs) and self._key == other._key

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value_text(value)}" for name, value in self._values.items())

    def __repr__(self) -> str:
        return f"Attrs({self})"


def value_text(value: Any) -> str:
    """Print an attribute's value the same way in every process."""
    if isinstance(value, tuple):
        inner = ", ".join(map(value_text, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value) if isinstance(value, float) else str(value)


def _exact(value: Any) -> Hashable:
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    if isinstance(value, tuple):
        return tuple(map(_exact, value))
    return type(value), value


Infer: TypeAlias = Callable[[tuple[TensorType, ...], Attrs], TensorType]
Reference: TypeAlias = Callable[..., Array]
Vjp: TypeAlias = "Callable[[Node, Node], tuple[Node | None, ...]]"
Needs: TypeAlias = "Callable[[Node], Iterable[tuple[Dim, Dim]]]"


@dataclass(frozen=True, eq=False)
class OpDef:
    """The definition of an operation.

    Attributes:
        name: unique name.
        infer: types of operands and attributes → type of the result; raises a typed error.
        reference: attributes and NumPy operands → NumPy result, the meaning of the operation.
        vjp: node and gradient of its result → gradient of each operand, None for one that
            carries no gradient. None here means that the operation is not differentiable.
        traits: names of properties from which rewrites derive (commutative, elementwise, …).
        arity: number of operands; None for any number.
        attributes: names of the attributes, all required.
        expand: for a composite, its node → the same value made of other operations.
        needs: node → pairs (a, b) of sizes with a >= b wherever it has a value. `infer` refuses
            what is proven wrong; what is not is checked when the sizes are known.
    """

    name: str
    infer: Infer
    reference: Reference
    vjp: Vjp | None = None
    traits: frozenset[str] = frozenset()
    arity: int | None = None
    attributes: tuple[str, ...] = ()
    expand: Callable[[Node], Node] | None = None
    needs: Needs | None = None

    def check(self, inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
        """Return the type of the result after checking operands and attributes.

        Raises:
            TeenyError: of the type that fits, naming the operation, its operands' types and a hint.
        """
        if self.arity is not None and len(inputs) != self.arity:
            self.fail(OpError, inputs, f"takes {self.arity} operands, got {len(inputs)}")
        if set(attrs) != set(self.attributes):
            self.fail(
                OpError,
                inputs,
                f"takes the attributes ({', '.join(self.attributes)}), got ({', '.join(attrs)})",
            )
        return self.infer(inputs, attrs)

    def fail(
        self,
        error: type[TeenyError],
        inputs: tuple[TensorType, ...],
        message: str,
        hint: str | None = None,
    ) -> NoReturn:
        """Raise `error` with the operation and the types of its operands in front."""
        fail(error, self.name, inputs, message, hint)


def fail(
    error: type[TeenyError],
    op: str,
    inputs: tuple[TensorType, ...],
    message: str,
    hint: str | None = None,
) -> NoReturn:
    """Raise `error`, naming the operation and the types of its operands."""
    raise error(f"{op}({', '.join(map(str, inputs))}): {message}", hint=hint)


_registry: dict[str, OpDef] = {}


def register(definition: OpDef) -> OpDef:
    """Add a definition to the registry and return it.

    Raises:
        OpError: when the name is taken.
    """
    if definition.name in _registry:
        raise OpError(
            f"an operation named {definition.name!r} is already registered",
            hint="give the new operation a name of its own",
        )
    _registry[definition.name] = definition
    return definition


def get(name: str) -> OpDef:
    """Return the definition of an operation.

    Raises:
        OpError: when there is none of that name.
    """
    found = _registry.get(name)
    if found is None:
        raise OpError(f"no operation is named {name!r}", hint="see teeny_core.ops.all_ops()")
    return found


def all_ops() -> tuple[OpDef, ...]:
    """Return every registered definition, in order of registration."""
    return tuple(_registry.values())
