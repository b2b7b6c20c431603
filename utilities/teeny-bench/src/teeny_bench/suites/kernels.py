"""What the kernel compiler must show: library kernels, narrow types, few rows, launched kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import teeny_core as tn
import teeny_triton as triton
import teeny_triton.language as tl
from numpy.typing import NDArray

from teeny_bench.case import Case, Sides
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import normal, pair, peer_call, program_of, sides
from teeny_bench.suites import attention, gemm, launched, rows

FUSED_SIZES = (128, 256, 512, 1024, 1536)
NARROW_SIZES = (256, 512, 1024, 1536)
FEW_ROWS = (1, 17, 32)
WIDE = 1024
LENGTHS = (512, 1024, 2048, 4096)
WIDTHS = (64, 128)
LAUNCHED_SIZES = (512, 768, 1024)
TILE = (64, 64, 32)
BF16_TOLERANCE = 1e-2
EPS = 1e-5


def cases(peer: str) -> Iterator[Case]:
    """Yield all rows; their names begin with the kind of kernel."""
    yield from _named("pointwise", rows.pointwise(peer))
    yield from _named("softmax", rows.softmax(peer))
    yield from _named("layernorm", rows.layernorm(peer))
    yield from _named("matmul", gemm.cases(peer))
    for size in FUSED_SIZES:
        build = partial(_fused, peer, size)
        yield Case(f"matmul+bias+gelu {size}", build, flops=2.0 * size**3)
    for width in WIDTHS:
        for length in LENGTHS:
            yield from _named("attention", attention.of_shape(peer, (1, 4, length, width)))
    for size in NARROW_SIZES:
        yield Case(f"int8 {size}", partial(_int8, peer, size), tolerance=0.0)
        yield Case(f"bf16 {size}", partial(_bf16, peer, size), tolerance=BF16_TOLERANCE)
    for layout in ("NN", "NT"):
        for height in FEW_ROWS:
            build = partial(_few_rows, peer, layout, height)
            yield Case(f"few rows {layout} {height}", build, bytes=4.0 * WIDE * WIDE)
    yield from _launched(peer)


def _named(prefix: str, cases: Iterator[Case]) -> Iterator[Case]:
    return (replace(case, name=f"{prefix} {case.name}") for case in cases)


def _fused(peer: str, size: int) -> Sides:
    gelu = torch_module().nn.functional.gelu
    return pair(
        peer,
        lambda a, b, bias: (a @ b + bias).gelu(),
        lambda a, b, bias: gelu(a @ b + bias),
        normal(0, (size, size), (size, size), (size,)),
    )


def _few_rows(peer: str, layout: str, height: int) -> Sides:
    product = gemm.LAYOUTS[layout]
    return pair(peer, product, product, normal(0, (height, WIDE), (WIDE, WIDE)))


def _bf16(peer: str, size: int) -> Sides:
    arrays = [array.astype(tn.bf16.numpy) for array in normal(0, (size, size), (size, size))]
    program = program_of(lambda a, b: a @ b, arrays)
    torch = torch_module()
    tensors = [torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) for array in arrays]
    product = compiled(peer, lambda a, b: a @ b)

    def theirs() -> Any:
        with torch.inference_mode():
            return product(*tensors)

    def values() -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        return [np.asarray(program(*arrays))], [theirs().float().numpy()]

    return Sides(lambda: program(*arrays), theirs, values)


def _int8(peer: str, size: int) -> Sides:
    random = np.random.default_rng(0)
    a, b = (random.integers(-128, 128, (size, size), np.int8) for _ in range(2))
    ours = _product(a, b, np.dtype(np.int32), tl.int32)
    torch = torch_module()
    return sides(ours, peer_call(compiled(peer, lambda x, y: torch._int_mm(x, y)), (a, b)))


# -- launched as users do


def _launched(peer: str) -> Iterator[Case]:
    build: Callable[[], Sides]
    for size in (1 << 16, 1 << 20):
        build = partial(_launched_add, peer, size)
        yield Case(f"launched add {size >> 10}K", build, bytes=12.0 * size)
    for shape in rows.SOFTMAX_SHAPES:
        name = f"launched softmax {'x'.join(map(str, shape))}"
        yield Case(name, partial(_launched_softmax, peer, shape), bytes=8.0 * prod(shape))
    for shape in rows.LAYERNORM_SHAPES:
        name = f"launched layernorm {'x'.join(map(str, shape))}"
        yield Case(name, partial(_launched_layer_norm, peer, shape), bytes=8.0 * prod(shape))
    for size in LAUNCHED_SIZES:
        build = partial(_launched_matmul, peer, size)
        yield Case(f"launched matmul {size}", build, flops=2.0 * size**3)


def _launched_add(peer: str, size: int) -> Sides:
    x, y = normal(0, (size,), (size,))
    out, block = np.empty_like(x), 4096

    def ours() -> NDArray[Any]:
        launched.add[(triton.cdiv(size, block),)](x, y, out, size, BLOCK=block)
        return out

    return sides(ours, peer_call(compiled(peer, lambda x, y: x + y), (x, y)))


def _launched_softmax(peer: str, shape: tuple[int, int]) -> Sides:
    (x,) = normal(0, shape)
    out, block = np.empty_like(x), triton.next_power_of_2(shape[1])

    def ours() -> NDArray[Any]:
        launched.softmax[(shape[0],)](x, out, shape[1], BLOCK=block)
        return out

    return sides(ours, peer_call(compiled(peer, lambda x: x.softmax(-1)), (x,)))


def _launched_layer_norm(peer: str, shape: tuple[int, int]) -> Sides:
    x, weight, bias = normal(0, shape, shape[1:], shape[1:])
    out, block = np.empty_like(x), triton.next_power_of_2(shape[1])
    reference = torch_module().nn.functional.layer_norm

    def ours() -> NDArray[Any]:
        launched.layer_norm[(shape[0],)](x, weight, bias, out, shape[1], EPS, BLOCK=block)
        return out

    def theirs(x: Any, weight: Any, bias: Any) -> Any:
        return reference(x, shape[1:], weight, bias, EPS)

    return sides(ours, peer_call(compiled(peer, theirs), (x, weight, bias)))


def _launched_matmul(peer: str, size: int) -> Sides:
    a, b = normal(0, (size, size), (size, size))
    ours = _product(a, b, a.dtype, tl.float32)
    return sides(ours, peer_call(compiled(peer, lambda a, b: a @ b), (a, b)))


def _product(
    a: NDArray[Any], b: NDArray[Any], result: np.dtype[Any], total: Any
) -> Callable[[], NDArray[Any]]:
    """Return the launch of the grouped product of square matrices."""
    size = a.shape[0]
    c = np.empty((size, size), result)
    bm, bn, bk = TILE
    grid = (triton.cdiv(size, bm) * triton.cdiv(size, bn),)
    sizes = (size, size, size, size, 1, size, 1, size)

    def launch() -> NDArray[Any]:
        launched.matmul[grid](a, b, c, *sizes, BM=bm, BN=bn, BK=bk, GROUP=8, SUM=total)
        return c

    return launch
