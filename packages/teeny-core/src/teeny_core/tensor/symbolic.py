"""Symbolic tensors: handles on nodes while a function is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from teeny_core import ops
from teeny_core import shape as shapes
from teeny_core.dtype import DTypeLike
from teeny_core.dtype import dtype as to_dtype
from teeny_core.errors import TraceError
from teeny_core.graph import Node
from teeny_core.op import Array
from teeny_core.shape import Dim
from teeny_core.tensor.base import AnyTensor
from teeny_core.tensor.core import Operand

LITERAL_BYTES = 1024
"""Arrays up to this size become part of the graph; larger ones become its parameters."""


class SymTensor(AnyTensor):
    """A tensor without a value: what a traced function works on."""

    __slots__ = ()

    def __init__(self, node: Node) -> None:
        self._node = node

    @staticmethod
    def input(dtype: DTypeLike, shape: Sequence[Dim | str | None], name: str = "") -> SymTensor:
        """Return a handle on an input.

        Args:
            dtype: its element type.
            shape: its extents; a string names a symbolic one, None makes a new one.
            name: its name; that of the traced function's argument unless given.
        """
        extents = tuple(_extent(extent) for extent in shape)
        return SymTensor(ops.input(name, extents, to_dtype(dtype)))

    @property
    def is_symbolic(self) -> bool:
        """Whether this is a handle while tracing: yes."""
        return True

    def _wrap(self, node: Node) -> SymTensor:
        return SymTensor(node)

    def _constant(self, value: Operand) -> AnyTensor:
        from teeny_core.tensor.concrete import Tensor

        tensor = Tensor(value)
        array = tensor.numpy()
        return SymTensor(ops.array(array)) if array.nbytes <= LITERAL_BYTES else tensor

    def __repr__(self) -> str:
        return f"SymTensor({self.type}, {self._node.op})"

    def numpy(self) -> Array:
        """Raise `TraceError`: there is no value."""
        self._no_value("numpy()")

    def item(self) -> bool | int | float:
        """Raise `TraceError`: there is no value."""
        self._no_value("item()")

    def tolist(self) -> Any:
        """Raise `TraceError`: there is no value."""
        self._no_value("tolist()")

    def __bool__(self) -> bool:
        self._no_value("its truth")

    def __float__(self) -> float:
        self._no_value("float()")

    def __int__(self) -> int:
        self._no_value("int()")

    def __index__(self) -> int:
        self._no_value("its value as an index")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self._no_value("its value as an array")

    def _no_value(self, what: str) -> NoReturn:
        raise TraceError(
            f"a traced function asked for {what} of {self!r}",
            hint="values are known only when the program runs: use where() instead of if, "
            "and keep to tensor operations",
        )


def _extent(extent: Dim | str | None) -> Dim:
    if extent is None:
        return shapes.fresh()
    return shapes.symbol(extent) if isinstance(extent, str) else extent
