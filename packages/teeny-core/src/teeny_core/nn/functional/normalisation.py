"""Normalisations: by layer, root mean square, batch and group.

The variance is taken in two passes, of f32 for narrower floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teeny_core import shape as shapes
from teeny_core.errors import ShapeError
from teeny_core.shape import Dim
from teeny_core.tensor import AnyTensor


def layer_norm(
    x: AnyTensor,
    shape: Sequence[Dim],
    weight: AnyTensor | None = None,
    bias: AnyTensor | None = None,
    eps: float = 1e-5,
) -> AnyTensor:
    """Return (x - mean)/sqrt(var + eps)·weight + bias over the last axes, of extents `shape`.

    Source: Ba, Kiros and Hinton, *Layer Normalization* (2016).

    Raises:
        ShapeError: `shape` is not that of the last axes.
    """
    axes = _last_axes(x, shape, "layer_norm")
    return _affine(_standardised(_wide(x), axes, eps), weight, bias).cast(x.dtype)


def rms_norm(
    x: AnyTensor,
    shape: Sequence[Dim],
    weight: AnyTensor | None = None,
    eps: float | None = None,
) -> AnyTensor:
    """Return x/sqrt(mean(x²) + eps)·weight over the last axes, of extents `shape`.

    `eps` is the spacing of floats at 1 in the type of `x` unless given.

    Source: Zhang and Sennrich, *Root Mean Square Layer Normalization* (2019).

    Raises:
        ShapeError: `shape` is not that of the last axes.
    """
    axes = _last_axes(x, shape, "rms_norm")
    wide = _wide(x)
    floor = _spacing(x) if eps is None else eps
    scaled = wide * (wide.square().mean(axes, keepdims=True) + floor).rsqrt()
    return _affine(scaled, weight, None).cast(x.dtype)


def group_norm(
    x: AnyTensor,
    groups: int,
    weight: AnyTensor | None = None,
    bias: AnyTensor | None = None,
    eps: float = 1e-5,
) -> AnyTensor:
    """Return `x` (N, C, ...) standardised over each of `groups` groups of channels.

    `weight` and `bias` are (C,).

    Source: Wu and He, *Group Normalization* (2018).

    Raises:
        ShapeError: the number of channels is no multiple of `groups`.
    """
    if x.ndim < 2 or groups < 1 or not shapes.divides(groups, x.shape[1]):
        raise ShapeError(
            f"group_norm of {x.type} in {groups} groups",
            hint="the second axis, of channels, is a multiple of groups",
        )
    grouped = _wide(x).unflatten(1, (groups, x.shape[1] // groups))
    scaled = _standardised(grouped, tuple(range(2, grouped.ndim)), eps).reshape(x.shape)
    return _affine_by_channel(scaled, weight, bias).cast(x.dtype)


def batch_norm(
    x: AnyTensor,
    mean: AnyTensor,
    variance: AnyTensor,
    weight: AnyTensor | None = None,
    bias: AnyTensor | None = None,
    eps: float = 1e-5,
) -> AnyTensor:
    """Return `x` (N, C, ...) standardised by `mean` and `variance` (C,), scaled and shifted.

    Source: Ioffe and Szegedy, *Batch Normalization* (2015).
    """
    scaled = shifted(x, mean) * _by_channel((variance + eps).rsqrt(), x)
    return _affine_by_channel(scaled, weight, bias).cast(x.dtype)


def batch_statistics(x: AnyTensor) -> tuple[AnyTensor, AnyTensor, AnyTensor]:
    """Return shift, mean and biased variance (C,) of each channel of `x` (N, C, ...).

    The mean is that of `x - shift`, where the shift, without a gradient, is the mean of `x` as well
    as it can be rounded: f32 would lose the deviations of data far from zero.

    Source: Chan, Golub and LeVeque, *Algorithms for computing the sample variance* (1983),
    the corrected two-pass algorithm.
    """
    axes = (0, *range(2, x.ndim))
    shift = _wide(x).mean(axes).stop_gradient()
    near = shifted(x, shift)
    mean = near.mean(axes)
    variance = (near.square().mean(axes) - mean.square()).maximum(0.0)
    return shift, mean, variance


def shifted(x: AnyTensor, shift: AnyTensor) -> AnyTensor:
    """Return `x` (N, C, ...) less `shift` (C,) of its channel, in f32 or wider."""
    return _wide(x) - _by_channel(shift, x)


def _standardised(x: AnyTensor, axes: tuple[int, ...], eps: float) -> AnyTensor:
    centred = x - x.mean(axes, keepdims=True)
    variance = centred.square().mean(axes, keepdims=True)
    return centred * (variance + eps).rsqrt()


def _affine(x: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None) -> AnyTensor:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def _by_channel(value: AnyTensor, x: AnyTensor) -> AnyTensor:
    """Shape a vector of channels so that it meets axis 1 of `x`."""
    return value.reshape(-1, *[1] * (x.ndim - 2))


def _affine_by_channel(
    scaled: AnyTensor, weight: AnyTensor | None, bias: AnyTensor | None
) -> AnyTensor:
    shaped = (None if value is None else _by_channel(value, scaled) for value in (weight, bias))
    return _affine(scaled, *shaped)


def _spacing(x: AnyTensor) -> float:
    """Return the distance from 1 to the next float of the type of `x`."""
    import ml_dtypes

    info: Any = ml_dtypes.finfo
    return float(info(x.dtype.numpy).eps)


def _last_axes(x: AnyTensor, shape: Sequence[Dim], name: str) -> tuple[int, ...]:
    count = len(shape)
    if not 0 < count <= x.ndim or not shapes.same(x.shape[x.ndim - count :], tuple(shape)):
        raise ShapeError(
            f"{name}: the last axes of {x.type} are not {shapes.text(shape)}",
            hint="give the extents of the axes to normalise over",
        )
    return tuple(range(x.ndim - count, x.ndim))


def _wide(x: AnyTensor) -> AnyTensor:
    return x.cast(x.dtype.accumulator)
