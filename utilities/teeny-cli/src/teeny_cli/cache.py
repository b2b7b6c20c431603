"""`teeny cache info|clear|verify`."""

from __future__ import annotations

from typing import Annotated

import typer

from teeny_cli.help import examples

app = typer.Typer(help="See, check or empty the folder of compiled programs.")

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@app.command(epilog=examples("teeny cache info", "TEENY_CACHE_DIR=cache teeny cache info --json"))
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say where the cache lies and what it holds."""
    from teeny_compiler.internal import default_cache

    held = default_cache().info()
    if as_json:
        from teeny_cli import jsonl

        line = jsonl.line(
            folder=str(held.folder), entries=held.entries, bytes=held.bytes, limit=held.limit
        )
        typer.echo(line)
        return
    typer.echo(f"folder   {held.folder}")
    typer.echo(f"entries  {held.entries}")
    typer.echo(f"size     {size(held.bytes)} of at most {size(held.limit)}")


@app.command(epilog=examples("teeny cache clear"))
def clear() -> None:
    """Remove every compiled program, and what tuning chose; they are made again when needed."""
    from teeny_compiler.internal import default_cache
    from teeny_triton.runtime.cache import clear as clear_choices

    cache = default_cache()
    count = cache.clear() + clear_choices(cache.folder)
    typer.echo(f"removed {_entries(count)}")


@app.command(epilog=examples("teeny cache verify"))
def verify() -> None:
    """Read every compiled program, and remove what is damaged; it is made again when needed."""
    from teeny_compiler.internal import default_cache

    whole, damaged = default_cache().verify()
    removed = f", {damaged} damaged and removed" if damaged else ""
    typer.echo(f"{_entries(whole)} whole{removed}")


def _entries(count: int) -> str:
    return f"{count} {'entry' if count == 1 else 'entries'}"


def size(count: float) -> str:
    """Return a number of bytes in the largest unit that leaves it at least 1."""
    unit = 0
    while count >= 1024 and unit < len(UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 else f"{count:.1f} {UNITS[unit]}"
