import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

Teeny = Callable[..., Any]


COMMANDS = ("train mnist", "predict", "compile", "devices", "cache info", "cache clear", "bench")
HEAVY = ("numpy", "teeny_core", "teeny_vision", "teeny_compiler", "teeny_bench", "torch", "PIL")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, teeny_cli.main as m\n"
        "try:\n    m.app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_no_command_shows_the_help(teeny: Teeny) -> None:
    result = teeny()
    assert result.code == 0
    for command in {command.split()[0] for command in COMMANDS}:
        assert f"│ {command}" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_shows_examples(teeny: Teeny, command: str) -> None:
    result = teeny(*command.split(), "--help")
    assert (result.code, result.err) == (0, "")
    _, _, examples = result.out.partition("\n Examples")
    lines = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
    assert lines
    for line in lines:
        assert line.startswith("$ ")
        assert f"teeny {command}" in line


def test_version_names_all_packages(teeny: Teeny) -> None:
    result = teeny("--version")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines == sorted(lines)
    for package in ("teeny-cli", "teeny-core", "teeny-compiler", "teeny-cpu", "teeny-vision"):
        assert f"{package} {version(package)}" in lines


def test_runs_as_a_module() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "teeny_cli", "--version"], capture_output=True, text=True, check=True
    )
    assert f"teeny-cli {version('teeny-cli')}\n" in result.stdout
