"""Conversions between element types by the numerics policy.

Floats round to nearest, ties to even, once. Floats go to integers towards zero and saturate, NaN
gives 0. Integers wrap. Anything goes to bool as "is not zero".
"""

from __future__ import annotations

import numpy as np

from teeny_core.dtype import DType, dtype
from teeny_core.op import Array


@np.errstate(all="ignore")
def convert(array: Array, target: DType) -> Array:
    """Return `array` in the type `target`."""
    source = dtype(array.dtype)
    if source == target:
        return array
    if target.is_bool:
        return np.asarray(widened(array) != 0)
    if source.is_float:
        return _float_to_float(array, target) if target.is_float else _float_to_int(array, target)
    if target.is_float and target.bits < 32:
        return array.astype(np.float32).astype(target.numpy)
    return array.astype(target.numpy)


def widened(array: Array) -> Array:
    """Return floats narrower than f32 as f32, anything else as it is. Exact."""
    return array.astype(dtype(array.dtype).accumulator.numpy, copy=False)


def _float_to_float(array: Array, target: DType) -> Array:
    if array.dtype == np.float64 and target.bits < 32:
        return _round_to_odd(array).astype(target.numpy)
    return widened(array).astype(target.numpy)


def _round_to_odd(array: Array) -> Array:
    """Round f64 to f32 so that a second rounding to a narrower type is as if done at once.

    Boldo, Melquiond: "Emulation of a FMA and correctly rounded sums: proved algorithms using
    rounding to odd", IEEE Transactions on Computers 57(4), 2008.
    """
    near = array.astype(np.float32)
    exact = (near.astype(np.float64) == array) | np.isnan(array)
    even = (near.view(np.uint32) & 1) == 0
    towards = np.where(array > near, np.float32(np.inf), np.float32(-np.inf))
    return np.where(even & ~exact, np.nextafter(near, towards), near)


def _float_to_int(array: Array, target: DType) -> Array:
    wide = widened(array)
    low, high = int(target.min), int(target.max)
    above = wide >= float(high + 1)
    below = wide <= float(low)
    inside = np.where(above | below | np.isnan(wide), 0, wide)
    whole = inside.astype(target.numpy)
    limits = np.array([low, high], target.numpy)
    return np.where(above, limits[1], np.where(below, limits[0], whole))
