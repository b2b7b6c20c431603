import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_cli.cache import size
from teeny_compiler.internal import default_cache
from teeny_triton import choices

Teeny = Callable[..., Any]


@pytest.fixture
def filled(teeny: Teeny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache with two entries."""
    monkeypatch.setenv("TEENY_CACHE_DIR", str(tmp_path / "cache"))
    for key in ("aa" * 20, "bb" * 20):
        default_cache().put(key, bytes(1000))


@pytest.mark.usefixtures("filled")
def test_info_counts_the_entries(teeny: Teeny, tmp_path: Path) -> None:
    result = teeny("cache", "info")
    assert (result.code, result.err) == (0, "")
    folder, entries, held = result.out.splitlines()
    assert folder == f"folder   {tmp_path / 'cache'}"
    assert entries == "entries  2"
    assert re.fullmatch(r"size     2\.0 KiB of at most 2\.0 GiB", held)


@pytest.mark.usefixtures("filled")
def test_info_as_json(teeny: Teeny, tmp_path: Path) -> None:
    parsed = json.loads(teeny("cache", "info", "--json").out)
    assert parsed["folder"] == str(tmp_path / "cache")
    assert (parsed["entries"], parsed["limit"]) == (2, 2 << 30)
    assert 2000 <= parsed["bytes"] < 2200


@pytest.mark.usefixtures("filled")
def test_clear_removes_them(teeny: Teeny) -> None:
    assert teeny("cache", "clear").out == "removed 2 entries\n"
    assert teeny("cache", "clear").out == "removed 0 entries\n"
    assert "entries  0" in teeny("cache", "info").out


@pytest.mark.usefixtures("filled")
def test_clear_forgets_what_tuning_chose(teeny: Teeny, tmp_path: Path) -> None:
    choices.write(tmp_path / "cache", "ab" * 20, {"best": 0})
    assert teeny("cache", "clear").out == "removed 3 entries\n"
    assert choices.read(tmp_path / "cache", "ab" * 20) is None


@pytest.mark.usefixtures("filled")
def test_verify_removes_what_is_damaged(teeny: Teeny, tmp_path: Path) -> None:
    assert teeny("cache", "verify").out == "2 entries whole\n"
    (entry,) = (tmp_path / "cache" / "aa").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] + b"x")
    assert teeny("cache", "verify").out == "1 entry whole, 1 damaged and removed\n"
    assert teeny("cache", "verify").out == "1 entry whole\n"
    assert default_cache().get("aa" * 20) is None
    assert default_cache().get("bb" * 20) == bytes(1000)


def test_a_damaged_program_is_compiled_again(
    teeny: Teeny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TEENY_CACHE_DIR", str(folder))
    x = tn.SymTensor.input(tn.f32, ("n",))
    ones = np.ones(5, np.float32)
    tn.compile(tn.trace(lambda x: x - 2, x), "cpu")(ones)  # what a process reads once is read
    before = set(folder.glob("??/*.entry"))
    graph = tn.trace(lambda x: x * 3 + 1, x)
    assert tn.compile(graph, "cpu")(ones).tolist() == [4.0] * 5
    whole = {path: path.read_bytes() for path in folder.glob("??/*.entry") if path not in before}
    assert whole
    for path, data in whole.items():
        path.write_bytes(data[:-20] + bytes(20))
    assert tn.compile(graph, "cpu")(ones).tolist() == [4.0] * 5
    assert {path: path.read_bytes() for path in whole} == whole


def test_a_folder_that_cannot_be_made(
    teeny: Teeny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache"
    monkeypatch.setenv("TEENY_CACHE_DIR", str(folder))
    result = teeny("cache", "info")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"error: cannot write the compile cache {folder}: Not a directory\n"
        "hint: set TEENY_CACHE_DIR to a folder you may write, or TEENY_CACHE_SIZE=0 "
        "to go without a cache\n"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
