"""The template of `attention`."""

from __future__ import annotations

from typing import Any

from teeny_core import bool_, ceildiv, numel
from teeny_triton import Target
from teeny_triton.launch import Operand, Plan, Request

from teeny_kernels.kernels.attention import Attention, attention
from teeny_kernels.launching import Hook, Work, launch, operand_buffer, output_buffer
from teeny_kernels.templates.batch import Batch, groups

RUN = 192
"""Queries of a program, about."""
BLOCK = 128
"""Keys at a time, about."""


class AttentionTemplate:
    """Serves `attention` of q [*B, S, D], k [*B, T, D], v [*B, T, E] and perhaps a mask [*B, S, T].

    The attributes are `causal` and `scale`. A mask is added to the scores, or, when it is bool,
    says which keys are seen.
    """

    name = "attention"
    ops: tuple[str, ...] = ("attention",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launch for `request`, None where the size of rows is symbolic."""
        q, k, v, *masks = request.inputs
        y = request.output
        if not q.dtype.is_float or q.dtype.bits < 16 or v.strides[-1] != 1 or y.strides[-1] != 1:
            return None
        operands = (q, k, v, y, *masks)
        batch = groups(y.shape[:-2], [operand.strides[:-2] for operand in operands])
        t = None if batch is None else _cut(q, v, masks, batch, request, target)
        if batch is None or t is None:
            return None
        buffers = {"q": operand_buffer(0, q), "k": operand_buffer(1, k), "v": operand_buffer(2, v)}
        constants: dict[str, Any] = {"t": t}
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


def _cut(
    q: Operand,
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
    heights = (12, 4, 1) if registers >= 32 else (6, 2, 1)
    height = heights[0]
    mask: Any = "" if not masks else "bool" if masks[0].dtype == bool_ else "sum"
    queries = q.shape[-2]
    run = RUN // height * height
    if isinstance(queries, int):
        run = min(run, max(1, -(-queries // height)) * height)
    return Attention(
        size=size,
        value_size=value_size,
        scale=float(request.attrs["scale"]),
        causal=bool(request.attrs["causal"]),
        mask=mask,
        accumulator=accumulator,
        lanes=lanes,
        vectors=2,
        heights=heights,
        rows=heights[1],
        run=run,
        inner=batch[0].numbers,
        outer=batch[1].numbers,
        block=max(2 * lanes, BLOCK // (2 * lanes) * 2 * lanes),
    )
