import io
import subprocess
from pathlib import Path

import lockfile
import pytest
from workspace import ROOT

LOCK = """\
version = 1

[manifest]
members = ["teeny-core"]

[manifest.dependency-groups]
dev = [{ name = "pytest", specifier = ">=9" }]

[[package]]
name = "numpy"
version = "2.4.6"
source = { registry = "https://index.example/simple" }
sdist = { url = "https://files.example/ab/numpy-2.4.6.tar.gz", hash = "sha256:aa", size = 1 }
wheels = [
    { url = "https://files.example/cd/numpy-2.4.6-cp311.whl", hash = "sha256:bb", size = 2 },
]

[[package]]
name = "teeny-core"
version = "0.1.0"
source = { editable = "packages/teeny-core" }
"""

CLEAN = """\
version = 1

[[package]]
name = "numpy"
version = "2.4.6"
source = { registry = "index" }
sdist = { path = "numpy-2.4.6.tar.gz", hash = "sha256:aa", size = 1 }
wheels = [
    { path = "numpy-2.4.6-cp311.whl", hash = "sha256:bb", size = 2 },
]

[[package]]
name = "teeny-core"
version = "0.1.0"
source = { editable = "packages/teeny-core" }
"""


def test_clean_drops_hosts_and_the_manifest() -> None:
    assert lockfile.clean(LOCK) == CLEAN


def test_clean_keeps_a_clean_lock() -> None:
    assert lockfile.clean(CLEAN) == CLEAN


def test_a_lock_agrees_with_its_clean_form() -> None:
    assert lockfile.differences(LOCK, CLEAN) == []


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ('"2.4.6"', '"2.4.7"', ["only in one: numpy 2.4.6", "only in one: numpy 2.4.7"]),
        ("sha256:aa", "sha256:ab", ["another hash: numpy-2.4.6.tar.gz"]),
        ("sha256:bb", "sha256:ab", ["another hash: numpy-2.4.6-cp311.whl"]),
        ("cd/numpy-2.4.6-cp311", "cd/numpy-2.4.6-cp312", []),  # each index has files of its own
    ],
)
def test_differences_are_named(old: str, new: str, difference: list[str]) -> None:
    assert lockfile.differences(LOCK.replace(old, new), CLEAN) == difference


def test_command_cleans_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(LOCK))
    assert lockfile.main(["clean"]) == 0
    assert capsys.readouterr().out == CLEAN


def test_command_checks_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(tmp_path / name) for name in ("lock", "clean", "other")]
    for name, text in zip(names, (LOCK, CLEAN, CLEAN.replace("aa", "ab")), strict=True):
        Path(name).write_text(text)
    assert lockfile.main(["check", names[0], names[1]]) == 0
    assert lockfile.main(["check", names[0], names[2]]) == 1
    assert "another hash: numpy-2.4.6.tar.gz" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["check", "one"], ["tidy"]])
def test_command_shows_its_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert lockfile.main(arguments) == 2
    assert "usage: " in capsys.readouterr().err


def test_the_committed_lock_names_no_host() -> None:
    committed = subprocess.run(
        ["git", "show", "HEAD:uv.lock"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "://" not in committed
    assert lockfile.clean(committed) == committed
