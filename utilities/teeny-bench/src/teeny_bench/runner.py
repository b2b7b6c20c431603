"""Running suites: prepare the peer, check values, time, and judge against the machine's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from teeny_core import ConfigError

from teeny_bench import peers
from teeny_bench.case import Case, MismatchError, Suite, check
from teeny_bench.measure import alternate
from teeny_bench.report import Row, make_row

ALL = "all"


@dataclass(frozen=True)
class Options:
    """How to run: the peer, the threads of both sides, seconds for each side, and which rows."""

    peer: str = "torch"
    threads: int = 1
    seconds: float = 0.3
    only: str = ""


def select(suite: str, suites: Mapping[str, Suite]) -> Mapping[str, Suite]:
    """Return the suite of that name, or all of them.

    Raises:
        ConfigError: there is none.
    """
    if suite == ALL:
        return suites
    if suite not in suites:
        raise ConfigError(
            f"no suite is called {suite!r}", hint=f"one of {', '.join(suites)}, or {ALL}"
        )
    return {suite: suites[suite]}


def require_some(rows: Sequence[object], suite: str, only: str) -> None:
    """Raise ConfigError where no row of a suite was wanted."""
    if not rows:
        raise ConfigError(f"no row of {suite!r} holds {only!r}", hint="run it without --only")


def run_suites(
    suites: Mapping[str, Suite],
    options: Options,
    *,
    announce: Callable[[str], AbstractContextManager[object]] = nullcontext,
    on_mismatch: Callable[[MismatchError], None] | None = None,
) -> Iterator[Row]:
    """Run `suites` and yield a row for each of their cases.

    Args:
        suites: what to run.
        options: how to run it.
        announce: called with the name of each case; its context spans the case.
        on_mismatch: takes the error of a case whose sides disagree, which then has no row;
            without it the error is raised.

    Raises:
        PeerError: the peer is missing.
        MismatchError: two sides disagree.
    """
    import teeny_cpu

    peers.prepare(options.peer, options.threads)
    for name, suite in suites.items():
        for case in suite(options.peer):
            if options.only not in case.name:
                continue
            teeny_cpu.set_num_threads(options.threads)
            try:
                with announce(f"{name} {case.name}"):
                    row = run_case(name, case, options)
            except MismatchError as error:
                if on_mismatch is None:
                    raise
                on_mismatch(error)
            else:
                yield row
            if options.peer in peers.PEERS:
                peers.forget()


def run_case(suite: str, case: Case, options: Options) -> Row:
    """Check and time one case."""
    import teeny_cpu

    from teeny_bench import machine

    sides = case.build()
    check(case, sides)
    ours, theirs = alternate([sides.ours, sides.peer], options.seconds, threads=options.threads)
    teeny_cpu.set_num_threads(options.threads)  # a peer may have changed it
    note = machine.share_of_limit(case.flops, case.bytes, ours.best, options.threads)
    costs = sides.costs
    return make_row(suite, case.name, options.threads, ours, options.peer, theirs, note, costs)
