from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Teeny = Callable[..., Any]

SOURCE = """
import typer

app = typer.Typer()

@app.command()
def greet(name: str) -> None:
    '''Greet somebody.'''
    typer.echo(f"hello {name}")

def plain(count: int = 1) -> None:
    '''Count.'''
    typer.echo(str(count))
"""


class Site:
    """A folder of installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, name: str, *entries: str, source: str = SOURCE, summary: str = "") -> None:
        """Install a package with commands, each as `name = module:object`."""
        module = name.replace("-", "_")
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            + (f"Summary: {summary}\n" if summary else "")
        )
        (info / "entry_points.txt").write_text("\n".join(["[teeny.commands]", *entries]))
        (self.folder / f"{module}.py").write_text(source)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return Site(folder)


def test_a_command_of_another_package_runs(teeny: Teeny, site: Site) -> None:
    site.install("greeter-a", "greet = greeter_a:app", "count = greeter_a:plain")
    assert teeny("greet", "Ada").out == "hello Ada\n"
    assert teeny("count", "--count", "3").out == "3\n"


def test_its_errors_name_it(teeny: Teeny, site: Site) -> None:
    site.install("greeter-b", "greet = greeter_b:app")
    result = teeny("greet")
    assert result.code == 2
    assert result.err.startswith("error: Missing argument ")
    assert result.err.endswith("\nhint: teeny greet --help\n")


def test_the_overview_does_not_import_it(teeny: Teeny, site: Site) -> None:
    site.install("broken-a", "break = broken_a:app", source="1 / 0", summary="Break things.")
    site.install("silent-a", "hush = silent_a:app", source="1 / 0")
    text = teeny("--help").out
    assert "Break things." in text
    assert "From silent-a." in text


def test_a_command_that_cannot_be_imported(teeny: Teeny, site: Site) -> None:
    site.install("missing-a", "lost = missing_a:nothing")
    result = teeny("lost")
    assert result.code == 2
    assert result.err == (
        "error: the command 'lost' of missing-a cannot be loaded: "
        "module 'missing_a' has no attribute 'nothing'\n"
        "hint: install missing-a again\n"
    )


def test_two_packages_with_one_command_are_refused_by_name(teeny: Teeny, site: Site) -> None:
    site.install("twin-a", "twin = twin_a:app")
    site.install("twin-b", "twin = twin_b:app")
    result = teeny("twin", "Ada")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: twin-a and twin-b bring the command 'twin'\n"
        "hint: keep one of them: uv pip uninstall twin-b\n"
    )
    assert "Refused: twin-a and twin-b bring it." in teeny("--help").out


def test_a_package_cannot_take_a_command_of_teeny(teeny: Teeny, site: Site) -> None:
    site.install("thief-a", "predict = thief_a:app")
    result = teeny("predict", "model", "image")
    assert result.code == 2
    assert result.err.startswith("error: teeny-cli and thief-a bring the command 'predict'\n")


def test_other_commands_still_work(teeny: Teeny, site: Site) -> None:
    site.install("twin-c", "twin = twin_c:app")
    site.install("twin-d", "twin = twin_d:app", "greet = twin_d:app")
    assert teeny("greet", "Ada").out == "hello Ada\n"
