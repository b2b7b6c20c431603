import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from teeny_core import DataError
from teeny_vision.mnist import idx

arrays = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6))


@given(arrays)
def test_decode_undoes_encode(array: NDArray[np.uint8]) -> None:
    decoded = idx.decode(idx.encode(array), array.ndim, "array")
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, array)


def test_encode_writes_the_published_layout() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    header = bytes.fromhex("00000803 00000001 00000002 00000003")
    assert idx.encode(array) == header + bytes(range(6))


@given(arrays, st.data())
def test_any_other_length_is_refused(array: NDArray[np.uint8], data: st.DataObject) -> None:
    whole = idx.encode(array)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(DataError, match=r"train is (truncated|.* too short)"):
        idx.decode(cut, array.ndim, "train")
    with pytest.raises(DataError, match="train is 1 bytes too long"):
        idx.decode(whole + b"\0", array.ndim, "train")


@pytest.mark.parametrize("magic", [0x00000801, 0x00000D03, 0x03080000, 0x89504E47])
def test_another_magic_number_is_refused(magic: int) -> None:
    data = struct.pack(">4I", magic, 1, 1, 1) + b"\0"
    with pytest.raises(DataError, match="instead of 00000803\nhint: "):
        idx.decode(data, 3, "train")


def test_a_huge_extent_in_the_header_allocates_nothing() -> None:
    data = struct.pack(">4I", 0x803, *[0xFFFFFFFF] * 3)
    with pytest.raises(DataError, match="too short"):
        idx.decode(data, 3, "train")


def test_contents_decompresses_what_is_gzip(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for stored in (b"plain", gzip.compress(b"plain")):
        path.write_bytes(stored)
        assert idx.contents(path) == b"plain"


@pytest.mark.parametrize("cut", [3, 15, -4])
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(bytes(range(256)))[:cut])
    with pytest.raises(DataError, match=r"file\.gz is a damaged gzip file"):
        idx.contents(path)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        idx.contents(tmp_path)
