"""What all parts of a kernel's lowering share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from teeny_triton import Target

from teeny_compiler.codegen.builder import Builder, Operand
from teeny_compiler.codegen.cpu.layout import Piece, pieces
from teeny_compiler.codegen.cpu.linear import Bounds


@dataclass
class Context:
    """What all emitters share: the builder, the machine, the width, and what is known.

    `known` holds ranges of registers, `multiples` known divisors of them; `roots` says from which
    parameter or scratch memory a pointer derives, and `private` which of those no other pointer
    reaches; `pending` are loads whose instructions are not written yet. `streams`: stores that pass
    the caches have been written.
    """

    b: Builder
    target: Target
    lanes: int
    known: dict[Operand, Bounds] = field(default_factory=dict)
    multiples: dict[Operand, int] = field(default_factory=dict)
    roots: dict[Operand, object] = field(default_factory=dict)
    private: set[object] = field(default_factory=set)
    pending: list[Pending] = field(default_factory=list)
    streams: bool = False

    def pieces(self, shape: tuple[int, ...]) -> tuple[Piece, ...]:
        """Cut a tile into vectors."""
        return pieces(shape, self.lanes)

    def remembered(self, key: object, make: Callable[[], Operand]) -> Operand:
        """Return the operand that `make` writes, written once in this scope."""
        made = self.b.remember(key, make)
        assert isinstance(made, Operand)
        return made

    def settle(self, root: object = None) -> None:
        """Write the pending loads that may read memory reached from `root` (None: all)."""
        kept = []
        for load in self.pending:
            if load.may_read(self, root):
                load.force(self)
            else:
                kept.append(load)
        self.pending = kept


class Pending(ABC):
    """A load that is written when its elements are wanted, or before memory may change."""

    @abstractmethod
    def force(self, c: Context) -> None:
        """Write what is left of the load."""

    @abstractmethod
    def may_read(self, c: Context, root: object) -> bool:
        """Whether memory reached from `root` (None: from anywhere) may be what is loaded."""
