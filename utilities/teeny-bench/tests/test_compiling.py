import json
from pathlib import Path

from rich.console import Console
from teeny_bench import compiling
from teeny_bench.command import app
from teeny_core import ConfigError
from typer.testing import CliRunner


def test_a_row_says_what_a_kernel_takes(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    shown = CliRunner().invoke(app, ["compile", "--only", "take", "--json", str(file)])
    assert shown.exit_code == 0
    rows = json.loads(file.read_text())
    assert [(row["name"], row["kernel"]) for row in rows] == [
        ("take", "take"),
        ("take, gradient", "take_grad"),
    ]
    for row in rows:
        assert 0 < row["emit_s"] < 10
        assert 0 < row["llvm_s"] < 10
        assert row["bytes"] > 500
    assert shown.stdout.index("take") < shown.stdout.index("median") < shown.stdout.index("most")


def test_the_slowest_comes_first_and_ends_the_table() -> None:
    rows = [
        compiling.Compilation(name, "k", None, emit, 0.02, 5, 100)
        for name, emit in (("a", 0.01), ("b", 0.3), ("c", 0.02))
    ]
    console = Console(width=100)
    with console.capture() as capture:
        console.print(compiling.table(rows))
    lines = [line.split() for line in capture.get().splitlines() if line.strip()]
    assert [line[0] for line in lines[-5:]] == ["b:", "c:", "a:", "median", "most"]
    assert lines[-2] == ["median", "40", "20", "20"]
    assert lines[-1] == ["most", "320", "300", "20"]


def test_options_that_compare_are_refused() -> None:
    for given in (["--vs", "torch"], ["--threads", "2"], ["--seconds", "2"], ["--training"]):
        result = CliRunner().invoke(app, ["compile", *given])
        assert isinstance(result.exception, ConfigError)
        assert f"leave out {given[0]}" in str(result.exception)
    result = CliRunner().invoke(app, ["compile", "--only", "nothing of that name"])
    assert isinstance(result.exception, ConfigError)
