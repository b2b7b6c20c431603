"""Safetensors files: round trips, sharding, and every way in which a file can be wrong."""

from __future__ import annotations

import json
import os
import pickle
import resource
import struct
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from teeny_core import state
from teeny_core.errors import DTypeError, LoadError

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
]  # fmt: skip


def entry(start: int, stop: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def write(
    path: Path, header: dict[str, Any] | bytes, data: bytes, length: int | None = None
) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_round_trip_of_every_dtype(tmp_path: Path, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    tensors = {
        "matrix": rng.integers(0, 2, (3, 5)).astype(dtype),
        "scalar": np.array(1).astype(dtype),
        "empty": np.zeros((0, 4), dtype),
        "strided": rng.integers(0, 2, (4, 6)).astype(dtype)[::2, ::3].T,
    }
    path = tmp_path / "x.safetensors"
    state.save(path, tensors, metadata={"model": "x"})
    loaded = state.load(path)
    assert loaded.keys() == tensors.keys()
    for name, array in tensors.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()
    assert state.metadata(path) == {"model": "x"}
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(max_dims=4, max_side=5, min_side=0),
        elements=st.floats(width=32),
    ),
    st.text(min_size=1, max_size=20).filter(lambda name: name != "__metadata__"),
)
def test_bits_survive(tmp_path_factory: pytest.TempPathFactory, array: Any, name: str) -> None:
    path = tmp_path_factory.mktemp("bits") / "x.safetensors"
    state.save(path, {name: array})
    assert state.load(path)[name].tobytes() == array.tobytes()


def test_big_endian_arrays_are_swapped(tmp_path: Path) -> None:
    array = np.arange(4, dtype=">f4")
    state.save(tmp_path / "x.safetensors", {"x": array})
    np.testing.assert_array_equal(state.load(tmp_path / "x.safetensors")["x"], array)


def test_files_exchange_with_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("safetensors.torch")
    theirs = {"w": torch.randn(3, 2), "h": torch.randn(4).bfloat16(), "n": torch.tensor(7)}
    peer.save_file(theirs, tmp_path / "theirs.safetensors")
    ours = state.load(tmp_path / "theirs.safetensors")
    np.testing.assert_array_equal(ours["w"], theirs["w"].numpy())
    np.testing.assert_array_equal(ours["h"].astype(np.float32), theirs["h"].float().numpy())
    assert ours["n"] == 7
    state.save(tmp_path / "ours.safetensors", ours)
    back = peer.load_file(tmp_path / "ours.safetensors")
    assert all(torch.equal(back[name], theirs[name]) for name in theirs)


def test_some_names_only(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    state.save(path, {"a": np.zeros(1), "b": np.ones(2), "c": np.ones(3)})
    assert list(state.load(path, names={"b"})) == ["b"]
    with pytest.raises(LoadError, match=r"no tensor named d\nhint: it holds a, b, c"):
        state.load(path, names={"a", "d"})


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    state.save(tmp_path / "one.safetensors", {"a": np.zeros(2), "b": np.ones(3)})
    state.save(tmp_path / "two.safetensors", {"c": np.arange(4)})
    index = {
        "metadata": {"total_size": 72},
        "weight_map": {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"},
    }
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path


def test_sharded_checkpoint(sharded: Path) -> None:
    for path in (sharded, sharded.parent):
        tensors = state.load(path)
        assert sorted(tensors) == ["a", "b", "c"]
        np.testing.assert_array_equal(tensors["c"], np.arange(4))
    assert list(state.load(sharded, names=["c"])) == ["c"]


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("three.safetensors", "three.safetensors: cannot read"),
        ("../one.safetensors", "not a file of the same folder"),
        ("/etc/passwd", "not a file of the same folder"),
        ("two.safetensors", "two.safetensors: no tensor named d"),
        (3, "not a file of the same folder"),
    ],
)
def test_bad_shard(sharded: Path, shard: Any, message: str) -> None:
    index = json.loads(sharded.read_text())
    index["weight_map"]["d"] = shard
    sharded.write_text(json.dumps(index))
    with pytest.raises(LoadError, match=message):
        state.load(sharded)


def test_folder_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="holds neither"):
        state.load(tmp_path)


MALFORMED = {
    "duplicate": (
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
        b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        b"\0" * 4,
        None,
        "the name 'a' stands twice",
    ),
    "duplicate key of an entry": (
        b'{"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}}',
        b"\0" * 4,
        None,
        "the name 'dtype' stands twice",
    ),
    "gap": ({"a": entry(0, 4, [1]), "b": entry(8, 12, [1])}, b"\0" * 12, None, "offset"),
    "overlap": ({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, b"\0" * 12, None, "offset"),
    "same bytes": ({"a": entry(0, 4, [1]), "b": entry(0, 4, [1])}, b"\0" * 4, None, "offset"),
    "reversed": ({"a": entry(4, 0, [1])}, b"\0" * 4, None, "invalid"),
    "shape too large": ({"a": entry(0, 4, [2])}, b"\0" * 4, None, "shape"),
    "shape overflows": ({"a": entry(0, 4, [2**40, 2**40])}, b"\0" * 4, None, "overflow"),
    "negative extent": ({"a": entry(0, 4, [-1])}, b"\0" * 4, None, "-1"),
    "data truncated": ({"a": entry(0, 8, [2])}, b"\0" * 7, None, "not fully covered"),
    "data too long": ({"a": entry(0, 4, [1])}, b"\0" * 9, None, "not fully covered"),
    "header of 2**63 bytes": ({"a": entry(0, 4, [1])}, b"\0" * 4, 2**63, "claims 92233720"),
    "header beyond the file": ({"a": entry(0, 4, [1])}, b"\0" * 4, 4096, "claims 4096"),
    "unknown dtype": ({"a": entry(0, 4, [1], "Q32")}, b"\0" * 4, None, "Q32"),
    "list": (b"[1, 2]", b"", None, "not a JSON object"),
    "entry is a number": (b'{"a": 3}', b"", None, "valid"),
    "not text": (b"\xff\xfe{}", b"", None, "not JSON"),
    "deep": (b"[" * 100_000, b"", None, "not JSON"),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, b"", None, "expected a string"),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_files(tmp_path: Path, case: str) -> None:
    header, data, length, message = MALFORMED[case]
    path = write(tmp_path / "x.safetensors", header, data, length)
    with pytest.raises(LoadError, match=message) as caught:
        state.load(path)
    assert "x.safetensors" in str(caught.value)
    assert "\nhint: " in str(caught.value)


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 20, 100, -1])
def test_truncated_file(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "x.safetensors"
    state.save(path, {"weight": np.ones((8, 8), np.float32)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(LoadError, match="not a valid safetensors checkpoint"):
        state.load(path)


def test_a_lying_header_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 90_000_000_000))
        file.truncate(100_000_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LoadError, match="claims 90000000000"):
        state.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_raw_pickles_are_refused(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "model.pth"
    path.write_bytes(pickle.dumps({"weight": Bomb(), "pad": "x" * 100}, protocol))
    with pytest.raises(LoadError, match=r"pickle(.|\n)*hint: (.|\n)*safetensors"):
        state.load(path)


def test_zipped_pickles_are_refused_under_any_name(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()))
    with pytest.raises(LoadError, match="pickle"):
        state.load(path)


def test_torch_files_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for name, new in (("zip.pt", True), ("legacy.pth", False)):
        torch.save({"w": torch.ones(3)}, tmp_path / name, _use_new_zipfile_serialization=new)
        with pytest.raises(LoadError, match="safetensors"):
            state.load(tmp_path / name)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot read the file"):
        state.load(tmp_path / "nothing.safetensors")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    state.save(path, {"a": np.zeros(3)})
    before = path.read_bytes()

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        state.save(path, {"a": np.ones(3)})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.safetensors"]


def test_what_the_disk_refuses_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # a write beyond fails, as if full
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            state.save(path, {"a": np.zeros(1000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())


def test_unknown_dtypes_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match="complex64"):
        state.save(tmp_path / "x.safetensors", {"z": np.zeros(2, np.complex64)})


def test_a_saved_file_may_be_read_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    state.save(tmp_path / "saved.safetensors", {"a": np.zeros(1)})
    assert (tmp_path / "saved.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_saving_removes_what_a_process_that_died_left(tmp_path: Path) -> None:
    old, new, other = (
        tmp_path / name
        for name in (".model.st.00000000.tmp", ".model.st.11111111.tmp", ".other.st.22222222.tmp")
    )
    for path in (old, new, other):
        path.write_bytes(b"part")
    for path in (old, other):
        os.utime(path, (0, 0))
    state.save(tmp_path / "model.st", {"w": np.zeros(3, np.float32)})
    assert {path.name for path in tmp_path.iterdir()} == {"model.st", new.name, other.name}
