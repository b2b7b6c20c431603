"""Running suites: prepare the peer, check values, time, and judge against the machine's limits."""

from __future__ import annotations

from collections.abc import Iterator

import teeny_cpu
from rich.console import Console
from teeny_core import ConfigError

from teeny_bench import machine
from teeny_bench.case import Case, check
from teeny_bench.measure import alternate
from teeny_bench.peers import prepare
from teeny_bench.report import Row, make_row
from teeny_bench.suites import SUITES


def run_suites(
    suite: str, peer: str, threads: int, seconds: float, only: str, console: Console
) -> Iterator[Row]:
    """Run `suite` (or `all`) and yield its rows, with the progress on `console`."""
    names = list(SUITES) if suite == "all" else [suite]
    if unknown := [name for name in names if name not in SUITES]:
        raise ConfigError(f"unknown suite {unknown[0]!r}", hint=f"one of {', '.join(SUITES)}, all")
    prepare(peer, threads)
    teeny_cpu.set_num_threads(threads)
    for name in names:
        for case in SUITES[name](peer, threads):
            if only in case.name:
                with console.status(f"{name} {case.name}"):
                    yield run_case(name, case, peer, threads, seconds)


def run_case(suite: str, case: Case, peer: str, threads: int, seconds: float) -> Row:
    """Check and time one case."""
    check(case)
    ours, theirs = alternate([case.ours, case.peer], seconds)
    note = machine.share_of_limit(case.flops, case.bytes, ours.best, threads)
    return make_row(suite, case.name, threads, ours, peer, theirs, note)
