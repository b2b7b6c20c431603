"""The list of what passes: made by `python -m conformance.report`, compared by the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .elementwise import BINARY, UNARY
from .harness import COLUMNS, Case, differences
from .memory import ATOMICS, CHECKS, CONTROL, MEMORY, RANDOM
from .tiles import PRODUCTS, REDUCTIONS, SCANS, SHAPES, TYPES

FILE = Path(__file__).with_name("conformance.txt")

GROUPS: Mapping[str, Sequence[Case]] = {
    "unary": UNARY,
    "binary": BINARY,
    "shapes": SHAPES,
    "types": TYPES,
    "reductions": REDUCTIONS,
    "scans": SCANS,
    "products": PRODUCTS,
    "memory": MEMORY,
    "atomics": ATOMICS,
    "random": RANDOM,
    "control": CONTROL,
    "checks": CHECKS,
}

KNOWN: Mapping[tuple[str, str], str] = {}
"""What is expected to fail, by case and column, and why."""

HEAD = """\
Every function of the language by the type of its first operand: the type of its first result where
compiled code, the interpreter and NumPy agree on all layouts, `-` where the types are refused,
`FAIL` where they do not agree (the reasons stand at the end), and nothing where the case is not for
the type. Made by `python -m conformance.report`.
"""


def cells(group: str, column: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the cells of a group in a column, and messages where something is wrong."""
    dtype = next(dtype for dtype in COLUMNS if str(dtype) == column)
    found, wrong = differences(GROUPS[group], dtype)
    for name in wrong:
        found[name] = "FAIL"
    return found, wrong


def render(table: Mapping[tuple[str, str], str]) -> str:
    """Return the text of the list, from cells by case and column."""
    columns = [str(dtype) for dtype in COLUMNS]
    lines = [HEAD, " " * 26 + "".join(f"{name:>7}" for name in columns)]
    for group, cases in GROUPS.items():
        lines += ["", group]
        for case in cases:
            row = "".join(f"{table[case.name, column]:>7}" for column in columns)
            lines.append(f"  {case.name:24}{row}".rstrip())
    lines += ["", *(f"{name} of {column}: {why}" for (name, column), why in KNOWN.items())]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Run everything and write the list."""
    table: dict[tuple[str, str], str] = {}
    for group in GROUPS:
        for dtype in COLUMNS:
            found, wrong = cells(group, str(dtype))
            table |= {(name, str(dtype)): cell for name, cell in found.items()}
            for name, message in wrong.items():
                print(f"{name} of {dtype}: {message}")
    FILE.write_text(render(table))


if __name__ == "__main__":
    main()
