"""The template of `attention`."""

from __future__ import annotations

from typing import Any

from teeny_core import Dim, bool_, ceildiv, numel
from teeny_triton import Target
from teeny_triton.launch import Operand, Plan, Request

from teeny_kernels.kernels.attention import Attention, attention
from teeny_kernels.launching import Hook, Work, launch, operand_buffer, output_buffer

RUN = 192
"""Queries of a program, about."""
BLOCK = 128
"""Keys at a time, about."""


class AttentionTemplate:
    """Serves `attention` of q [B, H, S, D], k [B, H, T, D], v [B, H, T, E] and perhaps a mask.

    The attributes are `causal` and `scale`. A mask [B, H, S, T] is added to the scores, or, when it
    is bool, says which keys are seen.
    """

    name = "attention"
    ops: tuple[str, ...] = ("attention",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launch for `request`, None where the size of rows is symbolic."""
        q, k, v, *masks = request.inputs
        y = request.output
        if not q.dtype.is_float or q.dtype.bits < 16 or v.strides[3] != 1 or y.strides[3] != 1:
            return None
        if not isinstance(q.shape[3], int) or not isinstance(v.shape[3], int):
            return None
        t = _cut(q, v, masks, request, target)
        if t is None:
            return None
        buffers = {"q": operand_buffer(0, q), "k": operand_buffer(1, k), "v": operand_buffer(2, v)}
        constants: dict[str, Any] = {"t": t}
        strides: dict[str, tuple[Dim, ...]] = {
            "q_strides": q.strides,
            "k_strides": k.strides,
            "v_strides": v.strides,
            "y_strides": y.strides,
        }
        if masks:
            buffers["mask"] = operand_buffer(3, masks[0])
            strides["mask_strides"] = masks[0].strides
        else:
            constants |= {"mask": None, "mask_strides": None}
        batch, heads, queries, _ = q.shape
        keys = k.shape[2]
        flops = 2 * numel((batch, heads, queries, keys)) * (t.size + t.value_size)
        moved = numel(q.shape) + numel(k.shape) + numel(v.shape) + numel(y.shape)
        return Plan((launch(
            attention,
            (ceildiv(queries, t.run), heads, batch),
            {**buffers, "y": output_buffer(y, request.epilogue)},
            sizes={"queries": queries, "keys": keys, **strides},
            constants=constants,
            hook=Hook.of(request.epilogue),
            work=Work(flops // 2 if t.causal else flops, moved * q.dtype.itemsize),
        ),))  # fmt: skip


TEMPLATE = AttentionTemplate()


def _cut(
    q: Operand, v: Operand, masks: list[Operand], request: Request, target: Target
) -> Attention | None:
    size, value_size = q.shape[3], v.shape[3]
    assert isinstance(size, int)
    assert isinstance(value_size, int)
    if min(size, value_size) == 0:
        return None
    accumulator = q.dtype.accumulator
    lanes, registers = target.lanes(accumulator), target.vector_registers
    height = 12 if registers >= 32 else 4
    mask: Any = "" if not masks else "bool" if masks[0].dtype == bool_ else "sum"
    queries = q.shape[2]
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
        heights=(height, *((8, 4, 2, 1) if height > 8 else (2, 1))),
        rows=4,
        run=run,
        block=max(2 * lanes, BLOCK // (2 * lanes) * 2 * lanes),
    )
