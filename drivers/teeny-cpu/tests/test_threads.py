"""The number of threads from cores, affinity and quota, on made-up systems."""

from pathlib import Path

import pytest
from teeny_cpu import threads


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def siblings(cpu: int) -> str:
    return f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"


def test_hardware_threads_of_one_core_count_once(tmp_path: Path) -> None:
    root = write(tmp_path, {siblings(cpu): f"{cpu % 2},{cpu % 2 + 2}" for cpu in range(4)})
    assert threads.physical_cores({0, 1, 2, 3}, root) == 2
    assert threads.physical_cores({0, 2}, root) == 1


def test_cpus_of_unknown_topology_count_each(tmp_path: Path) -> None:
    assert threads.physical_cores({0, 1, 5}, tmp_path) == 3


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.max": "max 100000"}, None),
        ({"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.max": "150000 100000"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/cpu.max": "200000 100000",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
            },
            2.0,
        ),
        ({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"}, 0.5),
        (
            {
                "proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/job",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/hidden/job",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
)
def test_the_tightest_quota_of_the_control_groups(
    tmp_path: Path, files: dict[str, str], expected: float | None
) -> None:
    assert threads.quota(write(tmp_path, files)) == expected


def test_the_default_is_at_least_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEENY_NUM_THREADS", raising=False)
    files = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "10000 100000"}
    assert threads.default_threads(write(tmp_path, files)) == 1


def test_the_variable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_NUM_THREADS", "7")
    assert threads.default_threads() == 7
