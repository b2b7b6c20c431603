"""`teeny bench SUITE --vs PEER`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from teeny_cli import examples

app = typer.Typer(add_completion=False)

COMPILE = "compile"

EXAMPLES = (
    "teeny bench gemm --vs torch --threads 2",
    "teeny bench gemm --vs serial --threads 2 --only 1024",
    "teeny bench conv --only lenet",
    "teeny bench models --vs torch --vs inductor --training",
    "teeny bench mnist --vs inductor --json rows.json --plot rows.svg",
    "teeny bench compile --only attention",
)


@app.command(epilog=examples(*EXAMPLES))
def bench(
    context: typer.Context,
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="gemm, pointwise, softmax, layernorm, attention, kernels, conv, mnist,"
            " models, or all of them; or compile: the seconds of compilation of each kernel of the"
            " library, compared with nothing.",
        ),
    ],
    vs: Annotated[
        list[str],
        typer.Option(
            help="The peer: torch (eager), inductor, or serial: teeny on one thread. Given"
            " twice, both, in turn."
        ),
    ] = ["torch"],  # noqa: B006 - typer copies it
    training: Annotated[
        bool, typer.Option("--training", help="Steps of training instead of inference.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads of both sides.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.0, help="Time for each side of a row.")] = 0.3,
    only: Annotated[str, typer.Option(help="Run only the rows whose name holds this text.")] = "",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the rows here.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the ratios into this file.")
    ] = None,
) -> None:
    """Compare teeny with PyTorch, in turn and in one process.

    Each row first checks that both give the same values; one where they do not
    is reported, not timed, and makes the exit code 1. A ratio is the peer's time
    divided by teeny's: over 1, teeny is faster.
    """
    from rich.console import Console
    from teeny_cli import require_writable, write_file
    from teeny_core import ConfigError

    from teeny_bench import report
    from teeny_bench.case import MismatchError
    from teeny_bench.plot import require_svg, to_svg
    from teeny_bench.runner import Options, require_some, run_suites, select
    from teeny_bench.suites import SUITES, TRAINING

    for file in (json_file, plot):
        if file is not None:
            require_writable(file)
    if suite == COMPILE:
        _refuse_others(context)
        _compile(only, json_file)
        return
    if plot is not None:
        require_svg(plot)
        if len(vs) > 1:
            raise ConfigError("--plot draws one peer", hint="give one --vs, or --json")

    progress = Console(stderr=True)
    mismatches: list[MismatchError] = []
    rows = []
    chosen = select(suite, TRAINING if training else SUITES)
    try:
        for peer in vs:
            options = Options(peer, threads, seconds, only)
            for row in run_suites(
                chosen, options, announce=progress.status, on_mismatch=mismatches.append
            ):
                rows.append(row)
    finally:  # what was measured stays, also when ctrl-C ends the run
        for peer in vs:
            if compared := [row for row in rows if row.peer == peer]:
                Console().print(report.table(compared))
        if rows:
            if json_file is not None:
                write_file(json_file, report.to_json(rows).encode())
            if plot is not None:
                write_file(plot, to_svg(rows))
    for error in mismatches:
        typer.echo(f"error: {error}", err=True)
    if mismatches:
        raise typer.Exit(1)
    require_some(rows, suite, only)


def _refuse_others(context: typer.Context) -> None:
    """See that no option was given that means nothing to `compile`."""
    from teeny_core import ConfigError

    for name in ("vs", "training", "threads", "seconds", "plot"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"{COMPILE} compares with nothing", hint=f"leave out --{name}")


def _compile(only: str, json_file: Path | None) -> None:
    from rich.console import Console
    from teeny_cli import write_file

    from teeny_bench import compiling
    from teeny_bench.runner import require_some

    with Console(stderr=True).status("compiling"):
        rows = list(compiling.measured(only))
    require_some(rows, COMPILE, only)
    Console().print(compiling.table(rows))
    if json_file is not None:
        write_file(json_file, compiling.to_json(rows).encode())
