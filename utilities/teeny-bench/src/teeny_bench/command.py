"""`teeny bench SUITE --vs PEER`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from teeny_core import ConfigError

app = typer.Typer(help="Compare teeny with a peer, alternating in one process.")


@app.callback(invoke_without_command=True)
def bench(
    suite: Annotated[str, typer.Argument(help="What to measure; `all` runs every suite.")],
    vs: Annotated[str, typer.Option(help="The peer: torch (eager) or inductor.")] = "torch",
    threads: Annotated[int, typer.Option(min=1, help="Threads for both sides.")] = 1,
    seconds: Annotated[float, typer.Option(help="Time for each side of a row.")] = 1.0,
    only: Annotated[str, typer.Option(help="Run only the rows whose name holds this text.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the ratios into this SVG.")] = None,
) -> None:
    """Check that both sides give the same values, then time them in turn.

    Examples:
        teeny bench gemm --vs torch --threads 2

        teeny bench mnist --vs inductor --json rows.json --plot rows.svg
    """
    from teeny_bench import report
    from teeny_bench.runner import run_suites

    console = Console()
    rows = list(run_suites(suite, vs, threads, seconds, only, Console(stderr=True)))
    if not rows:
        raise ConfigError(f"no row of {suite!r} holds {only!r}", hint="run it without --only")
    report.print_table(rows, console)
    if json_file is not None:
        report.write_json(rows, json_file)
    if plot is not None:
        report.write_plot(rows, plot)
