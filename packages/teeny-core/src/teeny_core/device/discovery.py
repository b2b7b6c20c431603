"""Finding devices by their entry points."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from teeny_core import config
from teeny_core.device.base import Device
from teeny_core.errors import DeviceError
from teeny_core.installed import EntryPoint, entry_points

GROUP = "teeny.devices"
_chosen: ContextVar[Device | None] = ContextVar("teeny_default_device", default=None)
_PREFERRED = ("cpu", "ndarray", "null")


def device(name: str | Device | None = None) -> Device:
    """Return the device of a name, made once in a process.

    Args:
        name: a name, a device (returned as it is), or None for the default: that of
            `default_device`, else `TEENY_DEVICE`, else the first installed of cpu, ndarray, null.

    Raises:
        DeviceError: when it is unknown, cannot be loaded, or two packages claim the name.
    """
    if name is None:  # first, for each launch of a kernel asks
        return _chosen.get() or _load(config.device_name() or _default())
    return name if isinstance(name, Device) else _load(name)


@contextmanager
def default_device(name: str | Device) -> Iterator[Device]:
    """Make a device the default in the block, for lazy tensors and for `compile`.

    Raises:
        DeviceError: when it is unknown or cannot be loaded.
    """
    chosen = device(name)
    token = _chosen.set(chosen)
    try:
        yield chosen
    finally:
        _chosen.reset(token)


def device_names() -> tuple[str, ...]:
    """Return the names of all installed devices, sorted."""
    return tuple(sorted(_points()))


@cache
def _default() -> str:
    known = _points()
    return next(name for name in (*_PREFERRED, *sorted(known)) if name in known)


@cache
def _points() -> dict[str, EntryPoint]:
    return unique(entry_points(GROUP))


def unique(points: list[EntryPoint]) -> dict[str, EntryPoint]:
    """Return entry points by name.

    Raises:
        DeviceError: when two of them share a name.
    """
    found: dict[str, EntryPoint] = {}
    for point in points:
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise DeviceError(
                f"two packages give a device named {point.name!r}: {other.value} and {point.value}",
                hint="uninstall one of them",
            )
    return found


@cache
def _load(name: str) -> Device:
    points = _points()
    if name not in points:
        raise DeviceError(
            f"no device is named {name!r}", hint=f"installed devices: {', '.join(sorted(points))}"
        )
    try:
        kind = points[name].load()
    except (ImportError, AttributeError) as error:
        raise DeviceError(
            f"the device {name!r} cannot be loaded: {error}",
            hint=f"reinstall the package that provides {points[name].value}",
        ) from error
    made: Device = kind()
    return made
