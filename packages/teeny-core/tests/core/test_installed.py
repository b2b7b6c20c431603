"""Installed packages as `importlib.metadata` finds them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from teeny_core import installed

ENTRY_POINTS = """
# a comment
[console_scripts]
tool = thing.tool:main

[ some.group ]
plain=json
attribute = json:decoder.JSONDecoder
extra = json : dumps [fast,nice]
"""


@pytest.fixture(autouse=True)
def look_anew() -> Iterator[None]:
    """Forget what was found: whoever ran before may have changed the module path."""
    _forget()
    yield
    _forget()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed package, alone on the module path."""
    folder = tmp_path / "Some.Thing-1.2.3.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: Some.Thing\nVersion: 1.2.3\n")
    monkeypatch.setattr("sys.path", [str(tmp_path / "absent"), str(tmp_path)])
    return tmp_path


def _forget() -> None:
    installed._packages.cache_clear()
    installed._groups.cache_clear()


def test_entry_points_are_those_of_importlib() -> None:
    groups = metadata.entry_points().groups
    assert {"teeny.devices", "teeny.kernels", "console_scripts"} <= groups
    for group in groups:
        expected = {(point.name, point.value) for point in metadata.entry_points(group=group)}
        got = {tuple(point) for point in installed.entry_points(group)}
        assert {(name, value.partition("[")[0].strip()) for name, value in expected} == got
    assert installed.entry_points("no.such.group") == []


@pytest.mark.parametrize("name", ["numpy", "llvmlite", "teeny-core", "teeny_core", "ml_dtypes"])
def test_versions_are_those_of_importlib(name: str) -> None:
    assert installed.version(name) == metadata.version(name)


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(metadata.PackageNotFoundError):
        installed.version("no-such-package")


def test_entry_points_are_loaded(package: Path) -> None:
    import json

    assert installed.version("some_thing") == installed.version("some-thing") == "1.2.3"
    plain, attribute, extra = installed.entry_points("some.group")
    assert (plain.load(), attribute.load(), extra.load()) == (json, json.JSONDecoder, json.dumps)
    assert [point.module for point in (plain, attribute, extra)] == ["json"] * 3
    for point in metadata.entry_points(group="some.group"):
        assert point.load() is {"plain": json, "attribute": json.JSONDecoder}.get(
            point.name, json.dumps
        )


def test_the_first_package_of_a_name_counts(package: Path) -> None:
    (package / "absent").mkdir()
    (package / "absent" / "some_thing-2.0.dist-info").mkdir()
    assert installed.version("some-thing") == "2.0"
    assert installed.entry_points("some.group") == []
