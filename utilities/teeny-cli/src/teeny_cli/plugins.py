"""Commands that other packages add, by entry points of the group `teeny.commands`.

An entry point names a `typer.Typer` or a function. Its package is imported only when the command
runs; the overview of all commands shows the summary in the package's metadata. A name that two
packages offer is refused, and every other command still works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

GROUP = "teeny.commands"
OWNER = "teeny-cli"  # of the commands of the group itself


class PluginGroup(TyperGroup):
    """A group of commands, some of which live in other packages until they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, plug-ins last."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in self._plugins if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; a plug-in only as a name and a line of help."""
        points = self._plugins.get(cmd_name, ())
        if not points:
            return super().get_command(ctx, cmd_name)
        owners = self._owners(cmd_name)
        if len(owners) > 1:
            return TyperCommand(cmd_name, help=f"Refused: {_listed(owners)} bring it.")
        return TyperCommand(cmd_name, help=_summary(points[0]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` call, imported where it is a plug-in.

        Raises:
            ConfigError: several packages bring it, or its package cannot be imported.
        """
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or name not in self._plugins:
            return name, command, rest
        self._require_one_owner(name)
        return name, load(self._plugins[name][0]), rest

    @cached_property
    def _plugins(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        return by_name(entry_points(group=GROUP))

    def _owners(self, name: str) -> list[str]:
        own = [OWNER] if name in self.commands else []
        return own + [package(point) for point in self._plugins[name]]

    def _require_one_owner(self, name: str) -> None:
        owners = self._owners(name)
        if len(owners) > 1:
            from teeny_core import ConfigError

            raise ConfigError(
                f"{_listed(owners)} bring the command {name!r}",
                hint=f"keep one of them: uv pip uninstall {owners[-1]}",
            )


def by_name(points: Iterable[EntryPoint]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """Group entry points by their name, in an order that does not depend on that of `points`."""
    groups: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(points, key=lambda point: (point.name, package(point))):
        groups[point.name] = (*groups.get(point.name, ()), point)
    return groups


def load(point: EntryPoint) -> Any:
    """Import what an entry point names and make a command of it.

    Raises:
        ConfigError: it cannot be imported.
    """
    from teeny_core import ConfigError

    try:
        target = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the command {point.name!r} of {package(point)} cannot be loaded: {error}",
            hint=f"install {package(point)} again",
        ) from error
    if not isinstance(target, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command()(target)
        target = app
    command = typer.main.get_command(target)
    command.name = point.name
    return command


def package(point: EntryPoint) -> str:
    """Return the name of the distribution that declares an entry point, else its module's root."""
    return point.dist.name if point.dist is not None else point.module.partition(".")[0]


def _summary(point: EntryPoint) -> str:
    summary = point.dist.metadata["Summary"] if point.dist is not None else None
    return summary or f"From {package(point)}."


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
