"""Random rotations and shifts of images."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from teeny_core import DataError


@dataclass(frozen=True)
class Augment:
    """Rotate each image about its centre, then shift it, by amounts drawn uniformly.

    Attributes:
        rotation: the largest angle, in degrees, either way.
        shift: the largest distance along each axis, in pixels, either way.

    Raises:
        DataError: a limit is negative or not finite.
    """

    rotation: float = 10.0
    shift: float = 2.0

    def __post_init__(self) -> None:
        for name, limit in (("rotation", self.rotation), ("shift", self.shift)):
            if not (math.isfinite(limit) and limit >= 0):
                raise DataError(
                    f"augmentation by a {name} of up to {limit}", hint="give a finite limit >= 0"
                )

    def __call__(
        self, images: NDArray[np.uint8], random: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return images (N, H, W), moved by what `random` draws, in the same units."""
        count = len(images)
        angles = np.radians(random.uniform(-self.rotation, self.rotation, count))
        shifts = random.uniform(-self.shift, self.shift, (2, count))
        return sample(images, *_sources(images.shape[1:], angles, shifts))


def sample(
    images: NDArray[np.uint8], rows: NDArray[np.float32], columns: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Read images (N, H, W) at fractional `rows` and `columns`, each (N, ...), bilinearly.

    The images are 0 outside; (0, 0) is the centre of the first pixel.
    """
    count, height, width = images.shape
    framed = np.zeros((count, height + 2, width + 2), np.float32)
    framed[:, 1:-1, 1:-1] = images
    top, down = _split(rows, height)
    left, right = _split(columns, width)

    stride = width + 2
    first = np.arange(count).reshape(count, *[1] * (rows.ndim - 1)) * (height + 2) * stride
    corner = first + top * stride + left
    pixels = framed.ravel()
    upper = pixels[corner] * (1 - right) + pixels[corner + 1] * right
    lower = pixels[corner + stride] * (1 - right) + pixels[corner + stride + 1] * right
    sampled: NDArray[np.float32] = upper * (1 - down) + lower * down
    return sampled


def _split(
    position: NDArray[np.float32], extent: int
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the pixel before each position, counted in the framed image, and the way past it."""
    framed = np.clip(position + 1, 0, extent + 1)
    before = np.minimum(framed.astype(np.intp), extent)
    return before, framed - before.astype(np.float32)


def _sources(
    size: tuple[int, ...], angles: NDArray[np.float64], shifts: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return for each pixel of each moved image the row and column that it comes from."""
    middle_row, middle_column = (np.float32((extent - 1) / 2) for extent in size)
    cosine = np.cos(angles).astype(np.float32).reshape(-1, 1, 1)
    sine = np.sin(angles).astype(np.float32).reshape(-1, 1, 1)
    down, right = shifts.astype(np.float32).reshape(2, -1, 1, 1)
    rows, columns = np.indices(size, np.float32, sparse=True)
    rows = rows - middle_row - down
    columns = columns - middle_column - right
    return (
        cosine * rows + sine * columns + middle_row,
        cosine * columns - sine * rows + middle_column,
    )
