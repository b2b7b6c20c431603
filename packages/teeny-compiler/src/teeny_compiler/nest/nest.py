"""Nests: a fused group of ops as straight-line work over one iteration space.

A `Nest` is what a generated kernel computes, before it is decided how: for every index of `dims`
the instructions in order, where dims marked `reduced` are folded by the reductions. It is the
form in which views have been worked out and equal axes joined, and it prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from teeny_core import Attrs, Dim, DType, Shape, numel

from teeny_compiler.nest.view import View

REDUCTIONS = frozenset({"sum", "prod", "max", "min", "argmax", "argmin"})


COSTS = {
    **dict.fromkeys(("sqrt", "div", "reciprocal", "rsqrt", "floordiv", "mod"), 4),
    **dict.fromkeys(("exp", "exp2", "sigmoid", "log", "log2"), 10),
    **dict.fromkeys(("expm1", "log1p", "sin", "cos", "tan", "tanh", "erf", "pow"), 16),
    **dict.fromkeys(("random", "random_bits"), 60),
    **dict.fromkeys(("constant", "size", "index", "iota", "cast", "bitcast", "load", "inside"), 0),
}
"""Operations of each op, about; any other is 1."""


@dataclass(frozen=True)
class Instruction:
    """One value of a nest: an elementwise op of the graph, a reduction, or one of

    - `load`: element of an operand at `view`, zero where a guard of it fails;
    - `gather`: the same, plus `strides` times the arguments, indices below `limits`; `missing` for
      an index that does not exist;
    - `index`: the i64 number `view` itself; `inside`: whether the guards of `view` hold;
    - `constant` {value}, `size` {dim}: scalars;
    - `random`: Philox word of element number `view` under the state that the operand holds;
    - `result`: what a template computed at this index.

    `args` are earlier instructions. `argmax` and `argmin` take the value and its index.
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    attrs: Attrs = field(default_factory=Attrs)
    operand: int = -1
    view: View | None = None

    def __str__(self) -> str:
        words = [f"%{arg}" for arg in self.args]
        words += [f"@{self.operand}"] if self.operand >= 0 else []
        words += [_view_text(self.view)] if self.view else []
        words += [f"{{{self.attrs}}}"] if self.attrs else []
        return f"{self.op} {' '.join(words)} : {self.dtype.name}"


@dataclass(frozen=True)
class Store:
    """Write instruction `value` to an operand; once for each row when it does not vary in it."""

    value: int
    operand: int
    view: View

    def __str__(self) -> str:
        return f"store %{self.value} @{self.operand} {_view_text(self.view)}"


@dataclass(frozen=True)
class Nest:
    """Instructions over an iteration space; `operands` name the storage that they touch.

    `axes` says of how many dims each axis of the group's domain is made, unless dims of several
    axes were joined.
    """

    dims: Shape
    reduced: tuple[bool, ...]
    instructions: tuple[Instruction, ...]
    stores: tuple[Store, ...]
    operands: tuple[int, ...]
    dtypes: tuple[DType, ...]
    axes: tuple[int, ...] = ()

    @cached_property
    def varies(self) -> tuple[frozenset[int], ...]:
        """For each instruction, the dims along which its value varies."""
        found: list[frozenset[int]] = []
        for instruction in self.instructions:
            dims = self.reach(instruction, found)
            if instruction.op in REDUCTIONS:
                dims = frozenset(d for d in dims if not self.reduced[d])
            found.append(dims)
        return tuple(found)

    def reach(self, instruction: Instruction, varies: Sequence[frozenset[int]]) -> frozenset[int]:
        """Return the dims along which the operands of an instruction vary."""
        dims = frozenset().union(*(varies[arg] for arg in instruction.args))
        return dims | dims_of(instruction.view)

    @property
    def flops(self) -> Dim:
        """About how many operations it takes: of each value one for each index that it varies in,
        of a reduction one for each index that it folds."""
        total: Dim = 0
        for instruction in self.instructions:
            dims = self.reach(instruction, self.varies)
            if instruction.op in REDUCTIONS:
                dims |= {d for d, folded in enumerate(self.reduced) if folded}
            cost = COSTS.get(instruction.op, 1)
            total = total + numel(self.dims[d] for d in sorted(dims)) * cost
        return total

    @property
    def traffic(self) -> Dim:
        """About how many bytes it moves: each operand as far as it is touched, once."""
        total: Dim = 0
        for operand, dtype in enumerate(self.dtypes):
            views = [i.view for i in self.instructions if i.operand == operand]
            views += [store.view for store in self.stores if store.operand == operand]
            dims = max((dims_of(view) for view in views), key=len)
            total = total + numel(self.dims[d] for d in sorted(dims)) * dtype.itemsize
        return total

    @property
    def written(self) -> frozenset[int]:
        """Numbers of the operands that the stores write."""
        return frozenset(store.operand for store in self.stores)

    def __str__(self) -> str:
        pairs = zip(self.dims, self.reduced, strict=True)
        dims = ", ".join(f"{extent}{' reduced' if folded else ''}" for extent, folded in pairs)
        operands = zip(self.operands, self.dtypes, strict=True)
        lines = [f"nest [{dims}]"]
        lines += [f"  @{i} = {name}: {dtype.name}" for i, (name, dtype) in enumerate(operands)]
        lines += [f"  %{i} = {instruction}" for i, instruction in enumerate(self.instructions)]
        return "\n".join((*lines, *(f"  {store}" for store in self.stores)))


def dims_of(view: View | None) -> frozenset[int]:
    """Return the dims along which a view or its guards vary."""
    if view is None:
        return frozenset()
    rows = (view.strides, *(guard.strides for guard in view.guards))
    return frozenset(d for row in rows for d, stride in enumerate(row) if stride != 0)


def _view_text(view: View) -> str:
    guards = "".join(
        f" if 0 <= {_affine(guard.strides, guard.offset)} < {guard.limit}" for guard in view.guards
    )
    return f"[{_affine(view.strides, view.offset)}{guards}]"


def _affine(strides: Shape, offset: object) -> str:
    terms = [f"{stride}*i{k}" for k, stride in enumerate(strides) if stride != 0]
    return " + ".join((*terms, str(offset)) if offset != 0 or not terms else terms)
