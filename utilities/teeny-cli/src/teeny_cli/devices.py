"""`teeny devices`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Found:
    """A device that is installed: what it says of its hardware, or why it does not work here."""

    name: str
    default: bool
    properties: Mapping[str, str]
    error: str | None = None


def devices(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """List the devices that programs can run on."""
    found = discover()
    if as_json:
        from teeny_cli import jsonl

        for device in found:
            typer.echo(jsonl.line(**vars(device)))
        return
    from rich.console import Console

    Console().print(_table(found))


def discover() -> list[Found]:
    """Return all installed devices; one that cannot be loaded carries its error.

    Raises:
        ConfigError: a setting is wrong.
    """
    import teeny_core as tn

    tn.config.get()  # a wrong setting is no fault of a device
    default = tn.device().name
    found = []
    for name in tn.device_names():
        try:
            properties = dict(tn.device(name).properties())
        except tn.TeenyError as error:
            found.append(Found(name, name == default, {}, error.message))
        else:
            found.append(Found(name, name == default, properties))
    return found


def _table(found: list[Found]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("device")
    table.add_column("property")
    table.add_column("value", overflow="fold")
    for device in found:
        rows = device.properties or {"": ""} if device.error is None else {"error": device.error}
        label = f"{device.name} (default)" if device.default else device.name
        for index, (key, value) in enumerate(rows.items()):
            last = index == len(rows) - 1
            table.add_row("" if index else label, key, Text(value), end_section=last)
    return table
