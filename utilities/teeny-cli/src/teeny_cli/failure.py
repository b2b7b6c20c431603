"""How a command ends when something is wrong: a line that says what, a hint, and an exit code."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import typer

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # as shells report a process that ctrl-C ended


@dataclass(frozen=True)
class Failure:
    """What to tell the user of an error, and the exit code."""

    message: str
    hint: str | None
    code: int


@runtime_checkable
class UsageError(Protocol):
    """An error in the command line: click's own, of which typer may bring a copy."""

    ctx: Any

    def format_message(self) -> str:
        """Return the message for people."""


def explain(error: Exception) -> Failure:
    """Say what went wrong, in terms of what the user gave where that caused it."""
    from teeny_core import TeenyError

    if isinstance(error, TeenyError):
        return Failure(error.message, error.hint, BAD_INPUT)
    if isinstance(error, UsageError):
        path = error.ctx.command_path if error.ctx is not None else "teeny"
        return Failure(error.format_message(), f"{path} --help", BAD_INPUT)
    if isinstance(error, OSError) and error.filename is not None:
        reason = f"{error.filename}: {error.strerror}"
        return Failure(reason, "check the path, its permissions and free space", BAD_INPUT)
    described = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure(
        f"unexpected {described}",
        "TEENY_DEBUG=1 shows where it was raised; please report it",
        FAILED,
    )


def report(error: Exception) -> int:
    """Tell the user of `error` on standard error and return the exit code."""
    failure = explain(error)
    if _debugging():
        traceback.print_exception(error)
    typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
    typer.echo(failure.message, err=True)
    if failure.hint is not None:
        typer.secho("hint: ", fg="cyan", nl=False, err=True)
        typer.echo(failure.hint, err=True)
    return failure.code


def _debugging() -> bool:
    from teeny_core import ConfigError, config

    try:
        return config.get().debug > 0
    except ConfigError:  # perhaps the very error that is being reported
        return False
