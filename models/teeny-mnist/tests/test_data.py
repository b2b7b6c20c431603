import gzip
import hashlib
import struct

import pytest
import teeny_mnist

# Digits 0 to 9 in each set, as the literature gives them.
COUNTS = {
    "y_train": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "y_test": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
}


def contents(name: str) -> bytes:
    return gzip.decompress((teeny_mnist.path() / f"{teeny_mnist.FILES[name].name}.gz").read_bytes())


@pytest.mark.parametrize("name", teeny_mnist.FILES)
def test_contents_are_canonical(name: str) -> None:
    file = teeny_mnist.FILES[name]
    data = contents(name)
    rank = len(file.shape)
    assert struct.unpack_from(f">I{rank}I", data) == (0x0800 + rank, *file.shape)
    assert hashlib.sha256(data).hexdigest() == file.sha256


@pytest.mark.parametrize("name", COUNTS)
def test_labels_count_as_published(name: str) -> None:
    labels = contents(name)[8:]
    assert [labels.count(digit) for digit in range(10)] == COUNTS[name]


def test_folder_holds_the_four_files_within_the_size_limit() -> None:
    found = {file.name: file.stat().st_size for file in teeny_mnist.path().iterdir()}
    assert found.keys() == {f"{file.name}.gz" for file in teeny_mnist.FILES.values()}
    assert sum(found.values()) < 12_000_000
