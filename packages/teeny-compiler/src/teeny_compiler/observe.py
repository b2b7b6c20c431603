"""What TEENY_DEBUG prints on standard error while a graph is compiled.

    1  the stages and their seconds; each is verified
    2  the kernels' times, where they run (see the driver)
    3  what was fused: the schedule
    4  tile IR       5  LLVM IR       6  assembly
    7  the e-graph: the rules that matched, and its classes

Each level prints what those below it do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teeny_compiler.optimise.engine import Enode, Snapshot
    from teeny_compiler.optimise.run import Report

TIMES = 1
KERNELS = 2
LEVELS = {"schedule": 3, "tile": 4, "llvm": 5, "asm": 6}
"""The levels from which the texts of stages are printed."""
EGRAPH = 7
FIRST_TEXT = 3

RULE = "─" * 32


def say(program: str, text: str) -> None:
    """Print a line about a program."""
    print(f"teeny: {program}: {text}", file=sys.stderr)


def show(program: str, title: str, text: str) -> None:
    """Print a text about a program under a title."""
    print(f"{RULE} {program}: {title} {RULE}\n{text.rstrip()}\n", file=sys.stderr)


def search(report: Report) -> str:
    """Return what the optimiser did: costs, rules, and the e-graph that it searched."""
    parts = [str(report)]
    if report.snapshot is not None:
        parts.append(egraph(report.snapshot))
    return "\n".join(parts)


def egraph(snapshot: Snapshot) -> str:
    """Return an e-graph, a line a class: its e-nodes, and the nodes of the graph that it holds."""
    members: dict[int, list[str]] = {}
    for node in snapshot.nodes:
        members.setdefault(node.cls, []).append(_term(node))
    held: dict[int, list[int]] = {}
    for number, cls in snapshot.classes.items():
        held.setdefault(cls, []).append(number)
    lines = [f"e-graph of {len(members)} classes, {len(snapshot.nodes)} e-nodes"]
    for cls, terms in sorted(members.items()):
        names = " ".join(f"%{number}" for number in sorted(held.get(cls, ())))
        note = f"  # {names}" if names else ""
        lines.append(f"  c{cls} = {' | '.join(terms)}{note}")
    return "\n".join(lines)


def _term(node: Enode) -> str:
    parts = [*map(str, node.attrs), *(f"c{cls}" for cls in node.inputs)]
    return f"{node.op}({', '.join(parts)})" if parts else node.op
