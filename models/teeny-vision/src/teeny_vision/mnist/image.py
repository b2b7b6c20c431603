"""Pictures of digits as a person has them, made into what a model trained on MNIST expects."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from teeny_core import DataError

from teeny_vision.mnist.data import SIDE

BOX = 20  # pixels: MNIST's digits are scaled to fit a square of this side
WHITE = 255.0
INK = 0.1  # share of the strongest ink below which a pixel is background
DEEP_WHITE = 65535.0  # of images with 16 bits a pixel
MAX_PIXELS = 100_000_000


def read_digit(path: Path | str) -> NDArray[np.float32]:
    """Read a picture of one digit as a 28 x 28 image with pixels of 0 (paper) to 255 (ink).

    A picture on a light ground is inverted. One that is not 28 x 28 already is treated as MNIST's
    were: the digit is cut out, scaled to fit a 20 x 20 square, and placed with its centre of mass
    in the middle.

    Raises:
        DataError: the file is no image, is damaged, is too large, or shows nothing.
    """
    ink = _grey(Path(path))
    if ink.max() == ink.min():
        raise DataError(f"{path} is blank", hint="give a picture that shows one digit")
    frame = np.concatenate((ink[0], ink[-1], ink[:, 0], ink[:, -1]))
    if np.median(frame) > WHITE / 2:
        ink = np.float32(WHITE) - ink
    return ink if ink.shape == (SIDE, SIDE) else _centred(ink)


def _grey(path: Path) -> NDArray[np.float32]:
    """Read an image as f32 grey levels of 0 to 255, transparent parts on white."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise DataError(
                        f"{path} has {image.width} x {image.height} pixels",
                        hint="scale it down first",
                    )
                return _levels(image)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file", hint="check the path") from error
    # Pillow reports damaged files by several types, SyntaxError and ValueError among them
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"{path} is no image that can be read: {_reason(error, path)}",
            hint="give a PNG, JPEG, BMP, GIF or TIFF file",
        ) from error


def _levels(image: Image.Image) -> NDArray[np.float32]:
    if image.mode == "F" or image.mode.startswith("I"):
        deep = np.asarray(image, np.float32)
        return deep * np.float32(WHITE / DEEP_WHITE)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("L"), np.float32)


def _reason(error: Exception, path: Path) -> str:
    """Return Pillow's words without the path, which its messages repeat."""
    return "unknown format" if str(path) in str(error) else str(error)


def _centred(ink: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cut out the digit, scale it to `BOX` and put its centre of mass in the middle."""
    peak = float(ink.max())
    rows, columns = np.nonzero(ink > INK * peak)
    digit = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    scale = BOX / max(digit.shape)
    height, width = (max(1, round(extent * scale)) for extent in digit.shape)
    scaled = Image.fromarray(digit).resize((width, height), Image.Resampling.BILINEAR)
    small = np.asarray(scaled, np.float32) * np.float32(WHITE / peak)
    top = _offset(small.sum(1), SIDE)
    left = _offset(small.sum(0), SIDE)
    framed = np.zeros((SIDE, SIDE), np.float32)
    framed[top : top + height, left : left + width] = small
    return np.clip(framed, 0, WHITE)


def _offset(mass: NDArray[np.float32], side: int) -> int:
    """Return where `mass` begins when its centre comes to pixel `side / 2`, as MNIST's do."""
    centre = float(np.average(np.arange(len(mass)), weights=mass))
    return int(np.clip(round(side / 2 - centre), 0, side - len(mass)))
