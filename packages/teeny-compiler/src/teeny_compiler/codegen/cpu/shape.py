"""Ops that move elements: nothing is written until the moved elements are wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from teeny_triton.ir import Op

from teeny_compiler.codegen.cpu.emitter import EmitOp, Emitter
from teeny_compiler.codegen.cpu.layout import Indices
from teeny_compiler.codegen.cpu.linear import Linear, thin
from teeny_compiler.codegen.cpu.place import permuted
from teeny_compiler.codegen.cpu.values import Index, Tile, Uniform, view


def _numbers(shape: tuple[int, ...]) -> Indices:
    """Number the elements of a tile."""
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)


def expand_dims(e: Emitter, op: Op) -> None:
    """Emit `expand_dims`."""
    tile, shape = e.tile(op.operands[0]), op.result.type.shape
    if isinstance(tile, Index):
        terms = {r: np.expand_dims(t, op.attrs["axis"]) for r, t in tile.form.terms.items()}
        form = Linear(shape, terms, tile.form.pointer)
        e.define(op.result, Index(shape, tile.element, form))
        return
    e.define(op.result, tile.moved(e.c, shape, _numbers(shape).reshape(-1)))


def broadcast(e: Emitter, op: Op) -> None:
    """Emit `broadcast`."""
    tile, shape = e.tile(op.operands[0]), op.result.type.shape
    if isinstance(tile, Index):
        form = Linear(shape, tile.form.terms, tile.form.pointer)
        e.define(op.result, Index(shape, tile.element, form))
        return
    index = np.broadcast_to(_numbers(tile.shape), shape).reshape(-1)
    e.define(op.result, tile.moved(e.c, shape, index))


def trans(e: Emitter, op: Op) -> None:
    """Emit `trans`."""
    e.define(op.result, permuted(e.c, e.tile(op.operands[0]), tuple(op.attrs["order"])))


def reshape(e: Emitter, op: Op) -> None:
    """Emit `reshape`."""
    shape = op.result.type.shape
    e.define(op.result, e.tile(op.operands[0]).moved(e.c, shape, _numbers(shape).reshape(-1)))


def join(e: Emitter, op: Op) -> None:
    """Emit `join`."""
    shape = op.operands[0].type.shape
    numbers = _numbers(shape)
    index = np.stack([numbers, numbers + numbers.size], axis=-1)
    e.define(op.result, _combined(e, op, index))


def cat(e: Emitter, op: Op) -> None:
    """Emit `cat`."""
    first, second = (_numbers(operand.type.shape) for operand in op.operands)
    index = np.concatenate([first, second + first.size], axis=op.attrs["axis"])
    e.define(op.result, _combined(e, op, index))


def _combined(e: Emitter, op: Op, index: Indices) -> Tile:
    """Return the tile of elements of both operands."""
    a, b = map(e.tile, op.operands)
    shape, flat = op.result.type.shape, index.reshape(-1)
    forms = [tile.form for tile in (a, b) if isinstance(tile, Index)]
    if len(forms) == 2 and forms[0].pointer == forms[1].pointer:
        return Index(shape, a.element, _joined(forms[0], forms[1], shape, flat))
    if isinstance(a, Uniform) and isinstance(b, Uniform) and a.value == b.value:
        return Uniform(shape, a.element, a.value)
    return view(e.c, (a, b), shape, flat)


def _joined(a: Linear, b: Linear, shape: tuple[int, ...], index: Indices) -> Linear:
    terms = {}
    for register in {**a.terms, **b.terms}:
        tables = np.concatenate([a.table(register), b.table(register)])
        terms[register] = thin(tables[index].reshape(shape))
    return Linear(shape, terms, a.pointer)


def flip(e: Emitter, op: Op) -> None:
    """Emit `flip`."""
    shape = op.result.type.shape
    index = np.flip(_numbers(shape), op.attrs["axis"]).reshape(-1)
    e.define(op.result, e.tile(op.operands[0]).moved(e.c, shape, index))


def split(e: Emitter, op: Op) -> None:
    """Emit `split`."""
    tile, shape = e.tile(op.operands[0]), op.results[0].type.shape
    numbers = _numbers(tile.shape)
    for half, result in enumerate(op.results):
        e.define(result, tile.moved(e.c, shape, numbers[..., half].reshape(-1)))


EMITTERS: Mapping[str, EmitOp] = {
    "expand_dims": expand_dims,
    "broadcast": broadcast,
    "trans": trans,
    "reshape": reshape,
    "join": join,
    "cat": cat,
    "flip": flip,
    "split": split,
}
