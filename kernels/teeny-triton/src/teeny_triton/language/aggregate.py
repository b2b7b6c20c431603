"""Values of a kernel that are made of several tiles, such as block pointers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from teeny_triton.errors import KernelError


def refuse(kind: type) -> type:
    """Refuse to make a class a type of kernels, which is an experiment of Triton's.

    Raises:
        KernelError: always.
    """
    raise KernelError(
        f"`{kind.__name__}` cannot become a type of kernels: that is experimental in Triton",
        hint="make it a NamedTuple",
    )


class Aggregate(ABC):
    """A value made of others, its parts, and of what is known while the kernel is read.

    Where paths of a kernel meet, in loops and branches, it is taken apart and put together again.
    """

    @property
    @abstractmethod
    def parts(self) -> tuple[Any, ...]:
        """The tiles that it is made of, or tuples of them."""

    @property
    @abstractmethod
    def known(self) -> tuple[Any, ...]:
        """What is known while the kernel is read; the same on all paths that meet."""

    @abstractmethod
    def with_parts(self, parts: Sequence[Any]) -> Self:
        """Return the value that is made of other parts."""

    def matches(self, other: object) -> bool:
        """Whether two values differ in their parts only."""
        if not isinstance(other, Aggregate) or type(self) is not type(other):
            return False
        return self.known == other.known
