"""MNIST as arrays: from the teeny-mnist package, or from a folder of idx files."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import teeny_mnist
from numpy.typing import NDArray
from teeny_core import DataError

from teeny_vision.mnist import idx

SIDE = 28
MEAN = np.float32(0.1307)  # of the training images, in units of a full byte
STD = np.float32(0.3081)


@dataclass(frozen=True, eq=False)
class Mnist:
    """Images, uint8 of shape (N, 28, 28), 0 for the background, and their labels, uint8 (N,).

    Raises:
        DataError: an array has another shape, or images and labels differ in number.
    """

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.uint8]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.uint8]

    def __post_init__(self) -> None:
        pairs = {"train": (self.x_train, self.y_train), "test": (self.x_test, self.y_test)}
        for name, (images, labels) in pairs.items():
            if images.shape[1:] != (SIDE, SIDE):
                raise DataError(
                    f"the {name} images have the shape {images.shape}, not (N, {SIDE}, {SIDE})",
                    hint=f"scale them to {SIDE} x {SIDE} pixels",
                )
            if labels.shape != images.shape[:1]:
                raise DataError(
                    f"{len(images)} {name} images come with labels of shape {labels.shape}",
                    hint="give one label for each image",
                )


def load(root: Path | str | None = None, *, verify: bool = True) -> Mnist:
    """Load MNIST, or a data set in its format.

    Args:
        root: a folder with the four idx files, plain or gzip, under their usual names
            (`train-images-idx3-ubyte`, `train-images.idx3-ubyte`, each with or without `.gz`);
            by default the data that ships in teeny-mnist.
        verify: compare each file with the published data; False admits other data.

    Returns:
        Read-only arrays.

    Raises:
        DataError: a file is missing, unreadable, malformed, or not the published one.
    """
    folder = teeny_mnist.path() if root is None else Path(root)
    arrays = {name: _array(folder, file, verify) for name, file in teeny_mnist.FILES.items()}
    return Mnist(**arrays)


def normalise(images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn images (N, 28, 28) with pixels of 0 to 255 into f32 (N, 1, 28, 28).

    The training images get mean 0 and standard deviation 1: `(x / 255 - MEAN) / STD`.
    """
    scaled = np.divide(images, np.float32(255), dtype=np.float32)
    scaled -= MEAN
    scaled /= STD
    return scaled[:, np.newaxis]


def _array(folder: Path, file: teeny_mnist.IdxFile, verify: bool) -> NDArray[np.uint8]:
    path = _find(folder, file.name)
    data = idx.contents(path)
    array = idx.decode(data, len(file.shape), str(path))
    if verify and hashlib.sha256(data).hexdigest() != file.sha256:
        raise DataError(
            f"{path} is not the published {file.name}: its SHA-256 checksum is another",
            hint="fetch the file again, or pass verify=False to load a data set of your own",
        )
    return array


def _find(folder: Path, name: str) -> Path:
    names = [
        stem + suffix for stem in (name, name.replace("-idx", ".idx")) for suffix in ("", ".gz")
    ]
    for candidate in names:
        if (folder / candidate).is_file():
            return folder / candidate
    raise DataError(
        f"{folder} holds none of {', '.join(names)}",
        hint="name the folder of the four idx files, or name none for the shipped copy",
    )
