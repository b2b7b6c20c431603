"""Group → nest: evaluate the roots of a group at every index of its domain.

A value is read through a chain of moves, from the value outwards to the domain. Movement ops only
lengthen the chain; at a leaf the chain maps the leaf's own view to the domain, so that nothing is
copied. What no view expresses raises `InexpressibleError`, and the scheduler fuses less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from teeny_core import Attrs, DType, Shape, bool_, i64, ops, u32
from teeny_core import shape as shapes

from teeny_compiler.fxgraph import FXGraph, FxNode
from teeny_compiler.nest.bodies import Affine, Body, access
from teeny_compiler.nest.group import Group
from teeny_compiler.nest.moves import (
    MOVEMENT,
    Move,
    broadcast,
    moves_of,
    operand_view,
    reshape,
    spread,
    template_bases,
)
from teeny_compiler.nest.nest import REDUCTIONS, Instruction, Nest, Store
from teeny_compiler.nest.view import View, common_factors, join, joinable, row_major


class InexpressibleError(Exception):
    """A group that cannot be computed in one pass over its domain; never seen by users.

    `node` is the value that, put in memory, would help, where that is known.
    """

    def __init__(self, message: str, node: int | None = None) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True, eq=False)
class Chain:
    """Moves from a value to the domain, the nearest to the value first; shared tails."""

    move: Move
    rest: Chain | None


@dataclass(frozen=True)
class Storages:
    """Where the values of nodes lie: `home` names the storage from which a node is read (None when
    it is in no memory), `targets` those that are written when a group stores it."""

    home: Callable[[int], int | None]
    targets: Callable[[int], Sequence[int]]


def placed(nest: Nest, storages: Storages) -> Nest:
    """Return a nest that was read with every node under its own name, over storages."""
    names: dict[int, int] = {}
    dtypes: dict[int, DType] = {}

    def operand(storage: int, old: int) -> int:
        dtypes.setdefault(storage, nest.dtypes[old])
        return names.setdefault(storage, len(names))

    instructions = list(nest.instructions)
    for i, instruction in enumerate(instructions):
        if instruction.operand >= 0:
            home = storages.home(nest.operands[instruction.operand])
            assert home is not None, "a nest reads what is in memory"
            place = operand(home, instruction.operand)
            instructions[i] = replace(instruction, operand=place)
    stores = tuple(
        replace(store, operand=operand(storage, store.operand))
        for store in nest.stores
        for storage in storages.targets(nest.operands[store.operand])
    )
    return replace(
        nest,
        instructions=tuple(instructions),
        stores=stores,
        operands=tuple(names),
        dtypes=tuple(dtypes[storage] for storage in names),
    )


def read_group(
    graph: FXGraph,
    group: Group,
    storages: Storages,
    body: Body | None = None,
    *,
    by_axis: bool = False,
) -> Nest:
    """Return the nest of a group.

    With the `body` of its template the nest computes that as well; else the nest is what comes
    after it, and the template's value is read from memory where it lies there, or else an
    instruction `result`. With `by_axis`, as after a template, the dims of the axes stay apart.

    Raises:
        InexpressibleError: when the group cannot be computed in one pass.
    """
    if body is not None:
        rows = frozenset(group.members)
        group = replace(group, domain=body.domain, reduced=body.reduced, rows=rows)
    reader = _Reader(graph, group, storages, body)
    for root in (*group.roots, *(group.stored - {*group.roots})):
        reader.root(root)
    return reader.nest(by_axis)


class _Reader:
    def __init__(self, graph: FXGraph, group: Group, storages: Storages, body: Body | None) -> None:
        self.graph = graph
        self.group = group
        self.storages = storages
        self.body = body
        self.instructions: list[Instruction] = []
        self.stores: list[Store] = []
        self.operands: dict[int, int] = {}
        self.dtypes: list[DType] = []
        self.known: dict[tuple[int, int], int] = {}
        self.shared: dict[Instruction, int] = {}
        self.chains: dict[tuple[Move, int], Chain] = {}
        rows = View.contiguous(group.kept)
        for move in spread(group.domain, group.reduced):
            rows = _apply(rows, move)
        self.row_view = rows.simplified()

    # --- roots and stores --------------------------------------------------------------------

    def root(self, number: int) -> None:
        """Compute a root, and store it when it goes to memory."""
        chain = self._root_chain(number)
        value = self.value(number, chain)
        if number in self.group.stored:
            view = self._view(View.contiguous(self.graph.nodes[number].shape), chain)
            for storage in self.storages.targets(number):
                operand = self._operand(storage, self.graph.nodes[number].dtype)
                self.stores.append(Store(value, operand, view))

    def _root_chain(self, number: int) -> Chain | None:
        """The moves from a root to the domain."""
        group = self.group
        shape = self.graph.nodes[number].shape
        moves: tuple[Move, ...] = ()
        if group.template is not None and number != group.template:
            moves = self._back_to_template(group.template, number)
            shape = self.graph.nodes[group.template].shape
        if number in group.rows:
            moves = (*moves, *spread(group.domain, group.reduced))
        elif not shapes.same(shape, group.domain):
            moves = (*moves, reshape(group.domain))
        chain: Chain | None = None
        for move in reversed(moves):
            chain = self._chain(move, chain)
        return chain

    def _back_to_template(self, template: int, root: int) -> tuple[Move, ...]:
        """The moves that undo those by which a root reads the result of the group's template."""
        paths: list[tuple[int, tuple[int, ...]]] = [(root, ())]
        seen: set[int] = set()
        while paths:
            number, path = paths.pop()
            if number == template:
                return tuple(_undone(self.graph, i) for i in path)
            node = self.graph.nodes[number]
            if number in seen or self._home(number) is not None:
                continue
            seen.add(number)
            further = (*path, number) if node.op in MOVEMENT else path
            paths += [(operand, further) for operand in node.inputs]
        return ()

    # --- values ------------------------------------------------------------------------------

    def value(self, number: int, chain: Chain | None) -> int:
        """Return the instruction that holds a node's value as read through a chain."""
        key = (number, id(chain))
        if key not in self.known:
            self.known[key] = self._evaluate(number, chain)
        return self.known[key]

    def _evaluate(self, number: int, chain: Chain | None) -> int:
        node = self.graph.nodes[number]
        if number == self.group.template:
            self._require_place(number, chain, self.row_view)
            if self.body is not None:
                return self.body.emit(self)
            if self.storages.home(number) is None:
                return self.emit(Instruction("result", (), node.dtype))
        home = self._home(number)
        if home is not None:
            view = self._view(View.contiguous(node.shape), chain)
            operand = self._operand(home, node.dtype)
            return self.emit(Instruction("load", (), node.dtype, operand=operand, view=view))
        if node.op in MOVEMENT:
            return self._move(number, chain)
        if node.op in REDUCTIONS:
            return self._reduce(number, chain)
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node, chain)
        if not is_elementwise(node):
            raise InexpressibleError(f"%{number} {node.op} is not in memory")
        args = tuple(self.value(operand, chain) for operand in node.inputs)
        return self.emit(Instruction(node.op, args, node.dtype))

    def _move(self, number: int, chain: Chain | None) -> int:
        node = self.graph.nodes[number]
        parts = moves_of(self.graph, number)
        last_operand, last_move = parts[-1]
        if node.op == "pad":
            result = self._constant(node.attrs["value"], node.dtype)
        else:
            inner = self._chain(last_move, chain)
            result, parts = self.value(last_operand, inner), parts[:-1]
        if node.op not in ("pad", "concat"):
            return result
        for operand, move in reversed(parts):
            inner = self._chain(move, chain)
            shape = self.graph.nodes[operand].shape
            view = self._view(View.strided(shape, (0,) * len(shape)), inner)
            value = self.value(operand, inner)
            if view.guards:
                inside = self.emit(Instruction("inside", (), bool_, view=view))
                value = self.emit(Instruction("where", (inside, value, result), node.dtype))
            result = value
        return result

    def _reduce(self, number: int, chain: Chain | None) -> int:
        node = self.graph.nodes[number]
        if number not in self.group.members:
            raise InexpressibleError(f"%{number} {node.op} belongs to another kernel")
        self._require_place(number, chain, self.row_view)
        (operand,) = node.inputs
        shape = self.graph.nodes[operand].shape
        whole = self._whole(shape)
        axes: tuple[int, ...] = node.attrs.get("axes", (node.attrs.get("axis"),))
        places = View.contiguous(node.shape)
        for move in (*spread(shape, axes), reshape(self.group.domain)):
            places = _apply(places, move)
        if not _same_elements(places, self.row_view):
            raise InexpressibleError(f"%{number} folds other axes than its group")
        args: tuple[int, ...] = (self.value(operand, whole),)
        if node.op in ("argmax", "argmin"):
            strides = tuple(int(axis == node.attrs["axis"]) for axis in range(len(shape)))
            view = self._view(View.strided(shape, strides), whole)
            args += (self.emit(Instruction("index", (), i64, view=view)),)
        return self.emit(Instruction(node.op, args, node.dtype))

    # --- leaves and the like, by op ----------------------------------------------------------

    def constant(self, node: FxNode, chain: Chain | None) -> int:
        return self._constant(node.attrs["value"], node.dtype)

    def size(self, node: FxNode, chain: Chain | None) -> int:
        attrs = Attrs(dim=node.attrs["dim"])
        return self.emit(Instruction("size", (), node.dtype, attrs))

    def iota(self, node: FxNode, chain: Chain | None) -> int:
        axis = node.attrs["axis"]
        strides = tuple(int(k == axis) for k in range(len(node.shape)))
        view = self._view(View.strided(node.shape, strides), chain)
        index = self.emit(Instruction("index", (), i64, view=replace(view, guards=())))
        return self._cast(index, node.dtype)

    def random_bits(self, node: FxNode, chain: Chain | None) -> int:
        (state,) = node.inputs
        home = self._home(state)
        if home is None:
            raise InexpressibleError("the state of a random node is not in memory")
        view = replace(self._view(View.contiguous(node.shape), chain), guards=())
        attrs = Attrs(site=node.attrs["site"])
        operand = self._operand(home, u32)
        return self.emit(Instruction("random", (), u32, attrs, operand=operand, view=view))

    def cast(self, node: FxNode, chain: Chain | None) -> int:
        return self._cast(self.value(node.inputs[0], chain), node.dtype, node.op)

    def take(self, node: FxNode, chain: Chain | None) -> int:
        """out[a, i, b] = x[a, index[i], b]."""
        x, index = node.inputs
        axis: int = node.attrs["axis"]
        source, picked = self.graph.nodes[x].shape, self.graph.nodes[index].shape
        ones = (1,) * (len(source) - axis - 1)
        beside = self._chain(reshape((*picked, *ones)), self._chain(broadcast(node.shape), chain))
        strides = row_major(source)
        still = (0,) * len(picked)
        plain = View.strided(node.shape, (*strides[:axis], *still, *strides[axis + 1 :]))
        return self._gather(x, self.value(index, beside), axis, self._view(plain, chain))

    def take_along(self, node: FxNode, chain: Chain | None) -> int:
        """out[a, j, b] = x[a, index[a, j, b], b]."""
        x, index = node.inputs
        axis: int = node.attrs["axis"]
        strides = row_major(self.graph.nodes[x].shape)
        plain = View.strided(node.shape, (*strides[:axis], 0, *strides[axis + 1 :]))
        return self._gather(x, self.value(index, chain), axis, self._view(plain, chain))

    def _gather(self, x: int, index: int, axis: int, view: View) -> int:
        home = self._home(x)
        if home is None:
            raise InexpressibleError(f"%{x} is indexed but not in memory")
        node = self.graph.nodes[x]
        attrs = Attrs(
            strides=(row_major(node.shape)[axis],),
            limits=(node.shape[axis],),
            missing=math.nan if node.dtype.is_float else 0,
        )
        operand = self._operand(home, node.dtype)
        return self.emit(
            Instruction("gather", (index,), node.dtype, attrs, operand=operand, view=view)
        )

    # --- for the body of a template ----------------------------------------------------------

    @property
    def domain(self) -> Shape:
        """The index space."""
        return self.group.domain

    def element(self, operand: int, index: Sequence[Affine]) -> int:
        """Load the element of the template's operand at an affine index of each axis."""
        return self.picked(operand, index, {})

    def picked(self, operand: int, index: Sequence[Affine], at: Mapping[int, int]) -> int:
        """Load an element with the index of some axes given by instructions."""
        template = self.group.template
        assert template is not None
        number = self.graph.nodes[template].inputs[operand]
        node = self.graph.nodes[number]
        base = template_bases(self.graph, template)[operand]
        home = self._home(base)
        held = operand_view(self.graph, number, base)
        strides = held.flat_strides()
        if home is None or strides is None:
            raise InexpressibleError(f"%{number} is not in memory")
        view = access(self.domain, strides, held.offset, node.shape, index)
        place = self._operand(home, node.dtype)
        if not at:
            return self.emit(Instruction("load", (), node.dtype, operand=place, view=view))
        attrs = Attrs(
            strides=tuple(strides[axis] for axis in at),
            limits=tuple(node.shape[axis] for axis in at),
            missing=0,
        )
        indices = tuple(at.values())
        return self.emit(
            Instruction("gather", indices, node.dtype, attrs, operand=place, view=view)
        )

    # --- plumbing ----------------------------------------------------------------------------

    def _constant(self, value: bool | int | float, dtype: DType) -> int:
        return self.emit(Instruction("constant", (), dtype, Attrs(value=value)))

    def _cast(self, value: int, dtype: DType, op: str = "cast") -> int:
        if self.instructions[value].dtype == dtype:
            return value
        return self.emit(Instruction(op, (value,), dtype))

    def _whole(self, shape: tuple[shapes.Dim, ...]) -> Chain | None:
        """The chain of a value whose elements are those of the domain."""
        domain = self.group.domain
        if shapes.same(shape, domain):
            return None
        if not shapes.equal(shapes.numel(shape), shapes.numel(domain)):
            raise InexpressibleError(f"{shape} is no form of {domain}")
        return self._chain(reshape(domain), None)

    def _chain(self, move: Move, rest: Chain | None) -> Chain:
        key = (move, id(rest))
        if key not in self.chains:
            self.chains[key] = Chain(move, rest)
        return self.chains[key]

    def _view(self, view: View, chain: Chain | None) -> View:
        while chain is not None:
            view, chain = _apply(view, chain.move), chain.rest
        return view.simplified()

    def _require_place(self, number: int, chain: Chain | None, wanted: View) -> None:
        view = self._view(View.contiguous(self.graph.nodes[number].shape), chain)
        if not _same_elements(view, wanted):
            raise InexpressibleError(f"%{number} is read at another place than where it is made")

    def _home(self, number: int) -> int | None:
        """The storage to read a node from; None for one that the group computes itself."""
        if number in self.group.roots and not self.group.copy:
            return None
        return self.storages.home(number)

    def _operand(self, storage: int, dtype: DType) -> int:
        if storage not in self.operands:
            self.operands[storage] = len(self.operands)
            self.dtypes.append(dtype)
        return self.operands[storage]

    def emit(self, instruction: Instruction) -> int:
        """Add an instruction, sharing equal ones, and return its number."""
        if instruction not in self.shared:
            self.shared[instruction] = len(self.instructions)
            self.instructions.append(instruction)
        return self.shared[instruction]

    # --- the iteration space -----------------------------------------------------------------

    def nest(self, by_axis: bool) -> Nest:
        """Bring all views to common dims, and join the dims that every view walks as one."""
        whole = View.contiguous(self.group.domain).simplified()
        views = [i.view for i in self.instructions if i.view] + [s.view for s in self.stores]
        factors = common_factors([whole, *views])
        if factors is None:
            raise InexpressibleError("the views of the group have no common factors")
        reduced = [axis in self.group.reduced for axis, parts in enumerate(factors) for _ in parts]
        flat = [v.refined(factors).reaxed((len(reduced),)) for v in (whole, *views)]
        # The axes of a template's result stay as they are: its epilogue is asked by axis.
        joined = not by_axis and all(i.op != "result" for i in self.instructions)
        for dim in reversed(range(len(reduced) - 1) if joined else ()):
            if reduced[dim] == reduced[dim + 1] and all(joinable(v, dim) for v in flat[1:]):
                flat = [join(v, dim) for v in flat]
                del reduced[dim]
        found = iter(flat[1:])
        instructions = tuple(
            replace(i, view=next(found)) if i.view else i for i in self.instructions
        )
        stores = tuple(replace(s, view=next(found)) for s in self.stores)
        return Nest(
            flat[0].extents,
            tuple(reduced),
            instructions,
            stores,
            tuple(self.operands),
            tuple(self.dtypes),
            tuple(map(len, factors)),
        )


def is_elementwise(node: FxNode) -> bool:
    """Whether a node is computed at each index from its operands at the same index."""
    return "elementwise" in ops.get(node.op).traits


_SPECIAL: dict[str, Callable[[_Reader, FxNode, Chain | None], int]] = {
    "constant": _Reader.constant,
    "size": _Reader.size,
    "iota": _Reader.iota,
    "random_bits": _Reader.random_bits,
    "cast": _Reader.cast,
    "bitcast": _Reader.cast,
    "take": _Reader.take,
    "take_along": _Reader.take_along,
}


def _undone(graph: FXGraph, number: int) -> Move:
    """The inverse of a movement node, where it loses and repeats nothing."""
    node = graph.nodes[number]
    shape = graph.nodes[node.inputs[0]].shape
    if node.op == "reshape":
        return reshape(shape)
    if node.op == "permute":
        axes = node.attrs["axes"]
        back = tuple(axes.index(axis) for axis in range(len(axes)))
        return Move("permute", Attrs(axes=back), shape)
    raise InexpressibleError(f"%{number} {node.op} has no inverse")


def _apply(view: View, move: Move) -> View:
    moved = move.apply(view)
    if moved is None:
        raise InexpressibleError(f"no view expresses the {move.op}", move.operand)
    return moved


def _same_elements(left: View, right: View) -> bool:
    """Whether two views of one logical shape name the same element at every index."""
    if left.guards or right.guards or not shapes.equal(left.offset, right.offset):
        return False
    factors = common_factors([left, right])
    if factors is None:
        return False
    pairs = zip(left.refined(factors).strides, right.refined(factors).strides, strict=True)
    return all(shapes.equal(a, b) for a, b in pairs)
