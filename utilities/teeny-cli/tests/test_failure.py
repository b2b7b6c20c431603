import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from teeny_compiler import internal
from teeny_core import DataError

Teeny = Callable[..., Any]


def failing(error: Exception) -> Callable[..., None]:
    """Return a function that raises `error`."""

    def function() -> None:
        raise error

    return function


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Make `teeny cache info` raise an error."""

    def set_error(error: Exception) -> None:
        monkeypatch.setattr(internal, "default_cache", failing(error))

    return set_error


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            DataError("no digit", hint="draw one"),
            2,
            "error: no digit\nhint: draw one\n",
        ),
        (DataError("no digit"), 2, "error: no digit\n"),
        (
            PermissionError(13, "Permission denied", "model.safetensors"),
            2,
            "error: model.safetensors: Permission denied\n"
            "hint: check the path, its permissions and free space\n",
        ),
        (
            ZeroDivisionError("division by zero"),
            1,
            "error: unexpected ZeroDivisionError: division by zero\n"
            "hint: TEENY_DEBUG=1 shows where it was raised; please report it\n",
        ),
        (
            MemoryError(),
            1,
            "error: unexpected MemoryError\n"
            "hint: TEENY_DEBUG=1 shows where it was raised; please report it\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_a_line_and_a_code(
    teeny: Teeny, fail: Callable[[Exception], None], error: Exception, code: int, text: str
) -> None:
    fail(error)
    result = teeny("cache", "info")
    assert (result.code, result.out, result.err) == (code, "", text)


def test_debugging_shows_where(
    teeny: Teeny, fail: Callable[[Exception], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEENY_DEBUG", "1")
    fail(DataError("no digit", hint="draw one"))
    result = teeny("cache", "info")
    assert result.code == 2
    assert result.err.startswith("Traceback (most recent call last):\n")
    assert "in function" in result.err
    assert result.err.endswith("\nerror: no digit\nhint: draw one\n")


def test_a_wrong_setting_is_reported_even_where_debugging_is_wanted(
    teeny: Teeny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEENY_DEBUG", "1")
    monkeypatch.setenv("TEENY_NUM_THREADS", "abc")
    result = teeny("cache", "info")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: TEENY_NUM_THREADS=abc is not valid\n"
        "hint: set it to a whole number from 1, such as 4, or unset it\n"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["foo"], "error: No such command 'foo'.\nhint: teeny --help\n"),
        (["cache"], "error: Missing command.\nhint: teeny cache --help\n"),
        (["predict"], "error: Missing argument 'MODEL.safetensors'.\nhint: teeny predict --help\n"),
    ],
)
def test_a_wrong_command_line(teeny: Teeny, arguments: list[str], text: str) -> None:
    result = teeny(*arguments)
    assert (result.code, result.out, result.err) == (2, "", text)


def test_a_value_of_the_wrong_kind(teeny: Teeny) -> None:
    result = teeny("train", "mnist", "--epochs", "many")
    error, hint = result.err.splitlines()
    assert result.code == 2
    assert error.startswith("error: Invalid value for '--epochs': ")
    assert hint == "hint: teeny train mnist --help"


def test_a_closed_pipe_ends_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "teeny_cli", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() in (0, 1)


def test_warnings_are_one_line() -> None:
    program = "import warnings, teeny_cli.main as m; m.app = lambda: warnings.warn('a'); m.main()"
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert result.stderr == "warning: a\n"
