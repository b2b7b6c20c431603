from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
import teeny_cpu
from teeny_bench import machine, peers, runner
from teeny_bench.case import Case, MismatchError, Sides
from teeny_bench.runner import Options, run_suites, select
from teeny_core import ConfigError

OPTIONS = Options(threads=2, seconds=0.0)


class Record:
    """What the runner did, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def suite(self, *values: float) -> runner.Suite:
        """Return a suite of cases `value 0`, … whose peer gives 1."""

        def cases(peer: str) -> Iterator[Case]:
            for index, value in enumerate(values):
                yield Case(f"value {index}", lambda value=value: self.build(peer, value))

        return cases

    def build(self, peer: str, value: float) -> Sides:
        self.log.append(f"build for {peer}")
        ours, theirs = np.array([value]), np.array([1.0])
        return Sides(lambda: ours, lambda: theirs, lambda: ([ours], [theirs]))


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Record:
    record = Record()
    monkeypatch.setattr(peers, "prepare", lambda *a: record.log.append(f"prepare {a}"))
    monkeypatch.setattr(peers, "forget", lambda: record.log.append("forget"))
    monkeypatch.setattr(teeny_cpu, "set_num_threads", lambda n: record.log.append(f"threads {n}"))
    monkeypatch.setattr(machine, "share_of_limit", lambda *a: "a note")
    return record


def test_each_case_is_built_alone_and_forgotten(record: Record) -> None:
    rows = list(run_suites({"a": record.suite(1.0, 1.0)}, OPTIONS))
    assert [(row.suite, row.name, row.threads, row.note) for row in rows] == [
        ("a", "value 0", 2, "a note"),
        ("a", "value 1", 2, "a note"),
    ]
    assert record.log == [
        "prepare ('torch', 2)",
        *["threads 2", "build for torch", "threads 2", "forget"] * 2,
    ]


def test_only_chosen_cases_are_built(record: Record) -> None:
    (row,) = run_suites({"a": record.suite(1.0, 1.0)}, Options(seconds=0.0, only="1"))
    assert row.name == "value 1"
    assert record.log.count("build for torch") == 1


def test_a_mismatch_is_raised(record: Record) -> None:
    with pytest.raises(MismatchError, match="value 0: output 0 differs"):
        list(run_suites({"a": record.suite(2.0)}, OPTIONS))


def test_a_mismatch_can_leave_the_other_rows_alone(record: Record) -> None:
    errors: list[MismatchError] = []
    rows = list(
        run_suites(
            {"a": record.suite(2.0), "b": record.suite(1.0)}, OPTIONS, on_mismatch=errors.append
        )
    )
    assert [row.suite for row in rows] == ["b"]
    assert len(errors) == 1


def test_cases_are_announced(record: Record) -> None:
    names: list[str] = []
    list(
        run_suites(
            {"a": record.suite(1.0)}, OPTIONS, announce=lambda name: nullcontext(names.append(name))
        )
    )
    assert names == ["a value 0"]


def test_selection(record: Record) -> None:
    suites = {"a": record.suite(), "b": record.suite()}
    assert select("all", suites) == suites
    assert select("b", suites).keys() == {"b"}
    with pytest.raises(ConfigError, match="no suite is called 'c'\nhint: one of a, b, or all"):
        select("c", suites)
