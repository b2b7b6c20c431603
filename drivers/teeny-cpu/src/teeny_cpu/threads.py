"""How many threads this process may use well.

The default is the number of physical cores in the affinity mask, lowered to the quota of the
control group (containers): a second hardware thread of a core adds nothing to vector code, and
threads beyond the quota only make the kernel pause all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from teeny_core import config

ROOT = Path("/")

_Limit: TypeAlias = Callable[[Path], Iterator[float]]


def default_threads(root: Path = ROOT) -> int:
    """Return TEENY_NUM_THREADS, or what affinity, cores and quota allow; at least 1."""
    wanted = config.get().num_threads
    if wanted is not None:
        return wanted
    cores = physical_cores(allowed_cpus(), root)
    limit = quota(root)
    return max(1, cores if limit is None else min(cores, math.ceil(limit)))


def allowed_cpus() -> set[int]:
    """Return the logical CPUs of the affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def physical_cores(cpus: Iterable[int], root: Path = ROOT) -> int:
    """Count the cores behind `cpus`; a CPU of unknown topology counts as one."""
    return len({_siblings(cpu, root) for cpu in cpus})


def _siblings(cpu: int, root: Path) -> str:
    topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    return _read(topology) or str(cpu)


def quota(root: Path = ROOT) -> float | None:
    """Return the CPUs that the control groups of this process grant, None without a limit."""
    return min(_quotas(root), default=None)


def _quotas(root: Path) -> Iterator[float]:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits(root / "sys/fs/cgroup", path, _limit_v2)
        elif "cpu" in controllers.split(","):
            yield from _limits(root / "sys/fs/cgroup" / controllers, path, _limit_v1)
            yield from _limits(root / "sys/fs/cgroup/cpu", path, _limit_v1)


def _limits(mount: Path, path: str, read: _Limit) -> Iterator[float]:
    """Yield the limits of a group and all groups above it, as far as they are visible."""
    group = mount / path.lstrip("/")
    for folder in (group, *group.parents):
        if folder.is_relative_to(mount):
            yield from read(folder)


def _limit_v2(folder: Path) -> Iterator[float]:
    fields = _read(folder / "cpu.max").split()
    if len(fields) == 2 and fields[0] != "max":
        yield int(fields[0]) / int(fields[1])


def _limit_v1(folder: Path) -> Iterator[float]:
    allowed = _read(folder / "cpu.cfs_quota_us")
    period = _read(folder / "cpu.cfs_period_us")
    if allowed and period and int(allowed) > 0:
        yield int(allowed) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # not this kind of system
        return ""
