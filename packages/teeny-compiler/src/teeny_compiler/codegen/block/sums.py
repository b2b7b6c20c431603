"""Products that are added to something start from it, instead of from zero."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from teeny_triton.ir import Block, Op, Value, walk


def merge_sums(block: Block) -> Block:
    """Return a body in which `x + dot(a, b, 0)` is `dot(a, b, x)`, as in Triton on other machines.

    The sum is then rounded step by step from `x` on.
    """
    definition = {result: op for op in walk(block) for result in op.results}
    uses = Counter(operand for op in walk(block) for operand in op.operands)
    return _Merger(definition, uses).block(block)


class _Merger:
    def __init__(self, definition: dict[Value, Op], uses: Counter[Value]) -> None:
        self.definition, self.uses = definition, uses

    def block(self, block: Block) -> Block:
        merged: dict[Op, Op] = {}
        products = {op for op in block.ops if op.opcode == "dot" and self._is_free(op)}
        for op in block.ops:
            for operand, other in zip(op.operands, op.operands[::-1], strict=True):
                product = self.definition.get(operand)
                if op.opcode == "add" and product in products and op not in merged:
                    products.discard(product)
                    merged[product] = op
                    merged[op] = replace(
                        product, operands=(*product.operands[:2], other), results=op.results
                    )
        ops = [merged.get(op, op) for op in block.ops if op.opcode != "dot" or op not in merged]
        return Block(block.arguments, [self._inside(op) for op in ops])

    def _inside(self, op: Op) -> Op:
        regions = tuple(self.block(region) for region in op.regions)
        return replace(op, regions=regions) if regions else op

    def _is_free(self, op: Op) -> bool:
        """Whether a product starts from zero, and one op wants it."""
        start = self.definition.get(op.operands[2])
        if start is not None and start.opcode == "splat":
            start = self.definition.get(start.operands[0])
        is_zero = start is not None and start.opcode == "const" and start.attrs["value"] == 0
        return is_zero and self.uses[op.result] == 1
