"""Nest → epilogue or prologue: elementwise work inside of a library's kernel.

An epilogue works on the tile that the kernel is about to store, a prologue makes the tile of an
operand that it is about to use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from teeny_core import Dim, DType, Expr, i64
from teeny_triton import language as tl
from teeny_triton.language import Operand, Tile
from teeny_triton.launch import Epilogue, Prologue, ScalarArg
from teeny_triton.launch import Operand as BufferOperand

from teeny_compiler.lower.elementwise import convert
from teeny_compiler.lower.evaluate import TileEvaluator, symbolic_dims
from teeny_compiler.nest.nest import Nest


def make_epilogue(nest: Nest, axes: Sequence[int], main: int, shape: Sequence[Dim]) -> Epilogue:
    """Return the epilogue that computes a nest over the result of a template.

    Axis `k` of the result, of extent `shape[k]`, is made of the next `axes[k]` dims of the nest.
    The store to operand `main` is the kernel's own; the other stores the epilogue does itself.
    """
    own = next(store for store in nest.stores if store.operand == main)
    others = tuple(store for store in nest.stores if store is not own)
    extra = extra_operands(nest, main)
    passed = symbolic_dims(nest, *shape)

    def apply(
        tile: Tile, index: Sequence[Tile], mask: Tile | None, arguments: Sequence[Tile]
    ) -> Tile:
        addresses = dict(zip(extra, arguments, strict=False))
        sizes = dict(zip(passed, arguments[len(extra) :], strict=True))
        evaluator = _AtPlace(nest, addresses, sizes, index, axes, shape, mask)
        result = convert(tile, _result_dtype(nest, tile))
        evaluator.run(result)
        for store in others:
            value = evaluator.value(store.value).broadcast_to(result.shape)
            tl.store(evaluator.address(store.operand, store.view), value, evaluator.mask)
        return evaluator.value(own.value).broadcast_to(result.shape)

    return Epilogue(
        apply,
        tuple(_operand(nest, i) for i in extra),
        nest.dtypes[main],
        _key(nest, axes, main),
        tuple(ScalarArg(dim, i64) for dim in passed),
        frozenset(extra.index(store.operand) for store in others),
    )


def make_prologue(nest: Nest, shape: Sequence[Dim]) -> Prologue:
    """Return the prologue that computes the one result of a nest, of some shape, by its axes."""
    (store,) = nest.stores
    extra = tuple(i for i in range(len(nest.operands)) if i != store.operand)
    passed = symbolic_dims(nest, *shape)

    def apply(index: Sequence[Tile], mask: Tile | None, arguments: Sequence[Tile]) -> Tile:
        addresses = dict(zip(extra, arguments, strict=False))
        sizes = dict(zip(passed, arguments[len(extra) :], strict=True))
        evaluator = _AtPlace(nest, addresses, sizes, index, nest.axes, shape, mask)
        evaluator.run(None)
        return evaluator.value(store.value)

    return Prologue(
        apply,
        tuple(_operand(nest, i) for i in extra),
        _key(nest, nest.axes, store.operand),
        tuple(ScalarArg(dim, i64) for dim in passed),
    )


def _key(nest: Nest, axes: Sequence[int], main: int) -> str:
    """Name what an epilogue does, whatever it does it to."""
    anonymous = replace(nest, operands=tuple(range(len(nest.operands))))
    return hashlib.sha256(f"{anonymous} {tuple(axes)} {main}".encode()).hexdigest()[:16]


class _AtPlace(TileEvaluator):
    """Evaluates at the index tiles that a template hands over."""

    def __init__(
        self,
        nest: Nest,
        addresses: Mapping[int, Tile],
        sizes: Mapping[Expr, Tile],
        place: Sequence[Tile],
        axes: Sequence[int],
        shape: Sequence[Dim],
        mask: Tile | None,
    ) -> None:
        super().__init__(nest, addresses, sizes)
        self.mask = mask
        first = 0
        for given, count, extent in zip(place, axes, shape, strict=True):
            index = _wide(given)
            dims = range(first, first + count)
            self._split_index(index, dims)
            if self.mask is not None:
                below = index < self.dim(extent)
                self.bounds.update((dim, below) for dim in dims)
            first += count

    def _split_index(self, index: Tile, dims: range) -> None:
        """Give each dim that an axis is made of its part of the axis's index."""
        for dim in reversed(dims[1:]):
            extent = self.dim(self.nest.dims[dim])
            self.index[dim] = index % extent
            index = index // extent
        if dims:
            self.index[dims[0]] = index

    def run(self, result: Tile | None) -> None:
        """Compute every instruction, with the template's result where it is asked for."""
        for i, instruction in enumerate(self.nest.instructions):
            if instruction.op == "result" and result is not None:
                self.scopes[-1][i] = result
            else:
                self.compute(i)


def _wide(index: Operand) -> Tile:
    """Return an index of a template; a scalar may count images, and goes on in 64 bits."""
    return index if isinstance(index, Tile) and index.shape else tl.cast(index, i64)


def extra_operands(nest: Nest, main: int) -> tuple[int, ...]:
    """Return the operands that an epilogue reads or stores itself, in the order it takes them.

    The template's own result, `main`, is among them where the epilogue reads what it replaces.
    """
    read = {instruction.operand for instruction in nest.instructions}
    return tuple(i for i in range(len(nest.operands)) if i != main or i in read)


def _result_dtype(nest: Nest, tile: Tile) -> DType:
    found = next((i.dtype for i in nest.instructions if i.op == "result"), tile.dtype)
    assert isinstance(found, DType)
    return found


def _operand(nest: Nest, i: int) -> BufferOperand:
    """Describe an operand by the view that reads or writes it."""
    views = [x.view for x in nest.instructions if x.operand == i and x.view]
    views += [store.view for store in nest.stores if store.operand == i]
    return BufferOperand(nest.dims, views[0].strides, nest.dtypes[i])
