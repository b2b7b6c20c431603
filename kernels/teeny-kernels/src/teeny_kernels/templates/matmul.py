"""The template of `matmul`: any strides, batches, transposed operands, symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from teeny_core import Dim, DType, Shape, ceildiv, i32
from teeny_triton import Target
from teeny_triton.launch import Epilogue, Launch, Operand, Plan, Request, Temp

from teeny_kernels import registers
from teeny_kernels.kernels import matmul as kernels
from teeny_kernels.kernels.gemv import few_rows, matvec, streamed
from teeny_kernels.kernels.matmul import Tiling
from teeny_kernels.launching import (
    Buffer,
    Hook,
    Source,
    Work,
    buffer,
    launch,
    operand_buffer,
    output_buffer,
)
from teeny_kernels.templates.batch import Batch, groups

FEW_ROWS = 4
"""Up to so many rows, a product with rows of B along the depth reads B once, in place."""
MOST_FEW_ROWS, LEAST_WORK, RUN = 128, 1 << 16, 512
"""With up to so many rows and at least so many numbers, B is read by so many bytes of each row."""
MOST_STREAMED, STREAMS, FAR_STREAMS = 8, 8, 4
"""Up to so many rows, copying B does not pay: so many of its rows are read side by side, fewer
where it comes from far away: then the next ones are on their way."""
LEAST_RUN, MOST_RUN, RUNS = 2048, 8192, 4
"""Bytes of a row that are read side by side: the longer, the fewer times caches have to find out
what comes next; but threads want so many runs."""
LONG_ROW = 16384
"""Bytes of a row that are read as fast where they lie as from a packed panel."""
PROGRAMS = 64
"""Programs that a large product is cut into at least, so that many threads have work."""


@dataclass(frozen=True)
class Product:
    """C [rows, columns] = A [rows, depth] @ B [depth, columns] for each item of two batch groups.

    Strides are those of the operands as they lie, transposition worked in.
    """

    rows: Dim
    columns: Dim
    depth: Dim
    a_row: Dim
    a_depth: Dim
    b_depth: Dim
    b_column: Dim
    c_row: Dim
    inner: Batch
    outer: Batch
    a: Operand
    b: Operand
    c: Operand
    epilogue: Epilogue | None = None

    @property
    def accumulator(self) -> DType:
        """The type in which products are summed."""
        return self.a.dtype.accumulator if self.a.dtype.is_float else i32

    @property
    def items(self) -> Dim:
        """Number of products."""
        return self.inner.size * self.outer.size

    @property
    def work(self) -> Work:
        """The cost of all of it."""
        moved = self.rows * self.depth + self.depth * self.columns + self.rows * self.columns
        flops = 2 * self.rows * self.columns * self.depth * self.items
        return Work(flops, moved * self.items * self.a.dtype.itemsize)

    @property
    def sizes(self) -> dict[str, Dim]:
        """The sizes that the kernels take."""
        return {
            "rows": self.rows,
            "columns": self.columns,
            "depth": self.depth,
            "a_row": self.a_row,
            "a_depth": self.a_depth,
            "a_inner": self.inner.strides[0],
            "a_outer": self.outer.strides[0],
            "b_depth": self.b_depth,
            "b_column": self.b_column,
            "b_inner": self.inner.strides[1],
            "b_outer": self.outer.strides[1],
            "c_row": self.c_row,
            "c_inner": self.inner.strides[2],
            "c_outer": self.outer.strides[2],
        }


class MatmulTemplate:
    """Serves `matmul` of floats."""

    name = "matmul"
    ops: tuple[str, ...] = ("matmul",)
    prologues = frozenset({1})

    def plan(self, request: Request, target: Target) -> Plan | None:
        """Return the launches for `request`, None for integers and unusual batches."""
        product = read(request)
        return None if product is None else plan_product(product, target)

    def plans(self, request: Request, target: Target) -> Iterator[Plan]:
        """Yield the plan, then those that read B elsewhere or cut the rows elsewhere."""
        product = read(request)
        if product is None:
            return
        yield plan_product(product, target)
        if not is_by_rows(product):
            for tiling in _other_tilings(product, target):
                yield _tiled(product, tiling)


TEMPLATE = MatmulTemplate()


def read(request: Request) -> Product | None:
    """Read a request for a product, None if the kernels do not serve it."""
    a = request.inputs[0]
    return read_product(request) if a.dtype.is_float and a.dtype.bits >= 16 else None


def read_product(request: Request) -> Product | None:
    """Read a product of whatever types, None for unusual batches and results."""
    a, b = request.inputs
    c = request.output
    if c.strides[-1] != 1:
        return None
    batches = groups(c.shape[:-2], [operand.strides[:-2] for operand in (a, b, c)])
    if batches is None:
        return None
    if b.prologue is not None and request.attrs["transpose_b"]:
        b = replace(b, prologue=b.prologue.swapped)
    a_row, a_depth = _swap(a.strides[-2:], request.attrs["transpose_a"])
    b_depth, b_column = _swap(b.strides[-2:], request.attrs["transpose_b"])
    _, depth = _swap(a.shape[-2:], request.attrs["transpose_a"])
    rows, columns = c.shape[-2:]
    return Product(
        rows, columns, depth, a_row, a_depth, b_depth, b_column, c.strides[-2],
        *batches, a, b, c, request.epilogue,
    )  # fmt: skip


def plan_product(product: Product, target: Target) -> Plan:
    """Choose how to compute a product."""
    if is_by_rows(product):
        return Plan((by_rows(product, target),))
    if is_by_runs(product):
        return Plan((by_runs(product, target),))
    return _tiled(product, _tiling(product, target))


def _tiled(product: Product, tiling: Tiling) -> Plan:
    """Compute a product panel by panel."""
    launches: list[Launch] = []
    temps: list[Temp] = []
    a, b = operand_buffer(0, product.a), operand_buffer(1, product.b)
    sizes = product.sizes
    panels = ceildiv(product.columns, tiling.width)
    if tiling.source == "packed":
        padded = ceildiv(product.depth, tiling.lanes) * tiling.lanes
        size = padded * panels * tiling.width
        temps.append(Temp(size * product.items, product.b.dtype))
        packed = buffer("temp", 0, product.b.dtype)
        grid = (panels, product.inner.size, product.outer.size)
        launches.append(_pack(product, tiling, b, packed, grid))
        b = packed
    if tiling.packed_rows:
        temps.append(Temp(product.rows * product.depth, product.a.dtype))
        packed = buffer("temp", len(temps) - 1, product.a.dtype)
        launches.append(_pack_rows(product, tiling, a, packed))
        a = packed
    c = output_buffer(product.c, product.epilogue)
    runs = ceildiv(product.rows, tiling.run)
    main = launch(
        kernels.matmul,
        (panels * runs, product.inner.size, product.outer.size),
        {"a": a, "b": b, "c": c},
        sizes=sizes,
        constants={"t": tiling},
        hook=Hook.of(product.epilogue),
        source=Source.of(product.b),
        work=product.work,
    )
    return Plan((*launches, main), tuple(temps))


def _swap(pair: Shape, swapped: bool) -> Shape:
    return pair[::-1] if swapped else pair


def is_by_rows(product: Product) -> bool:
    """Whether results are dot products of a few rows of A and of rows of B along the depth."""
    few = isinstance(product.rows, int) and product.rows <= FEW_ROWS
    return few and product.a_depth == 1 and product.b_depth == 1 and product.b_column != 1


def by_rows(product: Product, target: Target) -> Launch:
    """Multiply a row of A by rows of B."""
    accumulator = product.accumulator
    assert isinstance(product.rows, int)
    most = max(1, min(16, (target.vector_registers - 8) // product.rows))
    heights = tuple(1 << i for i in reversed(range(most.bit_length())))
    constants: dict[str, Any] = {
        "t": Tiling(
            accumulator, target.lanes(accumulator), heights, 0, None, 0, heights[0], "direct",
            inner=product.inner.numbers, outer=product.outer.numbers,
        )
    }  # fmt: skip
    return launch(
        matvec,
        (ceildiv(product.columns, heights[0]), product.inner.size, product.outer.size),
        {
            "a": operand_buffer(0, product.a),
            "b": operand_buffer(1, product.b),
            "c": output_buffer(product.c, product.epilogue),
        },
        sizes={k: v for k, v in product.sizes.items() if k not in ("a_depth", "b_depth")},
        constants=constants,
        hook=Hook.of(product.epilogue),
        source=Source.of(product.b),
        work=product.work,
    )


def is_by_runs(product: Product) -> bool:
    """Whether B, too large for a cache, is read for so few rows that reading it takes the time.

    A constant one is better packed beforehand, unless its rows are as good to read.
    """
    rows, columns, depth = product.rows, product.columns, product.depth
    if not isinstance(rows, int) or not isinstance(columns, int) or not isinstance(depth, int):
        return False
    if product.b_column != 1 or product.b.prologue is not None or columns * depth < LEAST_WORK:
        return False
    if product.b.constant:
        long = columns * product.b.dtype.itemsize >= LONG_ROW
        return 1 <= rows <= MOST_STREAMED and long
    return 1 <= rows <= MOST_FEW_ROWS


def by_runs(product: Product, target: Target) -> Launch:
    """Multiply a few rows of A by long runs of the rows of B."""
    accumulator = product.accumulator
    assert isinstance(product.rows, int)
    assert isinstance(product.columns, int)
    lanes = target.lanes(accumulator)
    if product.rows <= MOST_STREAMED:
        chosen, tiling = streamed, _streams(product, lanes, target)
    else:
        chosen, tiling = few_rows, _copied_runs(product, lanes, target)
    return launch(
        chosen,
        (ceildiv(product.columns, tiling.run), product.inner.size, product.outer.size),
        {
            "a": operand_buffer(0, product.a),
            "b": operand_buffer(1, product.b),
            "c": output_buffer(product.c, product.epilogue),
        },
        sizes={k: v for k, v in product.sizes.items() if k != "b_column"},
        constants={"t": tiling},
        hook=Hook.of(product.epilogue),
        work=product.work,
    )


def _streams(product: Product, lanes: int, target: Target) -> Tiling:
    """Cut the columns into runs that are read side by side."""
    assert isinstance(product.rows, int)
    assert isinstance(product.columns, int)
    vectors = 2 if registers.fits(product.rows, 2, target.vector_registers) else 1
    width = vectors * lanes
    least, most = (size // product.b.dtype.itemsize for size in (LEAST_RUN, MOST_RUN))
    run = min(max(-(-product.columns // RUNS), least), most, product.columns)
    size = product.columns * product.depth * product.b.dtype.itemsize
    is_far = isinstance(size, int) and size > target.l3_bytes // 4
    return Tiling(
        product.accumulator, lanes, (product.rows,), width, None, 0, -(-run // width) * width,
        "direct", FAR_STREAMS if is_far else STREAMS,
        inner=product.inner.numbers, outer=product.outer.numbers,
        line=target.cache_line // product.b.dtype.itemsize if is_far else 0,
    )  # fmt: skip


def _copied_runs(product: Product, lanes: int, target: Target) -> Tiling:
    """Cut the columns into runs that are copied, some rows of them at a time."""
    assert isinstance(product.columns, int)
    block = registers.choose(product.rows, product.columns, lanes, target.vector_registers)
    width = min(block.vectors, registers.MOST_VECTORS) * lanes
    itemsize = product.accumulator.itemsize
    run = max(1, min(RUN // itemsize, product.columns) // width) * width
    depth_block = max(1, target.l2_bytes // 4 // (run * itemsize))
    return Tiling(
        product.accumulator, lanes, block.heights, width, None, 0, run, "copied", depth_block,
        inner=product.inner.numbers, outer=product.outer.numbers,
    )  # fmt: skip


def _tiling(product: Product, target: Target) -> Tiling:
    accumulator = product.accumulator
    lanes = target.lanes(accumulator)
    columns = product.columns if isinstance(product.columns, int) else None
    block = registers.choose(product.rows, columns, lanes, target.vector_registers)
    width = block.vectors * lanes
    source, depth_block = _source(product, block, width, target)
    return Tiling(
        accumulator,
        lanes,
        block.heights,
        width,
        None if columns is None else columns // width,
        0 if columns is None else columns % width,
        _run(product, block, width, source),
        source,
        depth_block,
        _packs_rows(product, block, source),
        product.inner.numbers,
        product.outer.numbers,
    )


def _other_tilings(product: Product, target: Target) -> Iterator[Tiling]:
    """Yield the tilings that may be faster than the chosen one where an estimate is wrong."""
    usual = _tiling(product, target)
    if is_by_runs(product):
        yield usual
        return
    if usual.source == "direct":
        source, depth_block = _copied(product, usual.width, target)
        yield replace(usual, source=source, depth_block=depth_block)
    elif product.b_column == 1 and product.b.prologue is None:
        yield replace(usual, source="direct", depth_block=0, packed_rows=False)
    height = usual.heights[0]
    blocks = usual.run // height
    for count in (blocks // 2, blocks * 2):
        if count and isinstance(product.rows, int) and count * height < 2 * product.rows:
            yield replace(usual, run=count * height)


def _source(
    product: Product, block: registers.Block, width: int, target: Target
) -> tuple[Any, int]:
    """Choose where panels of B are read, and how many steps a copied one holds."""
    if product.b.prologue is None:
        if product.b_column == 1 and _reads_in_place(product, block, target):
            return "direct", 0
        if product.b.constant:
            return "packed", 0
    return _copied(product, width, target)


def _copied(product: Product, width: int, target: Target) -> tuple[Any, int]:
    """Copy panels within programs, all of one at a time where the cache holds it."""
    accumulator = product.accumulator
    budget = target.l2_bytes // 2 // (width * accumulator.itemsize)
    if isinstance(product.depth, int) and product.depth <= budget:
        return "copied", 0
    return "copied", max(target.lanes(accumulator), budget // 64 * 64)


def _reads_in_place(product: Product, block: registers.Block, target: Target) -> bool:
    """Whether B is small, or read too few times for a copy to pay."""
    if not isinstance(product.depth, int) or not isinstance(product.b_depth, int):
        return True
    itemsize = product.b.dtype.itemsize
    aliased = product.b_depth * itemsize % 1024 == 0 and product.depth > 32
    small = product.depth * product.b_depth * itemsize <= target.l2_bytes // 4
    few = isinstance(product.rows, int) and product.rows <= 2 * block.height
    return (few and not product.b.constant) or (small and not aliased)


def _packs_rows(product: Product, block: registers.Block, source: str) -> bool:
    """Whether A, contiguous along its columns, is worth a copy."""
    numbers = (product.rows, product.columns, product.depth, product.a_depth, product.items)
    if not all(isinstance(number, int) for number in numbers) or product.a_row != 1:
        return False
    many = isinstance(product.columns, int) and product.columns >= 256
    plain = product.items == 1 and len(block.heights) <= 2
    return many and plain and source != "direct"


def _run(product: Product, block: registers.Block, width: int, source: str) -> int:
    """Choose the rows of a program: enough programs, but each worth its copy of the panel."""
    least = 8 if source == "direct" else 16
    if not isinstance(product.rows, int):
        return least * block.height
    blocks = max(1, -(-product.rows // block.height))
    numbers = [ceildiv(product.columns, width), product.items]
    programs = 1
    for number in numbers:
        programs *= number if isinstance(number, int) else 32
    wanted = max(1, min(-(-PROGRAMS // max(1, programs)), blocks // least))
    return -(-blocks // wanted) * block.height


def _pack(product: Product, t: Tiling, b: Buffer, packed: Buffer, grid: tuple[Dim, ...]) -> Launch:
    names = ("columns", "depth", "b_depth", "b_column", "b_inner", "b_outer")
    moved = 2 * product.depth * product.columns * product.items * product.b.dtype.itemsize
    return launch(
        kernels.pack_columns,
        grid,
        {"b": b, "packed": packed},
        sizes={name: product.sizes[name] for name in names},
        constants={"t": t},
        work=Work(0, moved),
    )


def _pack_rows(product: Product, t: Tiling, a: Buffer, packed: Buffer) -> Launch:
    return launch(
        kernels.pack_rows,
        (product.rows // (t.heights[0] * kernels.PACKED_BLOCKS) + 1,),
        {"a": a, "packed": packed},
        sizes={name: product.sizes[name] for name in ("rows", "depth", "a_depth")},
        constants={"t": t},
        work=Work(0, 2 * product.rows * product.depth * product.a.dtype.itemsize),
    )
