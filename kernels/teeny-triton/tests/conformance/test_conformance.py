"""The table of the language is complete, and what it says is so."""

from __future__ import annotations

import operator
import types

import pytest
import teeny_triton as triton
import teeny_triton.language as tl

from .declarations import DECLARATIONS
from .harness import COLUMNS
from .report import FILE, GROUPS, KNOWN, cells, render

pytest.importorskip("teeny_cpu")

COLUMN_NAMES = tuple(map(str, COLUMNS))
WIDTH, INDENT = 7, 26
INTERNAL = frozenset(
    """aggregate atomic bits block_pointer combination constants contraction control creation debug
    descriptor dtypes elementary mapping memory methods patterns pointers promotion reduction scan
    semantic shape special static""".split()  # noqa: SIM905
)
"""Modules of the implementation, which Python binds as attributes of the package."""


def _listed() -> dict[tuple[str, str], str]:
    """Read the cells of the checked-in list."""
    table = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("  ") and line[2] != " ":
            name, row = line[2:INDENT].rstrip(), line[INDENT:].ljust(WIDTH * len(COLUMNS))
            for place, column in enumerate(COLUMN_NAMES):
                table[name, column] = row[place * WIDTH : (place + 1) * WIDTH].strip()
    return table


LISTED = _listed()


def test_every_public_name_has_a_row() -> None:
    public = {
        name
        for name, value in vars(tl).items()
        if not name.startswith("_")
        and not (isinstance(value, types.ModuleType) and name in INTERNAL)
    }
    functions = {case.function for group in GROUPS.values() for case in group}
    assert public - functions - set(DECLARATIONS) == set()
    assert (functions | set(DECLARATIONS)) - public == set()


def test_the_list_is_as_it_would_be_written() -> None:
    names = {case.name for group in GROUPS.values() for case in group}
    assert {name for name, _ in LISTED} == names
    assert render(LISTED) == FILE.read_text()
    assert {place for place, cell in LISTED.items() if cell == "FAIL"} == set(KNOWN)


@pytest.mark.parametrize("column", COLUMN_NAMES)
@pytest.mark.parametrize("group", GROUPS)
def test_column(
    group: str,
    column: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setenv("TEENY_DEVICE", "cpu")
    monkeypatch.setenv("TEENY_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "conformance"))
    found, wrong = cells(group, column)
    assert {name: why for name, why in wrong.items() if (name, column) not in KNOWN} == {}
    assert found == {name: LISTED[name, column] for name in found}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_declaration(name: str) -> None:
    assert DECLARATIONS[name]()


NAMES = """
    program_id num_programs arange full zeros cat join split interleave cast broadcast
    expand_dims permute trans reshape view ravel flip gather dot dot_scaled load store
    make_block_ptr advance make_tensor_descriptor where exp exp2 log log2 sin cos sqrt
    sqrt_rn rsqrt erf sigmoid tanh abs ceil floor fma fdiv div_rn umulhi cdiv clamp minimum
    maximum softmax math sum max min argmax argmin xor_sum reduce cumsum cumprod
    associative_scan sort topk histogram atomic_add atomic_and atomic_or atomic_xor
    atomic_max atomic_min atomic_xchg atomic_cas rand randn randint randint4x philox
    static_range range static_assert static_print device_assert device_print assume
    multiple_of max_contiguous max_constancy
""".split()  # noqa: SIM905
"""Everything of `triton.language` that is promised to run."""

OTHERS = """jit autotune heuristics Config cdiv next_power_of_2 reinterpret TensorWrapper
    testing.do_bench testing.assert_close testing.perf_report testing.Benchmark
    language.extra.libdevice language.math runtime.errors.OutOfResources runtime.autotuner.Autotuner
    compiler.errors.CompilationError tools.tensor_descriptor.TensorDescriptor""".split()  # noqa: SIM905
"""What kernels import from elsewhere in `triton`, by where they expect it."""


def test_every_promised_name_exists_and_has_a_row() -> None:
    passing = {
        name.partition(" ")[0] for (name, _), cell in LISTED.items() if cell not in ("", "-")
    }
    missing = [name for name in NAMES if name not in passing and name not in DECLARATIONS]
    assert missing == []
    for path in OTHERS:
        operator.attrgetter(path)(triton)
