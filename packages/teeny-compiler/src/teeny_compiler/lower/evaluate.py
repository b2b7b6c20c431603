"""Evaluation of a nest's instructions at one place of its iteration space, as tile IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_

from teeny_core import Dim, Expr, i32, i64, u32
from teeny_triton import language as tl
from teeny_triton.language import Operand, Tile

from teeny_compiler.lower import elementwise
from teeny_compiler.nest.nest import Instruction, Nest, dims_of
from teeny_compiler.nest.view import View


def symbolic_dims(nest: Nest, *more: Dim) -> tuple[Expr, ...]:
    """Return the symbolic numbers that addresses, bounds and values of a nest need, and `more`."""
    found: dict[Expr, None] = {}

    def note(*values: object) -> None:
        found.update((value, None) for value in values if isinstance(value, Expr))

    note(*nest.dims, *more)
    for view in (*(i.view for i in nest.instructions), *(s.view for s in nest.stores)):
        if view is not None:
            note(view.offset, *view.strides)
            for guard in view.guards:
                note(guard.offset, guard.limit, *guard.strides)
    for instruction in nest.instructions:
        for value in instruction.attrs.values():
            note(*(value if isinstance(value, tuple) else (value,)))
    return tuple(found)


class Evaluator:
    """Computes instructions at an index, remembering each for as long as it holds.

    `index` holds what is known of the place: for a dim a scalar, and for the lanes the number of
    the first one; `mask` the lanes of a part tile.
    """

    def __init__(
        self,
        nest: Nest,
        lane: int | None,
        tile: int,
        addresses: Mapping[int, Tile],
        sizes: Mapping[Expr, Tile],
    ) -> None:
        self.nest = nest
        self.lane = lane
        self.lanes = None if lane is None else tl.arange(0, tile)
        self.addresses = addresses
        self.sizes = sizes
        self.index: dict[int, Operand] = {}
        self.mask: Tile | None = None
        self.scopes: list[dict[object, Operand]] = [{}]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at the end what is computed inside."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def known(self, key: object) -> Operand | None:
        """Return what was computed under a key in a scope that is still open."""
        name = self.name(key)
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def remember(self, key: object, value: Operand) -> None:
        """Keep what was computed under a key until the scope ends."""
        self.scopes[-1][self.name(key)] = value

    def name(self, key: object) -> object:
        """Return under which name a scope keeps what was computed under a key."""
        return key

    def dim(self, dim: Dim) -> Operand:
        """Return a dimension as a number of the kernel."""
        return dim if isinstance(dim, int) else self.sizes[dim]

    def value(self, i: int) -> Tile:
        """Return an instruction's value, which must have been computed."""
        found = self.known(i)
        assert isinstance(found, Tile), f"instruction %{i} was not computed"
        return found

    def compute(self, i: int) -> None:
        """Compute an instruction whose arguments are known."""
        instruction = self.nest.instructions[i]
        special = _COMPUTE.get(instruction.op)
        if special is not None:
            result = special(self, instruction)
        else:
            args = [self.value(arg) for arg in instruction.args]
            result = elementwise.emit(instruction.op, args, instruction.dtype)
        self.remember(i, result)

    # --- places ------------------------------------------------------------------------------

    def affine(self, strides: Sequence[Dim], offset: Dim) -> Operand:
        """Return `offset + Σ stride·index` over the dims that are known, lanes at their first."""
        known = [d for d, stride in enumerate(strides) if stride != 0 and d in self.index]
        key = ("affine", tuple(strides[d] for d in known), tuple(known), offset)
        found = self.known(key)
        if found is None:
            found = self.dim(offset)
            if known:
                *outer, last = known
                cut = tuple(s if d in outer else 0 for d, s in enumerate(strides))
                step = self.index[last] * self.dim(strides[last])  # type: ignore[operator]
                found = _plus(self.affine(cut, offset), step)
            self.remember(key, found)
        return found

    def place(self, strides: Sequence[Dim], offset: Dim) -> Operand:
        """Return the affine number at each lane: a tile when the lanes move it, else a scalar."""
        start = self.affine(strides, offset)
        if self.lane is None or self.lanes is None or strides[self.lane] == 0:
            return start
        return _plus(start, self._lane_steps(strides[self.lane]))

    def address(self, operand: int, view: View) -> Tile:
        """Return the address of a view's element at each lane."""
        pointer = self.addresses[operand] + self.affine(view.strides, view.offset)
        if self.lane is None or self.lanes is None or view.strides[self.lane] == 0:
            return pointer
        return pointer + self._lane_steps(view.strides[self.lane])

    def _lane_steps(self, stride: Dim) -> Tile:
        assert self.lanes is not None
        if isinstance(stride, int) and abs(stride) * self.lanes.numel <= i32.max:
            return self.lanes if stride == 1 else self.lanes * stride
        return self.lanes.to(i64) * self.dim(stride)

    def inside(self, view: View, tiled: bool) -> Tile | None:
        """Return where the guards of a view hold, and the lanes exist when `tiled`."""
        found = self.mask if tiled else None
        for guard in view.guards:
            number = self.place(guard.strides, guard.offset)
            for test in (tl.compare("ge", number, 0), self._below(number, guard.limit)):
                found = test if found is None else test & found
        return found

    def _below(self, number: Operand, limit: Dim) -> Tile:
        return tl.compare("lt", number, self.dim(limit))

    def is_tiled(self, view: View) -> bool:
        """Whether the lanes move a view."""
        return self.lane is not None and view.strides[self.lane] != 0

    # --- instructions ------------------------------------------------------------------------

    def load(self, instruction: Instruction) -> Tile:
        """Read an element; zero outside of the guards."""
        view = _view(instruction)
        mask = self.inside(view, self.is_tiled(view))
        return tl.load(self.address(instruction.operand, view), mask)

    def gather(self, instruction: Instruction) -> Tile:
        """Read the element that an index picks, or `missing` for one that does not exist."""
        view = _view(instruction)
        address = self.address(instruction.operand, view)
        attrs = instruction.attrs
        exists: Tile | None = None
        for arg, stride, limit in zip(
            instruction.args, attrs["strides"], attrs["limits"], strict=True
        ):
            index = self.value(arg).to(i64)
            address = address + index * self.dim(stride)
            valid = (index >= 0) & (index < self.dim(limit))
            exists = valid if exists is None else valid & exists
        lanes = self.mask if address.shape else None
        masks = [m for m in (exists, self.inside(view, tiled=False), lanes) if m is not None]
        value = tl.load(address, reduce(and_, masks) if masks else None)
        if exists is None or attrs["missing"] == 0:
            return value
        return tl.where(exists, value, attrs["missing"])

    def index_value(self, instruction: Instruction) -> Tile:
        """Return the number of the place."""
        view = _view(instruction)
        return tl.cast(self.place(view.strides, view.offset), i64)

    def inside_value(self, instruction: Instruction) -> Tile:
        """Return where the guards hold."""
        found = self.inside(_view(instruction), tiled=False)
        assert found is not None
        return found

    def constant(self, instruction: Instruction) -> Tile:
        """Return a constant, a scalar."""
        return tl.full((), instruction.attrs["value"], instruction.dtype)

    def size(self, instruction: Instruction) -> Tile:
        """Return a symbolic size, a scalar."""
        return tl.cast(self.dim(instruction.attrs["dim"]), instruction.dtype)

    def random(self, instruction: Instruction) -> Tile:
        """Word 0 of Philox 4x32-10 with key (s0, s1) and counter (low, high, site, s2)."""
        view = _view(instruction)
        state = self.addresses[instruction.operand]
        first, second, step = (tl.load(state + k) for k in range(3))
        number = tl.cast(self.place(view.strides, view.offset), i64)
        low, high = number.to(u32), (number >> 32).to(u32)
        site = instruction.attrs["site"]
        words = tl.philox_impl(low, high, site, step, first, second)
        return words[0].broadcast_to(number.shape)


class TileEvaluator(Evaluator):
    """Evaluates where the indices of dims are tiles that broadcast, of which not all may exist.

    `bounds` holds, for a dim, which of its indices exist; a dim that is not there has all.
    """

    def __init__(
        self, nest: Nest, addresses: Mapping[int, Tile], sizes: Mapping[Expr, Tile]
    ) -> None:
        super().__init__(nest, None, 1, addresses, sizes)
        self.bounds: dict[int, Tile] = {}

    def inside(self, view: View, tiled: bool) -> Tile | None:
        """Return where the guards hold and the indices that move the view exist."""
        found = super().inside(view, tiled=False)
        for dim in sorted(dims_of(view) & self.bounds.keys()):
            below = self.bounds[dim]
            found = below if found is None else below & found
        return found


def _view(instruction: Instruction) -> View:
    assert instruction.view is not None
    return instruction.view


def _plus(a: Operand, b: Operand) -> Operand:
    if isinstance(a, int) and a == 0:
        return b
    return a + b  # type: ignore[operator]


_COMPUTE: dict[str, Callable[..., Tile]] = {
    "load": Evaluator.load,
    "gather": Evaluator.gather,
    "index": Evaluator.index_value,
    "inside": Evaluator.inside_value,
    "constant": Evaluator.constant,
    "size": Evaluator.size,
    "random": Evaluator.random,
}
