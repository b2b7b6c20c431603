"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

InputTypes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="TYPE",
        help=r"The type of each input of MODULE:FACTORY, such as 'f32\[n, 1, 28, 28]'.",
    ),
]
