"""The on-disk cache: whole entries only, bounded, shared by processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from teeny_compiler import cache as caches
from teeny_compiler.cache import MAGIC, Cache, compiler_key, digest
from teeny_core import ConfigError

KEY = digest("a program")

WRITER = """
import sys
from pathlib import Path
from teeny_compiler.cache import Cache, digest
cache = Cache(Path(sys.argv[1]), 1 << 30)
print("ready", flush=True)
number = 0
while True:
    payload = bytes([number % 251]) * 200_000
    cache.put(digest("shared"), payload)
    cache.put(digest(str(number % 20)), payload)
    found = cache.get(digest("shared"))
    assert found is not None and found == found[:1] * 200_000
    number += 1
"""


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix == ".entry"]


def test_an_entry_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 20)
    assert cache.get(KEY) is None
    cache.put(KEY, b"object code")
    assert cache.get(KEY) == b"object code"
    assert Cache(tmp_path, 1 << 20).get(KEY) == b"object code"
    assert cache.info().entries == 1


def test_entries_have_the_permissions_of_ordinary_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "cache", 1 << 20)
    cache.put(KEY, b"object code")
    (path,) = files(tmp_path)
    assert path.stat().st_mode == (tmp_path / "file").stat().st_mode


def test_the_last_writer_wins(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 20)
    cache.put(KEY, b"one")
    cache.put(KEY, b"two")
    assert cache.get(KEY) == b"two"
    assert cache.info().entries == 1


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign"])
def test_a_damaged_entry_is_absent_and_removed(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path, 1 << 20)
    cache.put(KEY, bytes(range(256)) * 10)
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    match damage:
        case "truncate":
            data = data[:-7]
        case "flip":
            data[len(MAGIC) + 100] ^= 1
        case "empty":
            data = bytearray()
        case "foreign":
            data = bytearray(b"\x7fELF and so on")
    path.write_bytes(data)
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, b"compiled again")
    assert cache.get(KEY) == b"compiled again"


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 100_000)
    keys = [digest(str(i)) for i in range(9)]
    for i, key in enumerate(keys):
        cache.put(key, bytes(10_000))
        (path,) = tmp_path.glob(f"??/{key}*")
        os.utime(path, (1000 + i, 1000 + i))
    assert cache.get(keys[0]) is not None  # now the youngest
    cache.put(digest("more"), bytes(15_000))
    assert cache.info().bytes <= 80_000
    assert cache.get(keys[0]) is not None
    assert cache.get(digest("more")) is not None
    assert cache.get(keys[1]) is None


def test_an_entry_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000)
    cache.put(KEY, bytes(2000))
    assert cache.get(KEY) is None


def test_a_cache_of_size_zero_touches_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "never", 0)
    cache.put(KEY, b"x")
    assert cache.get(KEY) is None
    assert not (tmp_path / "never").exists()


def test_clear_removes_all(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 20)
    for i in range(5):
        cache.put(digest(str(i)), b"x")
    assert cache.clear() == 5
    assert cache.info().entries == 0
    assert cache.clear() == 0


def test_files_that_a_dead_process_left_are_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000)
    (tmp_path / "ab").mkdir()
    left, fresh = tmp_path / "ab" / "left.tmp", tmp_path / "ab" / "fresh.tmp"
    left.write_bytes(b"half")
    fresh.write_bytes(b"half")
    os.utime(left, (time.time() - 7200, time.time() - 7200))
    for i in range(20):
        cache.put(digest(str(i)), bytes(100))
    assert not left.exists()
    assert fresh.exists()


def test_a_folder_that_is_a_file_is_a_readable_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="hint: set TEENY_CACHE_DIR"):
        Cache(tmp_path / "file" / "cache", 1 << 20)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_a_readable_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="hint: set TEENY_CACHE_DIR"):
        Cache(tmp_path, 1 << 20)


def test_writers_killed_in_the_middle_leave_only_whole_entries(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    time.sleep(0.4)
    for writer in writers:
        assert writer.poll() is None, "a writer read a torn entry"
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    cache = Cache(tmp_path, 1 << 30)
    names = [path.name.removesuffix(".entry") for path in files(tmp_path)]
    assert digest("shared") in names
    for name in names:
        payload = cache.get(name)
        assert payload is not None
        assert payload == payload[:1] * 200_000


def test_keys_are_injective_in_their_parts() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") != digest("ab", "")
    assert digest("a") == digest(b"a")


def test_the_compiler_key_is_stable_in_a_process() -> None:
    assert compiler_key() == compiler_key()


def test_sources_are_read_again_when_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEENY_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "package" / "inner" / "module.py"
    source.parent.mkdir(parents=True)
    source.write_text("a = 1\n")
    monkeypatch.setattr(caches, "_sources", lambda name: [*caches._below(str(tmp_path), "")])
    fresh = compiler_key.__wrapped__
    key = fresh()
    with monkeypatch.context() as patch:
        patch.setattr(caches, "_text", None)  # not called: nothing has changed
        assert fresh() == key
    os.utime(source, ns=(1, 1))
    assert fresh() == key
    source.write_text("a = 22\n")
    changed = fresh()
    assert changed != key
    (tmp_path / "cache" / caches.SOURCES).write_bytes(b"\xff torn")
    assert fresh() == changed
