"""The template of `matmul_integer`: i8 and u8 in any layout, summed in i32."""

from __future__ import annotations

from teeny_core import Dim, ceildiv, i32
from teeny_triton import Target
from teeny_triton.launch import Plan, Request

from teeny_kernels.kernels import matmul_integer as kernels
from teeny_kernels.kernels.matmul_integer import Blocks
from teeny_kernels.launching import Hook, launch, operand_buffer, output_buffer
from teeny_kernels.templates.matmul import (
    FEW_ROWS,
    Product,
    by_rows,
    by_runs,
    is_by_rows,
    is_by_runs,
    read_product,
)

MOST_ROWS, LEAST_ROWS = 192, 12
"""Rows of a tile: as many as pay for packing B, and so few that B is still packed."""
VECTORS, DEPTH = 8, 128
"""Columns of a tile, in vectors of i32; steps of a product of tiles."""


class MatmulIntegerTemplate:
    """Serves `matmul_integer`."""

    name = "matmul_integer"
    ops: tuple[str, ...] = ("matmul_integer",)

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launch for `request`, None for unusual batches."""
        product = read_product(request)
        if product is None:
            return None
        if is_by_rows(product):
            return Plan((by_rows(product, target),))
        few = isinstance(product.rows, int) and product.rows <= FEW_ROWS
        if few and is_by_runs(product):
            return Plan((by_runs(product, target),))
        blocks = _blocks(product, target)
        tiles = ceildiv(product.rows, blocks.rows) * ceildiv(product.columns, blocks.columns)
        main = launch(
            kernels.matmul_integer,
            (tiles, product.inner.size, product.outer.size),
            {
                "a": operand_buffer(0, product.a),
                "b": operand_buffer(1, product.b),
                "c": output_buffer(product.c, product.epilogue),
            },
            sizes=product.sizes,
            constants={"t": blocks},
            hook=Hook.of(product.epilogue),
            work=product.work,
        )
        return Plan((main,))


TEMPLATE = MatmulIntegerTemplate()


def _blocks(product: Product, target: Target) -> Blocks:
    lanes = target.lanes(i32)
    depth = product.depth if isinstance(product.depth, int) else DEPTH
    return Blocks(
        max(_even(product.rows, MOST_ROWS), LEAST_ROWS),
        -(-_even(product.columns, VECTORS * lanes) // lanes) * lanes,
        max(1, min(DEPTH, depth)),
        product.inner.numbers,
        product.outer.numbers,
    )


def _even(extent: Dim, most: int) -> int:
    """Cut an extent into equal parts of at most so many."""
    if not isinstance(extent, int):
        return most
    return -(-extent // max(1, -(-extent // most)))
