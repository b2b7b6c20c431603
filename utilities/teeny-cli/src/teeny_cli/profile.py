"""`teeny profile MODEL`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teeny_cli.help import examples
from teeny_cli.options import InputTypes

if TYPE_CHECKING:
    from teeny_core import Graph

EXAMPLES = examples(
    "teeny profile lenet5",
    "teeny profile lenet5 --size n=64 --trace lenet5.json",
    "teeny profile package.module:Model --input 'f32[n, 3, 224, 224]' --runs 50",
)


def profile_model(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A model, as `teeny compile` takes it."),
    ],
    inputs: InputTypes = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option("--size", metavar="NAME=NUMBER", help="A symbolic size; 1 if not given."),
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs to measure.")] = 20,
    device: Annotated[str | None, typer.Option(help="See `teeny devices`.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what the threads did, for ui.perfetto.dev."),
    ] = None,
) -> None:
    """Run a model on random inputs and say where the time goes, kernel by kernel."""
    import teeny_core as tn

    from teeny_cli.files import require_writable
    from teeny_cli.source import find

    if trace is not None:
        require_writable(trace)
    graph = find(model, inputs or []).graph(device)
    arguments = _random_inputs(graph, _read(sizes or [], graph.symbols))
    found = tn.compile(graph, device=device).profile(*arguments, runs=runs)
    typer.echo(str(found))
    if trace is not None:
        found.save(trace)


def _read(texts: Sequence[str], names: Sequence[str]) -> Mapping[str, int]:
    """Return the value of each symbolic size."""
    from teeny_core import ConfigError

    found = dict.fromkeys(names, 1)
    for text in texts:
        name, _, number = text.partition("=")
        if name not in found or not number.isascii() or not number.isdigit():
            known = f"the sizes are {', '.join(names)}" if names else "the model has none"
            raise ConfigError(f"--size {text} is no symbolic size", hint=f"{known}; write n=64")
        found[name] = int(number)
    return found


def _random_inputs(graph: Graph, sizes: Mapping[str, int]) -> list[Any]:
    """Return an array for each input: of [0, 1) where it is floating, else zeros."""
    import teeny_core as tn

    tn.manual_seed(0)
    arrays = []
    for node in graph.inputs:
        shape = tn.substitute(node.shape, sizes)
        fill = tn.rand if node.dtype.is_float else tn.zeros
        arrays.append(fill(shape, dtype=node.dtype).numpy())
    return arrays
