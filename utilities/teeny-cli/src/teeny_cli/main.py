"""The `teeny` command: its subcommands, and how it ends when something is wrong."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from teeny_cli.cache import app as cache_app
from teeny_cli.check import EXAMPLES as CHECK_EXAMPLES
from teeny_cli.check import check
from teeny_cli.compile import EXAMPLES as COMPILE_EXAMPLES
from teeny_cli.compile import compile_model
from teeny_cli.devices import devices
from teeny_cli.failure import INTERRUPTED, report
from teeny_cli.graph import EXAMPLES as GRAPH_EXAMPLES
from teeny_cli.graph import draw_model
from teeny_cli.help import examples
from teeny_cli.plugins import PluginGroup
from teeny_cli.predict import EXAMPLES as PREDICT_EXAMPLES
from teeny_cli.predict import predict
from teeny_cli.profile import EXAMPLES as PROFILE_EXAMPLES
from teeny_cli.profile import profile_model
from teeny_cli.train import app as train_app


class Teeny(PluginGroup):
    """The root of all commands; an error ends in a line on standard error and an exit code."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run the command line and exit."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except KeyboardInterrupt:
            code = INTERRUPTED
        except Exception as error:
            code = report(error)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    name="teeny",
    cls=Teeny,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(train_app, name="train")
app.command("predict", epilog=PREDICT_EXAMPLES)(predict)
app.command("compile", epilog=COMPILE_EXAMPLES)(compile_model)
app.command("graph", epilog=GRAPH_EXAMPLES)(draw_model)
app.command("profile", epilog=PROFILE_EXAMPLES)(profile_model)
app.command("check", epilog=CHECK_EXAMPLES)(check)
app.command("devices", epilog=examples("teeny devices", "teeny devices --json"))(devices)
app.add_typer(cache_app, name="cache")


def _print_versions(wanted: bool) -> None:
    if not wanted:
        return
    from teeny_cli.versions import installed

    for name, version in installed().items():
        typer.echo(f"{name} {version}")
    raise typer.Exit


@app.callback(invoke_without_command=True)
def teeny(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_versions,
            is_eager=True,
            help="Print the versions of all teeny packages and exit.",
        ),
    ] = False,
) -> None:
    """Train, run and compile models with teeny."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line of this process."""
    warnings.formatwarning = _format_warning
    app()


def _format_warning(message: Warning | str, *args: Any, **extra: Any) -> str:
    return f"warning: {message}\n"
