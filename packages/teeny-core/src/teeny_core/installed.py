"""Installed packages, read from the folders in which Python looks for modules.

`importlib.metadata` finds packages that were installed in other ways too. It is asked where the
folders know nothing: to import it takes longer than to load a program from the cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

_SUFFIXES = (".dist-info", ".egg-info")


class EntryPoint(NamedTuple):
    """An object that a package offers to others, under a name: `value` is `module:attribute`."""

    name: str
    value: str

    @property
    def module(self) -> str:
        """The module that holds the object."""
        return self.value.partition(":")[0].strip()

    def load(self) -> Any:
        """Import the module and return the object.

        Raises:
            ImportError, AttributeError: there is none.
        """
        found: Any = import_module(self.module)
        for attribute in filter(None, self.value.partition(":")[2].strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> list[EntryPoint]:
    """Return what the installed packages offer to a group, in the order of the module path."""
    return _groups().get(group) or _other_entry_points(group)


def version(package: str) -> str:
    """Return the version of an installed package.

    Raises:
        importlib.metadata.PackageNotFoundError: it is not installed.
    """
    found = _packages().get(_normal(package))
    return found[1] if found is not None else _other_version(package)


@cache
def _packages() -> dict[str, tuple[str, str]]:
    """Return folder and version of each package; of several of one name the first counts."""
    packages: dict[str, tuple[str, str]] = {}
    for place in dict.fromkeys(sys.path):
        for folder in _metadata(place or os.curdir):
            name, _, rest = os.path.basename(folder).rpartition(".")[0].partition("-")
            packages.setdefault(_normal(name), (folder, rest.partition("-")[0]))
    return {name: found for name, found in packages.items() if found[1]}


def _metadata(place: str) -> Iterator[str]:
    try:
        with os.scandir(place) as entries:
            yield from sorted(entry.path for entry in entries if entry.name.endswith(_SUFFIXES))
    except OSError:  # no folder: an archive, or not there
        return


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


@cache
def _groups() -> dict[str, list[EntryPoint]]:
    groups: dict[str, list[EntryPoint]] = {}
    for folder, _ in _packages().values():
        for group, point in _offered(folder):
            groups.setdefault(group, []).append(point)
    return groups


def _offered(folder: str) -> Iterator[tuple[str, EntryPoint]]:
    """Read `entry_points.txt`: sections of lines `name = module:attribute [extras]`."""
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    group = ""
    for line in map(str.strip, lines):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield group, EntryPoint(name.strip(), value.partition("[")[0].strip())


def _other_entry_points(group: str) -> list[EntryPoint]:
    from importlib import metadata

    return [EntryPoint(point.name, point.value) for point in metadata.entry_points(group=group)]


def _other_version(package: str) -> str:
    from importlib import metadata

    return metadata.version(package)
