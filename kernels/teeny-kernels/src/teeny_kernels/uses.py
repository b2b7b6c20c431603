"""Representative uses of the kernels of this library, at default settings: what tools measure.

`USES` lists them. Each has a `name`, and `functions(target)` returns its kernels as tile IR.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from teeny_core import DType, bf16, f16, f32, f64, i8, i32, i64
from teeny_triton import Kernel, Target
from teeny_triton.ir import Function, Pointer
from teeny_triton.launch import Operand, Request, plans
from teeny_triton.tune import Tuned, function_of

from teeny_kernels import examples
from teeny_kernels.kernels import index, pointwise, rows
from teeny_kernels.templates import TEMPLATES

ROW = 1024


@dataclass(frozen=True)
class Use:
    """An op of a graph over dense operands of these shapes."""

    name: str
    op: str
    shapes: Sequence[tuple[int, ...]]
    output: tuple[int, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtype: DType = f32
    result: DType | None = None

    def functions(self, target: Target) -> list[Function]:
        """Return the kernels that the library launches for the op."""
        operands = tuple(_dense(shape, self.dtype) for shape in self.shapes)
        out = _dense(self.output, self.result or self.dtype)
        request = Request(self.op, self.attrs, operands, out)
        plan = next(itertools.chain(*(plans(each, request, target) for each in TEMPLATES)))
        return [launch.function for launch in plan.launches]


def _dense(shape: tuple[int, ...], dtype: DType) -> Operand:
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return Operand(shape, tuple(strides), dtype)


def of_templates() -> Iterator[Use]:
    """Yield what the compiler asks the library for."""
    yield from _products()
    yield from _convolutions()
    yield from _pools()
    for width, causal, length in itertools.product((64, 128), (False, True), (512, 4096)):
        name = f"attention {'causal' if causal else 'full'} {length}x{width}"
        attrs = {"causal": causal, "safe": False, "scale": width**-0.5}
        shape = (1, 4, length, width)
        yield Use(name, "attention", (shape, shape, shape), shape, attrs)


def _products() -> Iterator[Use]:
    for size in (64, 256, 1024, 1536):
        for layout in ("NN", "NT", "TN"):
            yield _product(f"matmul {layout} {size}", layout, size, size, size)
    for height in (1, 2, 4, 8, 17, 32):
        for layout in ("NN", "NT"):
            yield _product(f"matmul {layout} {height}x1024", layout, height, 1024, 1024)
    yield _product("matmul 500x300x700", "NN", 500, 300, 700)
    for dtype in (bf16, f16, f64):
        yield _product(f"matmul {dtype} 512", "NN", 512, 512, 512, dtype=dtype)
    for layout in ("NN", "NT"):
        small: dict[str, Any] = {"op": "matmul_integer", "dtype": i8, "result": i32}
        yield _product(f"matmul i8 {layout} 512", layout, 512, 512, 512, **small)


def _product(name: str, layout: str, m: int, n: int, k: int, op: str = "matmul", **of: Any) -> Use:
    turned = {f"transpose_{which}": t == "T" for which, t in zip("ab", layout, strict=True)}
    a = (k, m) if layout[0] == "T" else (m, k)
    b = (n, k) if layout[1] == "T" else (k, n)
    return Use(name, op, (a, b), (m, n), turned, **of)


# name, channels, side, filters, kernel, stride, padding, groups; images in a batch
_IMAGES = (
    ("lenet conv1", 1, 28, 6, 5, 1, 2, 1, 64),
    ("lenet conv2", 6, 14, 16, 5, 1, 0, 1, 64),
    ("resnet stem", 3, 224, 64, 7, 2, 3, 1, 1),
    ("resnet 64@56", 64, 56, 64, 3, 1, 1, 1, 1),
    ("resnet 64@56 s2", 64, 56, 128, 3, 2, 1, 1, 1),
    ("resnet 256@14", 256, 14, 256, 3, 1, 1, 1, 1),
    ("resnet 512@7", 512, 7, 512, 3, 1, 1, 1, 1),
    ("resnet 1x1 s2", 64, 56, 128, 1, 2, 0, 1, 1),
    ("mobilenet 1x1 16→96@112", 16, 112, 96, 1, 1, 0, 1, 1),
    ("mobilenet 1x1 320→1280@7", 320, 7, 1280, 1, 1, 0, 1, 1),
    ("mobilenet dw 96@112 s2", 96, 112, 96, 3, 2, 1, 96, 1),
    ("mobilenet dw 144@56", 144, 56, 144, 3, 1, 1, 144, 1),
)
_TRAINED = ("lenet conv1", "lenet conv2", "resnet 64@56")


def _convolutions() -> Iterator[Use]:
    for name, channels, side, filters, kernel, stride, padding, groups, batch in _IMAGES:
        out_side = (side + 2 * padding - kernel) // stride + 1
        x, y = (batch, channels, side, side), (batch, filters, out_side, out_side)
        w = (filters, channels // groups, kernel, kernel)
        attrs: dict[str, Any] = {"stride": (stride, stride), "dilation": (1, 1), "groups": groups}
        attrs["padding"] = ((padding, padding), (padding, padding))
        yield Use(f"conv {name}", "conv2d", (x, w), y, attrs)
        if name in _TRAINED:
            shaped = {**attrs, "input_shape": x}
            yield Use(f"conv {name} dX", "conv2d_grad_input", (y, w), x, shaped)
            shaped = {**attrs, "weight_shape": w}
            yield Use(f"conv {name} dW", "conv2d_grad_weight", (x, y), w, shaped)
        if name == "lenet conv1":
            pooled = (batch, filters, out_side // 2, out_side // 2)
            three = (x, w, (filters,))
            yield Use(f"conv+relu+pool {name}", "conv2d_relu_max_pool2d", three, pooled, attrs)


def _pools() -> Iterator[Use]:
    images, halves = (1, 64, 112, 112), (1, 64, 56, 56)
    for side, padding in ((2, 0), (3, 1)):
        around: dict[str, Any] = {"kernel": (side, side), "stride": (2, 2)}
        around["padding"] = ((padding, padding), (padding, padding))
        yield Use(f"max pool {side}", "max_pool2d", (images,), halves, around)
        yield Use(f"max pool {side} dX", "max_pool2d_grad", (images, halves), images, around)
        around |= {"count_include_pad": False}
        yield Use(f"mean pool {side}", "avg_pool2d", (images,), halves, around)
        around |= {"input_shape": images}
        yield Use(f"mean pool {side} dX", "avg_pool2d_grad", (halves,), images, around)


# --- kernels that are launched as they are -----------------------------------------------------


@dataclass(frozen=True)
class Plain:
    """A kernel of the library, and what stands for its arguments."""

    name: str
    kernel: Kernel
    arguments: Mapping[str, Any]

    def functions(self, target: Target) -> list[Function]:
        """Return the kernel, for any target."""
        return [self.kernel.function(None, None, **self.arguments)]


def of_kernels() -> Iterator[Plain]:
    """Yield the plain kernels of the library."""
    p, integers, block = Pointer(f32), Pointer(i64), {"BLOCK": ROW}
    lines = {"x": p, "y": p, "columns": i32, **block}
    yield Plain("softmax", rows.softmax, lines)
    yield Plain("log softmax", rows.log_softmax, lines)
    losses = {"x": p, "target": integers, "loss": p, "dx": p, "columns": i32, **block}
    yield Plain("cross entropy", rows.cross_entropy, losses)
    yield Plain("layer norm", rows.layer_norm, {**lines, "weight": p, "bias": p})
    yield Plain("rms norm", rows.rms_norm, {**lines, "weight": p})
    yield Plain("argmax", rows.argmax, {**lines, "y": integers})
    for kind in ("sum", "max"):
        yield Plain(f"{kind} of rows", rows.reduce_rows, {**lines, "KIND": kind})
    statistics = {"x": p, "mean": p, "variance": p, **block}
    yield Plain("channel statistics", rows.channel_statistics, statistics)
    yield Plain("batch norm", rows.batch_norm, {**statistics, "weight": p, "bias": p, "y": p})
    step = {"weight": p, "gradient": p, **block}
    yield Plain("sgd", pointwise.sgd, {**step, "velocity": p, "NESTEROV": True})
    yield Plain("adam", pointwise.adam, {**step, "mean": p, "square": p, "DECOUPLED": True})
    yield Plain("take", index.take, {"table": p, "index": integers, "y": p, **block})
    yield Plain(
        "take, gradient", index.take_grad, {"index": integers, "dy": p, "table": p, **block}
    )


@dataclass(frozen=True)
class Example:
    """The kernels of a module of examples, which run to show what they are launched with."""

    name: str
    run: Callable[[], None]

    def functions(self, target: Target) -> list[Function]:
        """Return the kernels as they have been launched, on the default device."""
        self.run()
        module = import_module(f"{examples.__name__}.{self.name.partition(' ')[2]}")
        kernels = {id(value): function_of(value) for value in vars(module).values() if _runs(value)}
        caches = [cache for kernel in kernels.values() for cache in kernel.cache.values()]
        return [compiled.function for cache in caches for compiled in cache.values()]


def _runs(value: object) -> bool:
    return isinstance(value, Kernel | Tuned)


def of_examples() -> Sequence[Example]:
    """Return the examples."""
    return (
        Example("example elements", _elements),
        Example("example rows", _rows),
        Example("example products", _matrices),
        Example("example attention", _attention),
    )


def _elements() -> None:
    (x,) = _normal((64, ROW))
    examples.add(x, x)
    examples.dropout(x, 0.5, 1)


def _rows() -> None:
    x, weight, bias = _normal((64, ROW), (ROW,), (ROW,))
    examples.softmax(x)
    _, mean, scale = examples.layer_norm(x, weight, bias)
    examples.layer_norm_backward(x, x, weight, mean, scale)


def _matrices() -> None:
    a, b = _normal((256, 256), (256, 256))
    for product in (examples.matmul, examples.persistent_matmul):
        product(a, b)
    examples.grouped_matmul([a, b], [b, a])
    blocks, scales = np.zeros((64, 128), np.uint8), np.full((64, 4), 127, np.uint8)
    examples.scaled_matmul(blocks, scales, blocks, scales, "e4m3")


def _attention() -> None:
    q, k, v = _normal(*((2, 256, 64),) * 3)
    for causal in (False, True):
        out, sums = examples.attention(q, k, v, causal)
        examples.attention_backward(out, q, k, v, out, sums, causal)


def _normal(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape, np.float32) for shape in shapes]


USES: Sequence[Use | Plain | Example] = (*of_templates(), *of_kernels(), *of_examples())
