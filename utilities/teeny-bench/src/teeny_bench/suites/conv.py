"""Convolutions as LeNet-5, ResNet-18 and MobileNetV2 use them, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from teeny_core import ops

from teeny_bench.case import Case
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import outputs, pair


@dataclass(frozen=True)
class Shape:
    """A convolution of square images and kernels, NCHW."""

    name: str
    batch: int
    channels: int
    side: int
    filters: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def out_side(self) -> int:
        """Side of the result."""
        return (self.side + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def flops(self) -> float:
        """Multiplications and additions of one pass."""
        taps = self.channels // self.groups * self.kernel**2
        return 2.0 * self.batch * self.filters * self.out_side**2 * taps


FORWARD = (
    Shape("lenet conv1", 64, 1, 28, 6, 5, padding=2),
    Shape("lenet conv2", 64, 6, 14, 16, 5),
    Shape("resnet stem", 1, 3, 224, 64, 7, stride=2, padding=3),
    Shape("resnet 64@56", 1, 64, 56, 64, 3, padding=1),
    Shape("resnet 64@56 s2", 1, 64, 56, 128, 3, stride=2, padding=1),
    Shape("resnet 128@28", 1, 128, 28, 128, 3, padding=1),
    Shape("resnet 256@14", 1, 256, 14, 256, 3, padding=1),
    Shape("resnet 512@7", 1, 512, 7, 512, 3, padding=1),
    Shape("resnet 1x1 s2", 1, 64, 56, 128, 1, stride=2),
    Shape("mobilenet 1x1 16→96@112", 1, 16, 112, 96, 1),
    Shape("mobilenet 1x1 24→144@56", 1, 24, 56, 144, 1),
    Shape("mobilenet 1x1 96→24@56", 1, 96, 56, 24, 1),
    Shape("mobilenet 1x1 320→1280@7", 1, 320, 7, 1280, 1),
    Shape("mobilenet depthwise 96@112 s2", 1, 96, 112, 96, 3, stride=2, padding=1, groups=96),
    Shape("mobilenet depthwise 144@56", 1, 144, 56, 144, 3, padding=1, groups=144),
)
BACKWARD = (*FORWARD[:2], FORWARD[3], FORWARD[5])


def conv(peer: str, threads: int) -> Iterator[Case]:
    """Yield forward passes with bias, then gradients of input and weight."""
    torch = torch_module()
    rng = np.random.default_rng(0)
    for shape in FORWARD:
        x, w = _operands(shape, rng)
        bias = rng.standard_normal(shape.filters).astype(np.float32)
        options = {"stride": shape.stride, "padding": shape.padding, "groups": shape.groups}
        run_ours, run_theirs = pair(
            lambda x, w, b, options=options: ops.conv2d(x, w, b, **options),
            compiled(
                peer,
                lambda x, w, b, options=options: torch.nn.functional.conv2d(x, w, b, **options),
            ),
            [x, w, bias],
        )
        yield _case(f"{shape.name}", run_ours, run_theirs, shape.flops)
    for shape in BACKWARD:
        x, w = _operands(shape, rng)
        dy = rng.standard_normal(
            (shape.batch, shape.filters, shape.out_side, shape.out_side)
        ).astype(np.float32)
        yield _gradient(peer, shape, "dX", [dy, w], x.shape)
        yield _gradient(peer, shape, "dW", [x, dy], w.shape)


def _operands(shape: Shape, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    taps = shape.channels // shape.groups
    x = rng.standard_normal((shape.batch, shape.channels, shape.side, shape.side))
    w = rng.standard_normal((shape.filters, taps, shape.kernel, shape.kernel))
    return x.astype(np.float32), (w / np.sqrt(taps * shape.kernel**2)).astype(np.float32)


def _gradient(
    peer: str, shape: Shape, which: str, arrays: list[np.ndarray], size: tuple[int, ...]
) -> Case:
    torch = torch_module()
    stride, padding = shape.stride, shape.padding
    ours_op = ops.conv2d_grad_input if which == "dX" else ops.conv2d_grad_weight
    gradient = torch.nn.grad.conv2d_input if which == "dX" else torch.nn.grad.conv2d_weight

    def theirs(first, second):  # type: ignore[no-untyped-def]
        if which == "dX":
            return gradient(size, second, first, stride, padding)
        return gradient(first, size, second, stride, padding)

    run_ours, run_theirs = pair(
        lambda a, b: ours_op(a, b, size, stride=stride, padding=padding),
        compiled(peer, theirs),
        arrays,
    )
    return _case(f"{shape.name} {which}", run_ours, run_theirs, shape.flops)


def _case(name: str, ours, theirs, flops: float) -> Case:  # type: ignore[no-untyped-def]
    return Case(name, ours, theirs, lambda: (outputs(ours()), outputs(theirs())), flops=flops)
