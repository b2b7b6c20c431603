"""Reshapes of indices, which stay linear: a range that is cut into axes is a sum of ranges.

`arange(0, 12)` as [3, 4] is `4 * arange(0, 3)[:, None] + arange(0, 4)[None, :]`, and what is
computed of ranges elementwise is computed of these. A tile of addresses whose axes were merged is
not linear; memory is then reached in the shape from before, and what was loaded is reshaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teeny_core import DType

from teeny_triton.ir import COMPARISONS, Op, Value

if TYPE_CHECKING:
    from teeny_triton.builder import Builder

Shape = tuple[int, ...]

_INDEX_OPS = frozenset(COMPARISONS) | {
    "add", "sub", "mul", "floordiv", "mod", "neg", "minimum", "maximum", "and", "or", "xor", "not",
    "shl", "shr", "where", "cast", "addptr",
}  # fmt: skip
_RESHAPED = _INDEX_OPS | {"arange", "expand_dims", "broadcast"}


def refined(b: Builder, x: Value, shape: Shape) -> Value | None:
    """Return indices or addresses, computed in a shape that cuts their axes into several.

    Returns:
        A tile of `shape` with the elements of `x` in row-major order; None where they come from
        memory or where axes would be merged.
    """
    return _Refiner(b).refine(x, shape)


def shape_before(b: Builder, x: Value) -> Shape | None:
    """Return the shape that addresses had before axes of theirs were merged, None if none were."""
    waiting, seen = [x], {x}
    while waiting and b.merges:
        op = b.definition(waiting.pop())
        if op is not None and op.opcode == "reshape":
            before = op.operands[0].type.shape
            if changes_axes(x, before) and _cut(x.type.shape, before) is not None:
                return before
        elif op is not None and op.opcode in _INDEX_OPS:
            inner = [y for y in op.operands if y.type.shape == x.type.shape and y not in seen]
            waiting += inner
            seen.update(inner)
    return None


def changes_axes(x: Value, shape: Shape) -> bool:
    """Whether a reshape does more than add and drop axes of extent 1."""
    return _long(x.type.shape) != _long(shape)


def _long(shape: Shape) -> Shape:
    return tuple(extent for extent in shape if extent > 1)


def _cut(shape: Shape, finer: Shape) -> list[Shape] | None:
    """Return the extents into which each axis of `shape` is cut in `finer`, None if it is not."""
    rest, parts = list(finer), []
    for extent in shape:
        part: list[int] = []
        size = 1
        while size < extent and rest:
            part.append(rest.pop(0))
            size *= part[-1]
        if size != extent:
            return None
        parts.append(tuple(part))
    parts[-1] += tuple(rest)  # of extent 1
    return parts


def _joined(parts: list[Shape]) -> Shape:
    return tuple(extent for part in parts for extent in part)


class _Refiner:
    """Computes tiles in other shapes, each once."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.known: dict[tuple[Value, Shape], Value | None] = {}

    def refine(self, x: Value, shape: Shape) -> Value | None:
        """Return `x` in a shape, None where that is not known."""
        if x.type.shape in ((), shape):
            return x
        scalar = self.builder.scalar_of(x)
        if scalar is not None:
            return self.builder.splat(scalar, shape)
        if (x, shape) not in self.known:
            op = self.builder.definition(x)
            is_float = isinstance(x.type.element, DType) and x.type.element.is_float
            found = None if op is None or is_float else self.compute(op, shape)
            self.known[x, shape] = found
        return self.known[x, shape]

    def compute(self, op: Op, shape: Shape) -> Value | None:
        """Return the result of an op in a shape."""
        if op.opcode == "reshape":
            return self.refine(op.operands[0], shape)
        if op.opcode not in _RESHAPED:
            return None
        parts = _cut(op.result.type.shape, shape)
        if parts is None:
            return None
        if op.opcode == "arange":
            return self.ranges(op, shape)
        if op.opcode == "expand_dims":
            return self.expanded(op, parts)
        if op.opcode == "broadcast":
            return self.broadcast(op, parts, shape)
        return self.elementwise(op, shape)

    def ranges(self, op: Op, shape: Shape) -> Value:
        """Return a range as a sum of one for each axis."""
        b, element = self.builder, op.result.type.element
        assert isinstance(element, DType)
        total, step = b.full(shape, op.attrs["start"], element), op.result.type.size
        for axis, extent in enumerate(shape):
            step //= extent
            if extent == 1:
                continue
            piece = b.op("arange", start=0, end=extent)
            for place in range(len(shape)):
                piece = piece if place == axis else b.op("expand_dims", piece, axis=place)
            piece = b.op("mul", piece, b.full(piece.type.shape, step, element))
            piece = b.op("broadcast", piece, wanted=piece.type.with_shape(shape))
            total = b.op("add", total, piece)
        return total

    def expanded(self, op: Op, parts: list[Shape]) -> Value | None:
        """Return what has an axis inserted."""
        axis = op.attrs["axis"]
        before, after = _joined(parts[:axis]), _joined(parts[axis + 1 :])
        result = self.refine(op.operands[0], before + after)
        if result is not None and not result.type.shape:
            return self.builder.splat(result, parts[axis])
        for _ in parts[axis]:
            result = result and self.builder.op("expand_dims", result, axis=len(before))
        return result

    def broadcast(self, op: Op, parts: list[Shape], shape: Shape) -> Value | None:
        """Return what is repeated along axes."""
        (x,) = op.operands
        triples = zip(x.type.shape, op.result.type.shape, parts, strict=True)
        inner = _joined([p if have == want else (1,) * len(p) for have, want, p in triples])
        result = self.refine(x, inner)
        wanted = x.type.with_shape(shape)
        return result and self.builder.op("broadcast", result, wanted=wanted)

    def elementwise(self, op: Op, shape: Shape) -> Value | None:
        """Return what is computed of each element by itself."""
        operands = []
        for operand in op.operands:
            found = self.refine(operand, shape)
            if found is None:
                return None
            operands.append(found)
        wanted = op.result.type.with_shape(shape) if op.opcode == "cast" else None
        return self.builder.op(op.opcode, *operands, wanted=wanted, **op.attrs)
