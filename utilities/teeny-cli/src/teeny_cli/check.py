"""`teeny check FILE...`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teeny_cli.help import examples

if TYPE_CHECKING:
    from teeny_core import TeenyError
    from teeny_triton.check import Checked, Problem

EXAMPLES = examples(
    "teeny check kernels.py",
    "teeny check softmax.py matmul.py --set BLOCK=64,128 --set x=*f32",
    "teeny check kernels.py --strict --json",
)
FOUND = 1
SHOWN = 3  # cases of an error


@dataclass
class Tally:
    """What was checked in all files."""

    files: int = 0
    kernels: int = 0
    cases: int = 0
    errors: int = 0
    unchecked: int = 0

    def __str__(self) -> str:
        checked = f"{_count(self.kernels, 'kernel')}, {_count(self.cases, 'case')}"
        found = _count(self.errors, "error") if self.errors else "no errors"
        text = f"{_count(self.files, 'file')}, {checked}: {found}"
        return text + (f", {self.unchecked} not checked" if self.unchecked else "")


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Python files with kernels. Each is imported; `import triton` gives teeny_triton.",
        ),
    ],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE,...",
            help="Values of a constant or types of another parameter: BLOCK=64,128, x=*f32,*bf16.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail for a kernel that cannot be checked, too.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each kernel, and a last one.")
    ] = False,
) -> None:
    """Type-check kernels for all types that their annotations admit, without running them.

    All dtypes of type variables are tried, with the values of constants that are known:
    by @kernel(check={"BLOCK": (64, 128)}), autotune, annotations, or defaults.
    """
    from teeny_core import KernelError
    from teeny_triton.check import load

    values = read_values(given or [])
    tally, used = Tally(), set[str]()
    show = _print_json if as_json else _print
    for path in files:
        _require_file(path)
        tally.files += 1
        try:
            kernels = load(path)
        except KernelError as error:
            tally.errors += 1
            show(path, error)
            continue
        for checked in _with_progress(path, kernels, values):
            used.update(values.keys() & set(checked.kernel.arg_names))
            tally.kernels += not checked.helper
            tally.cases += checked.cases
            tally.errors += len(checked.problems)
            tally.unchecked += checked.unchecked is not None
            show(path, checked)
    _require_used(values, used)
    if as_json:
        from teeny_cli import jsonl

        typer.echo(jsonl.line(**vars(tally)))
    else:
        typer.echo(str(tally))
    if tally.errors or (strict and tally.unchecked):
        raise typer.Exit(FOUND)


def _with_progress(path: Path, kernels: Sequence[Any], values: dict[str, Any]) -> Iterator[Checked]:
    """Check, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import track
    from teeny_triton.check import check as check_kernels

    yield from track(
        check_kernels(kernels, values),
        f"checking {path}",
        len(kernels),
        console=Console(stderr=True),
        transient=True,
        disable=not Console(stderr=True).is_terminal,
    )


def _print(path: Path, found: Checked | TeenyError) -> None:
    from teeny_core import TeenyError

    if isinstance(found, TeenyError):
        _status(str(path), "error", "red")
        typer.echo(_indented(found, path))
        return
    place = f"{path}:{found.line} {found.kernel.__name__}"
    if found.helper:
        _status(place, "a helper, checked where it is called", "cyan")
    elif found.unchecked is not None:
        _status(place, "not checked", "yellow")
        typer.echo(_indented(found.unchecked, path))
    else:
        cases = _count(found.cases, "case")
        _status(place, *(("error", "red") if found.problems else (f"ok, {cases}", "green")))
        for problem in found.problems:
            typer.echo(_indented(problem.error, path))
            typer.echo(f"  {_met_in(problem, found)}")
    if found.assumed:
        names = ", ".join(found.assumed)
        typer.echo(f"  not annotated, so taken for pointers to f16, bf16, f32 or for i32: {names}")


def _print_json(path: Path, found: Checked | TeenyError) -> None:
    from teeny_core import TeenyError

    from teeny_cli import jsonl

    if isinstance(found, TeenyError):
        typer.echo(jsonl.line(file=str(path), status="error", message=found.message))
        return
    status = "error" if found.problems else "ok"
    status = "helper" if found.helper else "unchecked" if found.unchecked else status
    problems = [_as_json(problem) for problem in found.problems]
    reason = None if found.unchecked is None else found.unchecked.message
    typer.echo(
        jsonl.line(
            file=str(path),
            line=found.line,
            kernel=found.kernel.__name__,
            status=status,
            cases=found.cases,
            assumed=list(found.assumed),
            reason=reason,
            errors=problems,
        )
    )


def _as_json(problem: Problem) -> dict[str, Any]:
    file, line, column = problem.place or (None, None, None)
    error = problem.error
    message = getattr(error, "reason", error.message)
    cases = [str(case) for case in problem.cases]
    place = {"file": file, "line": line, "column": column}
    return {**place, "message": message, "hint": error.hint, "cases": cases}


def _met_in(problem: Problem, found: Checked) -> str:
    cases = [str(case) for case in problem.cases[:SHOWN]]
    more = ["..."] if len(problem.cases) > SHOWN else []
    return f"in {len(problem.cases)} of {found.cases}: {'; '.join([*cases, *more])}"


def _status(place: str, text: str, colour: str) -> None:
    typer.echo(f"{place}  ", nl=False)
    typer.secho(text, fg=colour)


def _indented(error: TeenyError, path: Path) -> str:
    """Return the text of an error, with the file named as the user did."""
    text = str(error).replace(str(path.resolve()), str(path))
    return "\n".join(f"  {line}" for line in text.splitlines())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def read_values(given: Sequence[str]) -> dict[str, Sequence[Any]]:
    """Read `--set NAME=VALUE,...`."""
    from teeny_core import ConfigError

    found: dict[str, Sequence[Any]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not name.isidentifier() or not equals or not values:
            raise ConfigError(f"--set {text} has no value", hint="write --set BLOCK=64,128")
        found[name] = [_value(value.strip()) for value in values.split(",")]
    return found


def _value(text: str) -> Any:
    """Read a type, such as f32 or *f32, or a Python value; any other word is a string."""
    from teeny_core import DTypeError, dtype
    from teeny_triton.ir import Pointer

    try:
        return Pointer(dtype(text[1:])) if text.startswith("*") else dtype(text)
    except DTypeError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _require_file(path: Path) -> None:
    from teeny_core import ConfigError

    if not path.is_file():
        raise ConfigError(f"there is no file {path}", hint="name Python files with kernels")


def _require_used(values: dict[str, Any], used: set[str]) -> None:
    from teeny_core import ConfigError

    unused = sorted(values.keys() - used)
    if unused:
        raise ConfigError(f"no kernel has a parameter {unused[0]!r}", hint="see --set")
