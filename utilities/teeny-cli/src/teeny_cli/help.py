"""The examples at the end of each command's help."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return the closing part of a command's help: `lines` as a user would type them."""
    shown = [line.replace("[", r"\[") for line in lines]  # a bracket would begin a rich tag
    return "\n".join(["[bold]Examples[/]", *(f"[dim]$[/] {line}" for line in shown)])
