"""Convolution and pooling of images (N, C, H, W)."""

from __future__ import annotations

from collections.abc import Mapping

from teeny_core.dtype import DTypeLike, f32
from teeny_core.errors import ShapeError
from teeny_core.nn import functional, init
from teeny_core.nn.layer import Layer
from teeny_core.nn.parameter import Parameter
from teeny_core.tensor import AnyTensor
from teeny_core.tensor.windows import Padding, Pair, pads, pair


class Conv2d(Layer[[AnyTensor], AnyTensor]):
    """Cross-correlation: (N, in_channels, H, W) → (N, out_channels, H', W').

    Weight (out_channels, in_channels/groups, kh, kw) and bias start uniform within 1/sqrt(fan-in).

    Raises:
        ShapeError: naming the argument that is senseless.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        self.in_channels = _at_least(1, "in_channels", in_channels)
        self.out_channels = _at_least(1, "out_channels", out_channels)
        self.kernel_size = _pair_from(1, "kernel_size", kernel_size)
        self.stride = _pair_from(1, "stride", stride)
        self.padding = _padding(padding, self.stride)
        self.dilation = _pair_from(1, "dilation", dilation)
        self.groups = _groups(groups, in_channels, out_channels)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(init.fan_in_uniform(shape), dtype)
        fan_in = init.fans(shape)[0]
        self.bias = Parameter(init.fan_in_uniform((out_channels,), fan_in), dtype) if bias else None

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the filtered images."""
        return x.conv2d(
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def describe(self) -> str:
        """Return the arguments that are not the usual ones."""
        usual = {"stride": (1, 1), "padding": 0, "dilation": (1, 1), "groups": 1}
        return _conv_text(self, usual)


class ConvTranspose2d(Layer[[AnyTensor], AnyTensor]):
    """Images spread by filters, which a stride enlarges: the gradient of `Conv2d` as a layer.

    (N, in_channels, H, W) → (N, out_channels, H', W'); see `Tensor.conv_transpose2d`. Weight
    (in_channels, out_channels/groups, kh, kw) and bias start as PyTorch's, uniform within
    1/sqrt(fan), where fan is the size of one filter of the weight.

    Raises:
        ShapeError: naming the argument that is senseless.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Pair = 1,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        self.in_channels = _at_least(1, "in_channels", in_channels)
        self.out_channels = _at_least(1, "out_channels", out_channels)
        self.kernel_size = _pair_from(1, "kernel_size", kernel_size)
        self.stride = _pair_from(1, "stride", stride)
        self.padding = _pair_from(0, "padding", padding)
        self.output_padding = _pair_from(0, "output_padding", output_padding)
        self.dilation = _pair_from(1, "dilation", dilation)
        self.groups = _groups(groups, in_channels, out_channels)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.weight = Parameter(init.fan_in_uniform(shape), dtype)
        fan_in = init.fans(shape)[0]
        self.bias = Parameter(init.fan_in_uniform((out_channels,), fan_in), dtype) if bias else None

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the spread images."""
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def describe(self) -> str:
        """Return the arguments that are not the usual ones."""
        usual = {"stride": (1, 1), "padding": (0, 0), "output_padding": (0, 0)}
        return _conv_text(self, {**usual, "dilation": (1, 1), "groups": 1})


class MaxPool2d(Layer[[AnyTensor], AnyTensor]):
    """The largest value of each window; the windows touch unless `stride` is given."""

    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Padding = 0) -> None:
        self.kernel_size = _pair_from(1, "kernel_size", kernel_size)
        self.stride = self.kernel_size if stride is None else _pair_from(1, "stride", stride)
        self.padding = _pool_padding(padding, self.kernel_size)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the maxima."""
        return x.max_pool2d(self.kernel_size, self.stride, self.padding)

    def describe(self) -> str:
        """Return window, stride and padding."""
        return _pool_text(self.kernel_size, self.stride, self.padding)


class AvgPool2d(Layer[[AnyTensor], AnyTensor]):
    """The mean of each window; the windows touch unless `stride` is given."""

    def __init__(
        self,
        kernel_size: Pair,
        stride: Pair | None = None,
        padding: Padding = 0,
        *,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size = _pair_from(1, "kernel_size", kernel_size)
        self.stride = self.kernel_size if stride is None else _pair_from(1, "stride", stride)
        self.padding = _pool_padding(padding, self.kernel_size)
        self.count_include_pad = count_include_pad

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the means."""
        return x.avg_pool2d(
            self.kernel_size,
            self.stride,
            self.padding,
            count_include_pad=self.count_include_pad,
        )

    def describe(self) -> str:
        """Return window, stride and padding."""
        return _pool_text(self.kernel_size, self.stride, self.padding)


class AdaptiveAvgPool2d(Layer[[AnyTensor], AnyTensor]):
    """Means over a grid of equal windows: (N, C, H, W) → (N, C, *output_size)."""

    def __init__(self, output_size: Pair) -> None:
        self.output_size = _pair_from(1, "output_size", output_size)

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return the means."""
        return functional.adaptive_avg_pool2d(x, self.output_size)

    def describe(self) -> str:
        """Return the extents of the grid."""
        return _short(self.output_size)


def _at_least(least: int, name: str, value: int) -> int:
    if value < least:
        raise ShapeError(f"{name} = {value}", hint=f"give {name} >= {least}")
    return value


def _pair_from(least: int, name: str, value: Pair) -> tuple[int, int]:
    vertical, horizontal = pair(value, name)
    return _at_least(least, name, vertical), _at_least(least, name, horizontal)


def _groups(groups: int, in_channels: int, out_channels: int) -> int:
    _at_least(1, "groups", groups)
    for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % groups:
            raise ShapeError(
                f"groups = {groups} does not divide {name} = {channels}",
                hint="choose a number of groups that divides both numbers of channels",
            )
    return groups


def _padding(padding: Padding, stride: tuple[int, int]) -> Padding:
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ShapeError(f"padding = {padding!r}", hint="use 'same', 'valid' or numbers")
        if padding == "same" and stride != (1, 1):
            raise ShapeError(f"padding = 'same' with stride = {stride}", hint="it needs stride 1")
        return padding
    for sides in pads(padding):
        for side in sides:
            _at_least(0, "padding", side)
    return padding


def _pool_padding(padding: Padding, kernel: tuple[int, int]) -> Padding:
    for sides, extent in zip(pads(padding), kernel, strict=True):
        for side in sides:
            _at_least(0, "padding", side)
            if side > extent // 2:
                raise ShapeError(
                    f"padding = {padding} with kernel_size = {kernel}",
                    hint="pad by at most half of the window",
                )
    return padding


def _pool_text(kernel: tuple[int, int], stride: tuple[int, int], padding: Padding) -> str:
    steps = f", stride={_short(stride)}" if stride != kernel else ""
    sides = f", padding={padding}" if padding != 0 else ""
    return f"{_short(kernel)}{steps}{sides}"


def _conv_text(layer: Conv2d | ConvTranspose2d, usual: Mapping[str, object]) -> str:
    """Print channels and window of a layer, and its options where they differ from `usual`."""
    options = {name: getattr(layer, name) for name in usual}
    shown = [f"{name}={_short(value)}" for name, value in options.items() if value != usual[name]]
    if layer.bias is None:
        shown.append("bias=False")
    sizes = (layer.in_channels, layer.out_channels, _short(layer.kernel_size))
    return ", ".join([*map(str, sizes), *shown])


def _short(value: object) -> str:
    """Print two equal numbers as one."""
    if isinstance(value, tuple) and len(set(value)) == 1:
        return str(value[0])
    return str(value)
