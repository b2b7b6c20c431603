"""The template of `attention`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from teeny_core import Shape, bool_, ceildiv, numel
from teeny_triton import Target
from teeny_triton.launch import Operand, Plan, Request

from teeny_kernels.kernels.attention import Attention, attention
from teeny_kernels.launching import Hook, Work, launch, operand_buffer, output_buffer
from teeny_kernels.templates.batch import Batch, groups

RUNS = (384, 192)
"""Queries of a program, about: keys are packed the more rarely the more there are."""
PROGRAMS = 8
"""How many programs make a longer run worth while."""
VECTORS = 2
"""Registers of a row of scores."""
STRIP = 48
"""Queries that share a panel of keys in the first cache, about."""
BLOCK = 256
"""Keys at a time, about, and at most."""
BLOCK_NUMBERS = 1 << 15
"""Numbers in a block of keys, and of values, about: they share the second cache with the run."""


class AttentionTemplate:
    """Serves `attention` of q [*B, S, D], k [*B, T, D], v [*B, T, E] and perhaps a mask.

    The attributes are `causal`, `safe` and `scale`. The last of the axes B of k and v may be
    shorter, where heads of q share theirs. A mask broadcasts to [*B, S, T]; it is added to the
    scores, or, when it is bool, says which keys are seen.
    """

    name = "attention"
    ops: tuple[str, ...] = ("attention",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launch for `request`, None where the size of rows is symbolic."""
        q, k, v, *given = request.inputs
        y = request.output
        masks = [_spread(mask, (*y.shape[:-1], k.shape[-2])) for mask in given]
        if not q.dtype.is_float or q.dtype.bits < 16 or v.strides[-1] != 1 or y.strides[-1] != 1:
            return None
        operands = (q, k, v, y, *masks)
        share = _share(q, k)
        if share is None:
            return None
        batch = _batch(y.shape[:-2], operands, share)
        t = None if batch is None else _cut(q, k, v, masks, batch, request, target)
        if batch is None or t is None:
            return None
        buffers = {"q": operand_buffer(0, q), "k": operand_buffer(1, k), "v": operand_buffer(2, v)}
        constants: dict[str, Any] = {"t": replace(t, share=share)}
        names = ("q_strides", "k_strides", "v_strides", "y_strides", "mask_strides")
        inner, outer = batch
        strides = {
            name: (outer.strides[i], inner.strides[i], *operand.strides[-2:])
            for i, (name, operand) in enumerate(zip(names, operands, strict=False))
        }
        if masks:
            buffers["mask"] = operand_buffer(3, masks[0])
        else:
            constants |= {"mask": None, "mask_strides": None}
        queries, keys = q.shape[-2], k.shape[-2]
        flops = 2 * numel((*y.shape[:-1], keys)) * (t.size + t.value_size)
        moved = numel(q.shape) + numel(k.shape) + numel(v.shape) + numel(y.shape)
        return Plan((launch(
            attention,
            (ceildiv(queries, t.run), inner.size, outer.size),
            {**buffers, "y": output_buffer(y, request.epilogue)},
            sizes={"queries": queries, "keys": keys, **strides},
            constants=constants,
            hook=Hook.of(request.epilogue),
            work=Work(flops // 2 if t.causal else flops, moved * q.dtype.itemsize),
        ),))  # fmt: skip


TEMPLATE = AttentionTemplate()


def _spread(mask: Operand, scores: Shape) -> Operand:
    """Describe a mask as it is repeated for all scores."""
    new = len(scores) - len(mask.shape)
    strides = [
        0 if extent == 1 else stride
        for extent, stride in zip(mask.shape, mask.strides, strict=True)
    ]
    return replace(mask, shape=scores, strides=(*(0,) * new, *strides))


def _share(q: Operand, k: Operand) -> int | None:
    """How many heads of queries share one of keys; None where that is no number."""
    if len(q.shape) == 2 or q.shape[-3] == k.shape[-3]:
        return 1
    every, heads = q.shape[-3], k.shape[-3]
    return every // heads if isinstance(every, int) and isinstance(heads, int) else None


def _batch(shape: Shape, operands: Sequence[Operand], share: int) -> tuple[Batch, Batch] | None:
    """Return the batch axes on the grid, with strides of keys and values by heads of their own.

    Along the inner axes, that of the heads and what it is joined with, number `head` of the
    queries meets number `head // share`: a step further out has to be that much longer for joining.
    """
    strides = [
        (*(stride * share for stride in x.strides[:-3]), *x.strides[-3:-2])
        if number in (1, 2)
        else x.strides[:-2]
        for number, x in enumerate(operands)
    ]
    found = groups(shape, strides)
    if found is None or not found[1].extents:
        return found
    inner, outer = found
    last = len(shape) - len(inner.extents) - 1
    return inner, replace(outer, strides=tuple(x.strides[last] for x in operands))


def _run(q: Operand) -> int:
    """Return how many queries a program takes, about."""
    count = numel(q.shape[:-1])
    longer = isinstance(count, int) and count >= PROGRAMS * RUNS[0]
    return RUNS[0] if longer else RUNS[1]


def _cut(
    q: Operand,
    k: Operand,
    v: Operand,
    masks: list[Operand],
    batch: tuple[Batch, Batch],
    request: Request,
    target: Target,
) -> Attention | None:
    size, value_size = q.shape[-1], v.shape[-1]
    if not isinstance(size, int) or not isinstance(value_size, int) or not size * value_size:
        return None
    accumulator = q.dtype.accumulator
    lanes, registers = target.lanes(accumulator), target.vector_registers
    queries, keys = q.shape[-2], k.shape[-2]
    height = 12 if registers >= 32 else 6
    if isinstance(queries, int):
        height = max(1, min(height, queries))
    mask: Any = "" if not masks else "bool" if masks[0].dtype == bool_ else "sum"
    width = VECTORS * lanes
    most = min(BLOCK, BLOCK_NUMBERS // max(size, value_size))
    if isinstance(keys, int):
        most = min(most, -(-keys // width) * width)
    run = _run(q) // height * height
    if isinstance(queries, int):
        run = min(run, max(1, -(-queries // height)) * height)
    return Attention(
        size=size,
        value_size=value_size,
        scale=float(request.attrs["scale"]),
        causal=bool(request.attrs["causal"]),
        mask=mask,
        safe=bool(request.attrs["safe"]),
        accumulator=accumulator,
        lanes=lanes,
        line=max(1, target.cache_line // q.dtype.itemsize),
        vectors=VECTORS,
        height=height,
        rows=next(rows for rows in (4 if registers >= 32 else 2, 2, 1) if height % rows == 0),
        strip=STRIP // height * height,
        run=run,
        inner=batch[0].numbers,
        outer=batch[1].numbers,
        block=max(1, most // width) * width,
    )
