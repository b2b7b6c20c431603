"""Groups: which nodes of a graph one kernel computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from teeny_core import Shape


@dataclass(frozen=True)
class Group:
    """Nodes computed together over the index space `domain`, of which `reduced` axes are folded.

    `roots` are the nodes with a value of their own here: each reduction, and each elementwise
    node that is stored or that several others share; what lies between them is computed where
    it is read. Roots in `rows` have one value for each index of the axes that are kept, the
    others one for each index of the domain. `stored` are the roots that go to memory.

    A group of `copy` reads its roots from memory and stores them elsewhere.

    With a `template`, a library kernel computes that node and the group is what follows it in
    registers: its domain is the template's result, and nothing is reduced. What it reads of the
    `made` is not in memory: the kernel makes it where it reads it.
    """

    roots: tuple[int, ...]
    domain: Shape
    reduced: tuple[int, ...] = ()
    rows: frozenset[int] = frozenset()
    stored: frozenset[int] = frozenset()
    template: int | None = None
    made: tuple[int, ...] = ()
    copy: bool = False

    @cached_property
    def members(self) -> frozenset[int]:
        """All nodes whose values exist only inside of the group, or come from it."""
        template = () if self.template is None else (self.template,)
        return frozenset((*self.roots, *template, *self.made))

    @cached_property
    def kept(self) -> Shape:
        """The domain without the reduced axes."""
        return tuple(n for axis, n in enumerate(self.domain) if axis not in self.reduced)
