"""The type of all tensors: every family of methods together."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from teeny_core.op import Array
from teeny_core.tensor.activations import Activations
from teeny_core.tensor.core import Operand as Operand
from teeny_core.tensor.indexing import Indexing
from teeny_core.tensor.windows import Windows

if TYPE_CHECKING:
    from teeny_core.tensor.core import Scalar


class AnyTensor(Activations, Indexing, Windows):
    """A tensor: `Tensor`, which has a value, or `SymTensor`, a handle while tracing.

    Both have the same methods; those that need a value raise `TraceError` on a `SymTensor`.
    """

    __slots__ = ()

    @abstractmethod
    def numpy(self) -> Array:
        """Return the value as a NumPy array, read-only, without a copy where the device can."""

    @abstractmethod
    def item(self) -> Scalar:
        """Return the only element as a Python scalar."""

    @abstractmethod
    def tolist(self) -> Any:
        """Return the value as nested lists of Python scalars."""

    @abstractmethod
    def __bool__(self) -> bool: ...

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array: ...
