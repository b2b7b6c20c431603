"""Normalising layers. Weights start as 1 and biases as 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teeny_core import shape as shapes
from teeny_core.dtype import DTypeLike, f32, i64
from teeny_core.errors import ShapeError
from teeny_core.nn import functional
from teeny_core.nn.functional.normalisation import batch_statistics, shifted
from teeny_core.nn.layer import Layer
from teeny_core.nn.parameter import Buffer, Parameter
from teeny_core.tensor import AnyTensor


class LayerNorm(Layer[[AnyTensor], AnyTensor]):
    """Standardise over the last axes, of extents `shape`, then scale and shift."""

    def __init__(
        self,
        shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self.weight = Parameter(np.ones(self.shape), dtype) if elementwise_affine else None
        self.bias = Parameter(np.zeros(self.shape), dtype) if elementwise_affine and bias else None

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return `x` normalised."""
        return functional.layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    def describe(self) -> str:
        """Return shape and eps."""
        return f"{_extents(self.shape)}, eps={self.eps}"


class RmsNorm(Layer[[AnyTensor], AnyTensor]):
    """Divide by the root mean square over the last axes, of extents `shape`, then scale.

    `eps` is the spacing of floats at 1 unless given.
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        self.weight = Parameter(np.ones(self.shape), dtype) if elementwise_affine else None

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return `x` normalised."""
        return functional.rms_norm(x, self.shape, self.weight, self.eps)

    def describe(self) -> str:
        """Return shape and eps."""
        eps = "" if self.eps is None else f", eps={self.eps}"
        return f"{_extents(self.shape)}{eps}"


class GroupNorm(Layer[[AnyTensor], AnyTensor]):
    """Standardise over groups of channels (N, C, ...), then scale and shift each channel."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                f"num_groups = {num_groups} does not divide num_channels = {num_channels}",
                hint="choose a number of groups that divides the number of channels",
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter(np.ones(num_channels), dtype) if affine else None
        self.bias = Parameter(np.zeros(num_channels), dtype) if affine else None

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return `x` normalised."""
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def describe(self) -> str:
        """Return groups, channels and eps."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class BatchNorm2d(Layer[[AnyTensor], AnyTensor]):
    """Standardise each channel of images (N, C, H, W), then scale and shift it.

    In training, by mean and biased variance of the batch, which also move the running statistics:
    `running = (1 - momentum)·running + momentum·batch`, with the unbiased variance of the batch. In
    inference, by the running statistics. With `momentum=None` those are the averages of all
    batches so far.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DTypeLike = f32,
    ) -> None:
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.weight = Parameter(np.ones(num_features), dtype) if affine else None
        self.bias = Parameter(np.zeros(num_features), dtype) if affine else None
        tracked = track_running_stats
        self.running_mean = Buffer(np.zeros(num_features), f32) if tracked else None
        self.running_var = Buffer(np.ones(num_features), f32) if tracked else None
        self.num_batches_tracked = Buffer(0, i64) if tracked else None

    def call(self, x: AnyTensor) -> AnyTensor:
        """Return `x` (N, C, H, W) normalised; in training, move the running statistics.

        Raises:
            ShapeError: `x` has other axes, or another number of channels.
        """
        if x.ndim != 4 or not shapes.equal(x.shape[1], self.num_features):
            raise ShapeError(
                f"BatchNorm2d of {x.type} with num_features = {self.num_features}",
                hint="images are (N, num_features, H, W)",
            )
        mean, variance = self.running_mean, self.running_var
        affine = self.weight, self.bias, self.eps
        if not self.in_training and mean is not None and variance is not None:
            return functional.batch_norm(x, mean, variance, *affine)
        shift, offset, spread = batch_statistics(x)
        if self.in_training:
            count = shapes.numel((x.shape[0], *x.shape[2:]))
            self._track(shift + offset, spread * count / (count - 1))
        near = shifted(x, shift)
        return functional.batch_norm(near, offset, spread, *affine).cast(x.dtype)

    def _track(self, mean: AnyTensor, unbiased: AnyTensor) -> None:
        """Move the running statistics towards those of a batch."""
        count = self.num_batches_tracked
        if count is None:
            return
        share = 1 / (count + 1).cast(f32) if self.momentum is None else self.momentum
        for running, batch in ((self.running_mean, mean), (self.running_var, unbiased)):
            if running is not None:
                moved = running * (1 - share) + batch * share
                running.assign(moved.cast(running.dtype))
        count.assign(count + 1)

    def describe(self) -> str:
        """Return channels, eps and momentum."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


def _extents(shape: tuple[int, ...]) -> str:
    return str(shape[0]) if len(shape) == 1 else str(shape)
