"""The MNIST database of handwritten digits, as a data-only package.

Data by Yann LeCun, Corinna Cortes and Christopher J.C. Burges, under CC BY-SA 3.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

__all__ = ["FILES", "IdxFile", "path"]


@dataclass(frozen=True)
class IdxFile:
    """One canonical file: its name without `.gz`, the array's shape (uint8) and the SHA-256.

    The checksum is of the uncompressed bytes, the header included.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str


FILES: Mapping[str, IdxFile] = MappingProxyType(
    {
        "x_train": IdxFile(
            "train-images-idx3-ubyte",
            (60_000, 28, 28),
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        "y_train": IdxFile(
            "train-labels-idx1-ubyte",
            (60_000,),
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        "x_test": IdxFile(
            "t10k-images-idx3-ubyte",
            (10_000, 28, 28),
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        "y_test": IdxFile(
            "t10k-labels-idx1-ubyte",
            (10_000,),
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    }
)


def path() -> Path:
    """Return the folder that holds the four files, each as `NAME.gz`."""
    return Path(str(files(__name__) / "data"))
