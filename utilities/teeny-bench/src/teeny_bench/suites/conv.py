"""Convolutions as LeNet-5, ResNet-18 and MobileNetV2 use them, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import teeny_core as tn
from teeny_core import ops

from teeny_bench.case import Case, Sides
from teeny_bench.peers import compiled, torch_module
from teeny_bench.programs import normal, pair, peer_call, program_of, sides


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
    def input(self) -> tuple[int, ...]:
        """Shape of the images."""
        return (self.batch, self.channels, self.side, self.side)

    @property
    def weight(self) -> tuple[int, ...]:
        """Shape of the filters."""
        return (self.filters, self.channels // self.groups, self.kernel, self.kernel)

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (self.batch, self.filters, self.out_side, self.out_side)

    @property
    def sliding(self) -> Mapping[str, Any]:
        """How the kernel slides, in the form of the primitive operations."""
        return {
            "stride": (self.stride, self.stride),
            "padding": ((self.padding, self.padding), (self.padding, self.padding)),
            "dilation": (1, 1),
            "groups": self.groups,
        }

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
    Shape("mobilenet dw 96@112 s2", 1, 96, 112, 96, 3, stride=2, padding=1, groups=96),
    Shape("mobilenet dw 144@56", 1, 144, 56, 144, 3, padding=1, groups=144),
)
BACKWARD = (*FORWARD[:2], FORWARD[3], FORWARD[5])


def cases(peer: str) -> Iterator[Case]:
    """Yield forward passes with bias, then gradients of input and weight."""
    for shape in FORWARD:
        yield Case(shape.name, partial(_forward, peer, shape), flops=shape.flops)
    for shape in BACKWARD:
        for which, build in GRADIENTS.items():
            yield Case(f"{shape.name} {which}", partial(build, peer, shape), flops=shape.flops)


def _forward(peer: str, shape: Shape) -> Sides:
    """Weights never change, as in inference: neither side sees a new one in a call."""
    stride, padding, groups = shape.stride, shape.padding, shape.groups
    reference = torch_module().nn.functional.conv2d
    x, w, bias = normal(0, shape.input, shape.weight, (shape.filters,))
    held, shift = tn.Tensor(w), tn.Tensor(bias)

    def ours(x: Any) -> Any:
        return tn.conv2d(x, held, shift, stride=stride, padding=padding, groups=groups)

    def theirs(x: Any, w: Any, bias: Any) -> Any:
        return reference(x, w, bias, stride=stride, padding=padding, groups=groups)

    program = program_of(ours, [x], {"frozen": "on"})
    return sides(lambda: program(x), peer_call(compiled(peer, theirs), [x, w, bias]))


def _input_gradient(peer: str, shape: Shape) -> Sides:
    reference = torch_module().nn.grad.conv2d_input

    def ours(dy: Any, w: Any) -> Any:
        return tn.SymTensor(
            ops.conv2d_grad_input(dy.node, w.node, input_shape=shape.input, **shape.sliding)
        )

    def theirs(dy: Any, w: Any) -> Any:
        return reference(shape.input, w, dy, shape.stride, shape.padding)

    return pair(peer, ours, theirs, normal(0, shape.output, shape.weight))


def _weight_gradient(peer: str, shape: Shape) -> Sides:
    reference = torch_module().nn.grad.conv2d_weight

    def ours(x: Any, dy: Any) -> Any:
        return tn.SymTensor(
            ops.conv2d_grad_weight(x.node, dy.node, weight_shape=shape.weight, **shape.sliding)
        )

    def theirs(x: Any, dy: Any) -> Any:
        return reference(x, shape.weight, dy, shape.stride, shape.padding)

    return pair(peer, ours, theirs, normal(0, shape.input, shape.output))


GRADIENTS: Mapping[str, Callable[[str, Shape], Sides]] = {
    "dX": _input_gradient,
    "dW": _weight_gradient,
}
