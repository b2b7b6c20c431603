import os
from pathlib import Path

import pytest
from teeny_cli import require_writable, write_file
from teeny_core import ConfigError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for data in (b"old", b"new"):
        require_writable(path)
        write_file(path, data)
        assert path.read_bytes() == data
    assert names(tmp_path) == ["text"]


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    require_writable(tmp_path / "text")
    assert names(tmp_path) == []


@pytest.mark.parametrize("action", [require_writable, lambda path: write_file(path, b"")])
def test_a_missing_folder(tmp_path: Path, action: object) -> None:
    path = tmp_path / "missing" / "text"
    assert callable(action)
    with pytest.raises(ConfigError) as caught:
        action(path)
    assert str(caught.value) == (
        f"cannot write {path}: No such file or directory\n"
        "hint: name a file in a folder that exists, that you may write, and that has space"
    )


def test_a_file_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Not a directory"):
        require_writable(tmp_path / "file" / "text")


def test_a_folder_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is a folder\nhint: give the name of a file"):
        require_writable(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write all")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="Permission denied"):
        require_writable(tmp_path / "text")


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"old")

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ConfigError, match="No space left on device"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["text"]


def test_a_link_leads_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="no /dev/null")
def test_a_device_is_written_not_replaced() -> None:
    require_writable(Path("/dev/null"))
    write_file(Path("/dev/null"), b"gone")
    assert Path("/dev/null").is_char_device()
