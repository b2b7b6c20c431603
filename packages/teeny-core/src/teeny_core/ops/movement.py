"""Movement operations: the same elements at other places."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from teeny_core import shape as shapes
from teeny_core.errors import DTypeError, ShapeError
from teeny_core.graph import Node, apply
from teeny_core.op import Array, Attrs, OpDef, TensorType, fail, register
from teeny_core.ops.reduce import sum_
from teeny_core.shape import Dim, Shape

# --- making nodes -------------------------------------------------------------------------------


def reshape(x: Node, shape: Shape) -> Node:
    """Make x with its elements, in row-major order, in another shape of the same size."""
    return apply("reshape", x, shape=shape)


def permute(x: Node, axes: tuple[int, ...]) -> Node:
    """Make x with axis `axes[i]` as axis i."""
    return apply("permute", x, axes=axes)


def broadcast_to(x: Node, shape: Shape) -> Node:
    """Make x repeated along its axes of extent 1 and along new leading axes."""
    return apply("broadcast_to", x, shape=shape)


def slice_(x: Node, starts: Shape, limits: Shape, steps: tuple[int, ...]) -> Node:
    """Make the elements starts, starts + steps, … below limits on each axis; steps > 0."""
    return apply("slice", x, starts=starts, limits=limits, steps=steps)


def flip(x: Node, axes: tuple[int, ...]) -> Node:
    """Make x reversed along the sorted `axes`."""
    return apply("flip", x, axes=axes)


def pad(x: Node, low: Shape, high: Shape, value: bool | int | float = 0) -> Node:
    """Make x with `low` and `high` elements of `value` before and after each axis."""
    kind = bool if x.dtype.is_bool else float if x.dtype.is_float else int
    return apply("pad", x, low=low, high=high, value=kind(value))


def concat(xs: tuple[Node, ...], axis: int) -> Node:
    """Make the operands joined along `axis`."""
    return apply("concat", *xs, axis=axis)


# --- types --------------------------------------------------------------------------------------


def _infer_reshape(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), shape = inputs, attrs["shape"]
    if not shapes.equal(shapes.numel(x.shape), shapes.numel(shape)):
        fail(
            ShapeError,
            "reshape",
            inputs,
            f"{shapes.numel(x.shape)} elements do not fill {shapes.text(shape)}",
            "let one extent be inferred: -1",
        )
    return TensorType(shape, x.dtype)


def _infer_permute(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), axes = inputs, attrs["axes"]
    if sorted(axes) != list(range(x.rank)):
        fail(
            ShapeError,
            "permute",
            inputs,
            f"{axes} is no permutation of the axes",
            f"name each of 0 to {x.rank - 1} once",
        )
    return TensorType(tuple(x.shape[axis] for axis in axes), x.dtype)


def _infer_broadcast(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), shape = inputs, attrs["shape"]
    aligned = shape[len(shape) - x.rank :] if x.rank <= len(shape) else None
    if aligned is None or not all(
        have == 1 or shapes.equal(have, want) for have, want in zip(x.shape, aligned, strict=True)
    ):
        fail(
            ShapeError,
            "broadcast_to",
            inputs,
            f"cannot repeat {shapes.text(x.shape)} to {shapes.text(shape)}",
            "only axes of extent 1 repeat, and new axes come in front",
        )
    return TensorType(shape, x.dtype)


def _infer_slice(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,) = inputs
    starts, limits, steps = attrs["starts"], attrs["limits"], attrs["steps"]
    if not len(starts) == len(limits) == len(steps) == x.rank:
        fail(ShapeError, "slice", inputs, f"needs starts, limits and steps for {x.rank} axes")
    extents: list[Dim] = []
    for axis, (start, limit, step) in enumerate(zip(starts, limits, steps, strict=True)):
        if step < 1:
            fail(ShapeError, "slice", inputs, f"step {step} on axis {axis}", "flip, then slice")
        if _outside(start, limit, x.shape[axis]):
            fail(
                ShapeError,
                "slice",
                inputs,
                f"[{start}:{limit}] is outside of axis {axis} with extent {x.shape[axis]}",
            )
        extents.append(shapes.ceildiv(limit - start, step))
    return TensorType(tuple(extents), x.dtype)


def _outside(start: Dim, limit: Dim, extent: Dim) -> bool:
    """Whether 0 <= start <= limit <= extent is proven false."""
    below = shapes.at_least(-1, start) or shapes.at_least(start - 1, limit)
    return below or shapes.at_least(limit - 1, extent)


def _infer_flip(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), axes = inputs, attrs["axes"]
    if tuple(sorted(set(axes))) != axes or not all(0 <= axis < x.rank for axis in axes):
        fail(ShapeError, "flip", inputs, f"{axes} are no sorted distinct axes of rank {x.rank}")
    return x


def _infer_pad(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), low, high = inputs, attrs["low"], attrs["high"]
    if not len(low) == len(high) == x.rank:
        fail(ShapeError, "pad", inputs, f"needs low and high for {x.rank} axes")
    if any(shapes.at_least(-1, amount) for amount in (*low, *high)):
        fail(ShapeError, "pad", inputs, f"negative padding in {low}, {high}", "slice instead")
    extents = zip(x.shape, low, high, strict=True)
    return TensorType(tuple(before + extent + after for extent, before, after in extents), x.dtype)


def _infer_concat(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    axis = attrs["axis"]
    if not inputs:
        fail(ShapeError, "concat", inputs, "nothing to join", "pass at least one tensor")
    first = inputs[0]
    if not 0 <= axis < first.rank:
        fail(ShapeError, "concat", inputs, f"axis {axis} is outside of rank {first.rank}")
    for other in inputs[1:]:
        if other.dtype != first.dtype:
            fail(DTypeError, "concat", inputs, "operands of different types", "cast one of them")
        if not shapes.same(_without(other.shape, axis), _without(first.shape, axis)):
            fail(ShapeError, "concat", inputs, f"extents differ on other axes than {axis}")
    total: Dim = 0
    for x in inputs:
        total = total + x.shape[axis]
    return TensorType((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


# --- sizes --------------------------------------------------------------------------------------


def _inside(node: Node) -> Iterator[tuple[Dim, Dim]]:
    """0 <= start and limit <= extent on every axis: beyond is memory of others."""
    bounds = zip(node.attrs["starts"], node.attrs["limits"], node.inputs[0].shape, strict=True)
    for start, limit, extent in bounds:
        yield from ((extent, limit), (start, 0))


def _padded(node: Node) -> Iterator[tuple[Dim, Dim]]:
    """No padding is negative."""
    return ((amount, 0) for amount in (*node.attrs["low"], *node.attrs["high"]))


# --- values -------------------------------------------------------------------------------------


def _slice(attrs: Attrs, x: Array) -> Array:
    bounds = zip(attrs["starts"], attrs["limits"], attrs["steps"], strict=True)
    return x[tuple(slice(start, limit, step) for start, limit, step in bounds)]


def _pad(attrs: Attrs, x: Array) -> Array:
    low, high = attrs["low"], attrs["high"]
    extents = [b + n + a for b, n, a in zip(low, x.shape, high, strict=True)]
    padded = np.full(extents, attrs["value"], x.dtype)
    padded[tuple(slice(b, b + n) for b, n in zip(low, x.shape, strict=True))] = x
    return padded


# --- derivatives --------------------------------------------------------------------------------


def _permute_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    axes = node.attrs["axes"]
    return (permute(g, tuple(axes.index(axis) for axis in range(len(axes)))),)


def _broadcast_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x = node.inputs[0]
    lead = len(node.shape) - len(x.shape)
    repeated = [
        axis
        for axis, extent in enumerate(node.shape)
        if axis < lead or not shapes.equal(x.shape[axis - lead], extent)
    ]
    total = sum_(g, tuple(repeated)) if repeated else g
    return (total if shapes.same(total.shape, x.shape) else reshape(total, x.shape),)


def _slice_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x = node.inputs[0]
    starts, steps = node.attrs["starts"], node.attrs["steps"]
    spread = _dilate(g, steps) if any(step > 1 for step in steps) else g
    axes = range(len(x.shape))
    high = tuple(x.shape[axis] - starts[axis] - spread.shape[axis] for axis in axes)
    return (pad(spread, starts, high),)


def _dilate(g: Node, steps: tuple[int, ...]) -> Node:
    """Put step - 1 zeros after each element but the last one, on every axis."""
    shape, rank = g.shape, len(g.shape)
    pairs = tuple(part for extent in shape for part in (extent, 1))
    zeros = tuple(part for step in steps for part in (0, step - 1))
    spread = pad(reshape(g, pairs), (0,) * (2 * rank), zeros)
    merged = reshape(
        spread, tuple(extent * step for extent, step in zip(shape, steps, strict=True))
    )
    limits = tuple(
        shapes.maximum(extent * step - step + 1, 0)
        for extent, step in zip(shape, steps, strict=True)
    )
    return slice_(merged, (0,) * rank, limits, (1,) * rank)


def _pad_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    x, low = node.inputs[0], node.attrs["low"]
    limits = tuple(before + extent for before, extent in zip(low, x.shape, strict=True))
    return (slice_(g, low, limits, (1,) * len(low)),)


def _concat_vjp(node: Node, g: Node) -> tuple[Node | None, ...]:
    axis, rank = node.attrs["axis"], len(node.shape)
    parts = []
    start: Dim = 0
    for x in node.inputs:
        limit = start + x.shape[axis]
        starts = tuple(start if i == axis else 0 for i in range(rank))
        limits = tuple(limit if i == axis else node.shape[i] for i in range(rank))
        parts.append(slice_(g, starts, limits, (1,) * rank))
        start = limit
    return tuple(parts)


_MOVEMENT = frozenset({"movement"})

for _definition in (
    OpDef(
        "reshape",
        _infer_reshape,
        lambda attrs, x: x.reshape(attrs["shape"]),
        lambda node, g: (reshape(g, node.inputs[0].shape),),
        _MOVEMENT,
        1,
        ("shape",),
    ),
    OpDef(
        "permute",
        _infer_permute,
        lambda attrs, x: x.transpose(attrs["axes"]),
        _permute_vjp,
        _MOVEMENT,
        1,
        ("axes",),
    ),
    OpDef(
        "broadcast_to",
        _infer_broadcast,
        lambda attrs, x: np.broadcast_to(x, attrs["shape"]),
        _broadcast_vjp,
        _MOVEMENT,
        1,
        ("shape",),
    ),
    OpDef(
        "slice",
        _infer_slice,
        _slice,
        _slice_vjp,
        _MOVEMENT,
        1,
        ("limits", "starts", "steps"),
        needs=_inside,
    ),
    OpDef(
        "flip",
        _infer_flip,
        lambda attrs, x: np.flip(x, attrs["axes"]),
        lambda node, g: (flip(g, node.attrs["axes"]),),
        _MOVEMENT,
        1,
        ("axes",),
    ),
    OpDef("pad", _infer_pad, _pad, _pad_vjp, _MOVEMENT, 1, ("high", "low", "value"), needs=_padded),
    OpDef(
        "concat",
        _infer_concat,
        lambda attrs, *xs: np.concatenate(xs, attrs["axis"]),
        _concat_vjp,
        _MOVEMENT,
        None,
        ("axis",),
    ),
):
    register(_definition)
