"""Layers that hold other layers, or parameters, by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

from teeny_core.errors import IndexingError
from teeny_core.nn.layer import I, Layer, O
from teeny_core.nn.parameter import Parameter
from teeny_core.tensor import AnyTensor

Item = TypeVar("Item")
AnyLayer = Layer[..., Any]


class _Numbered(Layer[I, O], Generic[Item, I, O]):
    """Items that are attributes named 0, 1, 2, …"""

    _length: int = 0

    def append(self, item: Item) -> None:
        """Add an item at the end."""
        setattr(self, str(self._length), item)
        self._length += 1

    def extend(self, items: Iterable[Item]) -> None:
        """Add items at the end."""
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return (getattr(self, str(index)) for index in range(self._length))

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        """Return one item, or a list of several.

        Raises:
            IndexingError: there is no item of that number.
        """
        if isinstance(index, slice):
            return list(self)[index]
        if not -self._length <= index < self._length:
            raise IndexingError(
                f"item {index} of a {type(self).__name__} of {self._length}",
                hint=f"items go from 0 to {self._length - 1}" if self._length else "it is empty",
            )
        item: Item = getattr(self, str(index % self._length))
        return item


class ParameterList(_Numbered[Parameter, ..., Any]):
    """Parameters by number; it computes nothing."""

    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        self.extend(parameters)


class LayerList(_Numbered[AnyLayer, ..., Any]):
    """Layers by number; it computes nothing."""

    def __init__(self, layers: Iterable[AnyLayer] = ()) -> None:
        self.extend(layers)

    def _set_scope(self, name: str) -> None:
        # a list is never called: its name goes in front of those of its layers
        super()._set_scope(name)
        for number, layer in enumerate(self):
            layer._set_scope(f"{name}.{number}")

    def append(self, item: AnyLayer) -> None:
        """Add a layer at the end."""
        super().append(item)
        if self._scope:
            item._set_scope(f"{self._scope}.{self._length - 1}")


class Sequential(_Numbered[AnyLayer, [AnyTensor], AnyTensor]):
    """Layers one after another, each on the output of the one before."""

    def __init__(self, *layers: AnyLayer) -> None:
        self.extend(layers)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the output of the last layer."""
        for layer in self:
            x = layer(x)
        return x
