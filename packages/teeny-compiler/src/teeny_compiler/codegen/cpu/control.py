"""Loops and branches: tiles cross their edges in registers, as phis.

A carried integer or pointer tile in linear form crosses as one scalar: what all its elements have
in common changes from round to round, what differs between them must stay. Whether it does is
known when the body has been written; where it does not, the body is written again with the tile as
vectors.
"""

# ruff: noqa: D102 - the methods are documented once, on the abstract class
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from teeny_triton.ir import Op, Pointer, Type, Value

from teeny_compiler.codegen.builder import I64, PTR, CodeBlock, LType, Operand, Phi
from teeny_compiler.codegen.cpu import linear
from teeny_compiler.codegen.cpu.context import Context
from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.linear import Linear
from teeny_compiler.codegen.cpu.place import root_of
from teeny_compiler.codegen.cpu.types import Element, memory_scalar, register_scalar
from teeny_compiler.codegen.cpu.values import Index, Registers, Tile, Uniform, index_of


@dataclass(frozen=True)
class Carry(ABC):
    """How a value crosses an edge of control flow: as operands of `types`."""

    kind: Type

    @abstractmethod
    def types(self, c: Context) -> list[LType]:
        """Return the types of the operands."""

    @abstractmethod
    def pack(self, c: Context, tile: Tile) -> list[Operand] | None:
        """Write a tile as operands; None when it does not have this form."""

    @abstractmethod
    def tile(self, operands: Sequence[Operand]) -> Tile:
        """Return the tile that operands are."""


@dataclass(frozen=True)
class Vectors(Carry):
    """A tile as its vectors."""

    def types(self, c: Context) -> list[LType]:
        scalar = register_scalar(self.kind.element)
        return [LType(scalar, piece.width) for piece in c.pieces(self.kind.shape)]

    def pack(self, c: Context, tile: Tile) -> list[Operand] | None:
        return [tile.vector(c, k) for k in range(len(c.pieces(self.kind.shape)))]

    def tile(self, operands: Sequence[Operand]) -> Tile:
        return Registers(self.kind.shape, self.kind.element, tuple(operands))


@dataclass(frozen=True)
class Scalar(Carry):
    """A scalar as itself."""

    def types(self, c: Context) -> list[LType]:
        return [LType(register_scalar(self.kind.element))]

    def pack(self, c: Context, tile: Tile) -> list[Operand] | None:
        return [tile.item(c, 0)]

    def tile(self, operands: Sequence[Operand]) -> Tile:
        return Uniform((), self.kind.element, operands[0])


@dataclass(frozen=True)
class Affine(Carry):
    """A linear form as its first element; the differences between elements are fixed."""

    differences: Linear
    root: object = None

    @property
    def _pointee(self) -> str | None:
        element = self.kind.element
        return memory_scalar(element.pointee) if isinstance(element, Pointer) else None

    def types(self, c: Context) -> list[LType]:
        return [I64 if self._pointee is None else PTR]

    def pack(self, c: Context, tile: Tile) -> list[Operand] | None:
        form = form_of(c, tile)
        if form is None or root_of(c, tile) != self.root:
            return None
        first, differences = form.split()
        if not _same(differences, self.differences):
            return None
        if self._pointee is None:
            return [linear.integer(c.b, first)]
        return [linear.address(c.b, first, self._pointee)]

    def tile(self, operands: Sequence[Operand]) -> Tile:
        shape, element = self.kind.shape, self.kind.element
        if self._pointee is not None:
            base = Linear(shape, {}, operands[0])
        else:
            base = linear.scalar(operands[0]).splat(shape)
        return Index(shape, element, base + self.differences)


def form_of(c: Context, tile: Tile) -> Linear | None:
    """Return a tile of indices or addresses in linear form, when it has one."""
    element: Element = tile.element
    if isinstance(element, Pointer):
        if isinstance(tile, Index):
            return tile.form
        return Linear(tile.shape, {}, tile.value) if isinstance(tile, Uniform) else None
    if element.kind != "int" or element.bits < 32:
        return None
    return index_of(c, tile)


def _same(a: Linear, b: Linear) -> bool:
    if a.terms.keys() != b.terms.keys():
        return False
    return all(np.array_equal(a.table(register), b.table(register)) for register in a.terms)


def carry_of(c: Context, kind: Type, tile: Tile) -> Carry:
    """Choose how a value like `tile` crosses."""
    form = form_of(c, tile)
    if form is not None:
        return Affine(kind, form.split()[1], root_of(c, tile))
    return plain(kind)


def plain(kind: Type) -> Carry:
    """Return the form in which every value can cross."""
    return Vectors(kind) if kind.shape else Scalar(kind)


@dataclass(frozen=True)
class Edge:
    """What crosses: a carry for each value."""

    carries: tuple[Carry, ...]

    def pack(self, c: Context, tiles: Sequence[Tile]) -> list[list[Operand] | None]:
        """Write each tile as operands."""
        return [carry.pack(c, tile) for carry, tile in zip(self.carries, tiles, strict=True)]

    def phis(self, c: Context) -> list[list[Phi]]:
        """Start the phis of a block."""
        rows = [[c.b.phi(type) for type in carry.types(c)] for carry in self.carries]
        for carry, row in zip(self.carries, rows, strict=True):
            if isinstance(carry, Affine):
                c.roots[row[0].result] = carry.root
        return rows

    def tiles(self, operands: Sequence[Sequence[Operand]]) -> list[Tile]:
        """Return the tiles that operands are."""
        return [carry.tile(values) for carry, values in zip(self.carries, operands, strict=True)]

    def without(self, packed: Sequence[list[Operand] | None]) -> Edge | None:
        """Return the edge on which what could not be packed crosses plainly, None if all could."""
        if all(values is not None for values in packed):
            return None
        return Edge(
            tuple(
                plain(carry.kind) if values is None else carry
                for carry, values in zip(self.carries, packed, strict=True)
            )
        )


def _edge(c: Context, values: Sequence[Value], tiles: Sequence[Tile]) -> Edge:
    return Edge(tuple(carry_of(c, v.type, tile) for v, tile in zip(values, tiles, strict=True)))


def _packed(e: Emitter, edge: Edge, tiles: Sequence[Tile]) -> list[list[Operand] | None]:
    """Write what a region yields; loads that it does not want are never written."""
    packed = edge.pack(e.c, tiles)
    e.c.pending.clear()
    return packed


def _join(phis: Sequence[list[Phi]], edges: Sequence[tuple[list[list[Operand]], str]]) -> None:
    """Add the incoming values of phis: a list for each edge, with the block it comes from."""
    for packed, label in edges:
        for row, values in zip(phis, packed, strict=True):
            for phi, value in zip(row, values, strict=True):
                phi.incoming.append((value, label))


def _results(phis: Sequence[list[Phi]]) -> list[list[Operand]]:
    return [[phi.result for phi in row] for row in phis]


def _complete(packed: Sequence[list[Operand] | None]) -> list[list[Operand]]:
    return [values for values in packed if values is not None]


# -- for


@dataclass(frozen=True)
class Range:
    """The bounds of a counted loop."""

    lower: Linear
    upper: Linear
    step: Linear

    def trips(self) -> int | None:
        """Return how often the body runs, when that is known."""
        if not all(form.is_static for form in (self.lower, self.upper, self.step)):
            return None
        lower, upper, step = (int(f.values()[0]) for f in (self.lower, self.upper, self.step))
        return max(0, -(-(upper - lower) // step))


def for_(e: Emitter, op: Op) -> None:
    """Emit `for`."""
    c = e.c
    c.settle()
    forms = [index_of(c, e.tile(operand)) for operand in op.operands[:3]]
    assert all(form is not None for form in forms)
    loop = Range(*forms)  # type: ignore[arg-type]
    (body,) = op.regions
    inits = [e.tile(operand) for operand in op.operands[3:]]
    trips = loop.trips()
    if trips == 0:
        results: Sequence[Tile] = inits
    elif trips == 1:
        induction, *carried = body.arguments
        e.define(induction, Index((), induction.type.element, loop.lower))
        _define_all(e, carried, inits)
        results = e.run(body)
    else:
        edge: Edge | None = _edge(c, op.results, inits)
        while edge is not None:
            edge, results = _counted(e, op, loop, edge, inits)
    _define_all(e, op.results, results)


def _define_all(e: Emitter, values: Sequence[Value], tiles: Sequence[Tile]) -> None:
    for value, tile in zip(values, tiles, strict=True):
        e.define(value, tile)


def _counted(
    e: Emitter, op: Op, loop: Range, edge: Edge, inits: Sequence[Tile]
) -> tuple[Edge | None, list[Tile]]:
    """Write a loop; return what must cross otherwise, if anything, and the results."""
    c, b = e.c, e.c.b
    body = op.regions[0]
    start, limit, step = (linear.integer(b, form) for form in (loop.lower, loop.upper, loop.step))
    entering = _complete(edge.pack(c, inits))
    length = linear.bounds(loop.upper - loop.lower, c.known)
    runs = Operand(LType("i1"), "true") if length[0] > 0 else b.compare("icmp slt", start, limit)
    before, placed = b.block, len(b.blocks)
    header, after = b.new_block(), b.new_block()
    with b.scope(is_loop=True):
        b.jump(header) if runs.text == "true" else b.branch(runs, header, after)
        b.place(header)
        counter = b.phi(I64)
        phis = edge.phis(c)
        _enter(c, e, loop, counter.result, body.arguments[0])
        _define_all(e, body.arguments[1:], edge.tiles(_results(phis)))
        packed = _packed(e, edge, e.run(body))
        other = edge.without(packed)
        if other is not None:
            b.discard_after(placed, before)
            return other, []
        leaving = _complete(packed)
        following = b.pure(I64, f"add nsw {counter.result}, {step.text}", counter.result, step)
        latch = b.block
        counter.incoming = [(start, before.label), (following, latch.label)]
        _join(phis, [(entering, before.label), (leaving, latch.label)])
        b.branch(b.compare("icmp slt", following, limit), header, after)
    b.place(after)
    if runs.text == "true":
        return None, edge.tiles([[b.available(x) for x in values] for values in leaving])
    exits = edge.phis(c)
    _join(exits, [(entering, before.label), (leaving, latch.label)])
    return None, edge.tiles(_results(exits))


def _enter(c: Context, e: Emitter, loop: Range, counter: Operand, induction: Value) -> None:
    low, high = linear.bounds(loop.lower, c.known)[0], linear.bounds(loop.upper, c.known)[1]
    c.known[counter] = (low, high - 1)
    c.multiples[counter] = linear.divisor(c.multiples, loop.lower, loop.step)
    e.define(induction, Index((), induction.type.element, linear.scalar(counter)))


# -- while


def while_(e: Emitter, op: Op) -> None:
    """Emit `while`."""
    e.c.settle()
    inits = [e.tile(operand) for operand in op.operands]
    edge: Edge | None = _edge(e.c, op.results, inits)
    results: Sequence[Tile] = ()
    while edge is not None:
        edge, results = _conditional(e, op, edge, inits)
    _define_all(e, op.results, results)


def _conditional(
    e: Emitter, op: Op, edge: Edge, inits: Sequence[Tile]
) -> tuple[Edge | None, list[Tile]]:
    c, b = e.c, e.c.b
    test, step = op.regions
    entering = _complete(edge.pack(c, inits))
    before, placed = b.block, len(b.blocks)
    header, body, after = b.new_block(), b.new_block(), b.new_block()
    with b.scope(is_loop=True):
        b.jump(header)
        b.place(header)
        phis = edge.phis(c)
        carried = edge.tiles(_results(phis))
        _define_all(e, test.arguments, carried)
        (condition,) = e.run(test)
        b.branch(condition.item(c, 0), body, after)
        b.place(body)
        _define_all(e, step.arguments, carried)
        packed = _packed(e, edge, e.run(step))
        other = edge.without(packed)
        if other is not None:
            b.discard_after(placed, before)
            return other, []
        _join(phis, [(entering, before.label), (_complete(packed), b.block.label)])
        b.jump(header)
    b.place(after)
    return None, edge.tiles([[b.available(x) for x in row] for row in _results(phis)])


# -- if


def if_(e: Emitter, op: Op) -> None:
    """Emit `if`; a condition that is known costs nothing."""
    condition = e.tile(op.operands[0]).item(e.c, 0)
    if condition.is_constant:
        region = op.regions[0 if condition.text == "true" else 1]
        _define_all(e, op.results, e.run(region))
        return
    e.c.settle()
    edge: Edge | None = None
    results: list[Tile] | None = None
    while results is None:
        edge, results = _branches(e, op, condition, edge)
    _define_all(e, op.results, results)


def _branches(
    e: Emitter, op: Op, condition: Operand, edge: Edge | None
) -> tuple[Edge, list[Tile] | None]:
    """Write both branches; results are None when values must cross by another edge."""
    c, b = e.c, e.c.b
    before, placed = b.block, len(b.blocks)
    blocks = b.new_block(), b.new_block()
    after = b.new_block()
    b.branch(condition, *blocks)
    ends: list[tuple[list[list[Operand]], CodeBlock]] = []
    for block, region in zip(blocks, op.regions, strict=True):
        with b.scope(is_loop=False):
            b.place(block)
            tiles = e.run(region)
            edge = edge or _edge(c, op.results, tiles)
            packed = _packed(e, edge, tiles)
            other = edge.without(packed)
            if other is not None:
                b.discard_after(placed, before)
                return other, None
            ends.append((_complete(packed), b.block))
            b.jump(after)
    assert edge is not None
    b.place(after)
    phis = edge.phis(c)
    _join(phis, [(packed, block.label) for packed, block in ends])
    return edge, edge.tiles(_results(phis))


EMITTERS: Mapping[str, EmitOp] = {"for": for_, "while": while_, "if": if_}
