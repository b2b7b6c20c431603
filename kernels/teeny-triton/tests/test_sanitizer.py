"""What the sanitizer finds in kernels with a known defect, and that it finds nothing in good ones.

The line of each defect is marked in its source by a comment with the name of its kind.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import teeny_triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_triton import (
    Finding,
    KernelError,
    Ptr,
    SanitizerError,
    bf16,
    bool_,
    build_function,
    constexpr,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    interpret,
    ir,
    kernel,
    sanitize,
)
from teeny_triton.decorator import Kernel


def findings(function: ir.Function, grid: Sequence[int], arguments: Any) -> tuple[Finding, ...]:
    with pytest.raises(SanitizerError) as caught:
        sanitize(function, grid, arguments)
    return caught.value.findings


def marked(k: Kernel, kind: str) -> list[int]:
    """Lines of a kernel's source that end in a comment with a name."""
    lines, first = inspect.getsourcelines(k.fn)
    return [first + i for i, line in enumerate(lines) if line.rstrip().endswith(f"# {kind}")]


def places(found: Sequence[Finding], kind: str) -> list[int]:
    return sorted(f.location.line for f in found if f.kind == kind and f.location)


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@kernel
def copy(x: Ptr[f32], y: Ptr[f32], n: i32, BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, value, mask=i < n)


@kernel
def unmasked(x: Ptr[f32], y: Ptr[f32], BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i)  # bounds
    tl.store(y + i, value)  # bounds


def test_every_access_out_of_bounds_is_told_at_once() -> None:
    x, y = floats(100), np.zeros(90, np.float32)
    found = findings(unmasked.function(BLOCK=64), (2,), [x, y])
    assert places(found, "bounds") == marked(unmasked, "bounds")
    load, store = found
    assert (load.tensor, load.index, load.program, load.lane) == ("x", (100,), (1, 0, 0), (36,))
    assert (store.tensor, store.index, store.program, store.lane) == ("y", (90,), (1, 0, 0), (26,))
    assert load.hint == "mask the access: mask=offset < n"
    np.testing.assert_array_equal(y, x[:90])  # what is right has been done


def test_a_bad_load_gives_zero_and_no_more_findings() -> None:
    with build_function("k", [("at", Ptr[i32]), ("x", Ptr[f32])]) as f:
        at, x = f.arguments
        tl.store(x + tl.load(at + 5) * 1000, 3.0)
    x = floats(4)
    (found,) = findings(f.function, (1,), [np.int32([1]), x])
    assert (found.kind, found.tensor, found.index) == ("bounds", "at", (5,))
    assert x[0] == 3


def test_the_message_shows_source_caret_and_place() -> None:
    with pytest.raises(SanitizerError) as caught:
        sanitize(copy.function(BLOCK=4), (2,), [floats(6), np.zeros(8, np.float32), 7])
    (line,) = (f.location.line for f in caught.value.findings if f.location)
    assert str(caught.value) == (
        "copy: 1 finding\n"
        f"{__file__}:{line}:13: load reads x[6], outside of its shape (6,)\n"
        "    value = tl.load(x + i, mask=i < n)\n"
        "            ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "    in program (1, 0, 0), lane 2\n"
        "    hint: its mask lets the lane through"
    )


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_good_masks_are_good(n: int) -> None:
    y = np.zeros(n, np.float32)
    sanitize(copy.function(BLOCK=4), (2,), [floats(n), y, n])
    np.testing.assert_array_equal(y, floats(n))


@kernel
def rows(x: Ptr[f32], stride: i32, columns: i32, BLOCK: constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    at = x + row * stride + column
    tl.store(at, tl.load(at) + 1, mask=column < columns)  # gap


def test_gaps_between_the_elements_of_a_view_are_not_its_own() -> None:
    whole = floats(4, 8)
    view = whole[:, :5]
    sanitize(rows.function(BLOCK=5), (4,), [view, 8, 5])
    found = findings(rows.function(BLOCK=8), (4,), [view, 8, 8])
    assert places(found, "gap") == marked(rows, "gap") * 2
    assert {(f.tensor, f.index, f.lane, f.count) for f in found if f.kind == "gap"} == {
        ("x", (5,), (5,), 3)  # past the last row it is out of bounds
    }
    assert "reads x + 5, which lies between" in found[0].message


def test_indices_are_those_of_the_tensor() -> None:
    transposed = floats(4, 8).T
    found = findings(rows.function(BLOCK=5), (9,), [floats(8, 5), 5, 5])
    assert {f.index for f in found} == {(8, 0)}
    found = findings(rows.function(BLOCK=2), (4,), [transposed, 1, 2])
    assert {(f.kind, f.index, f.program) for f in found} == {("race", (1, 0), (1, 0, 0))}


def test_negative_strides_and_broadcasts_are_tensors_too() -> None:
    backwards = floats(6)[::-1]
    with build_function("k", [("x", Ptr[f32]), ("y", Ptr[f32])]) as f:
        x, y = f.arguments
        tl.store(y + tl.arange(0, 6), tl.load(x - tl.arange(0, 6)))
    y = np.zeros(6, np.float32)
    sanitize(f.function, (1,), [backwards, y])
    np.testing.assert_array_equal(y, backwards)
    found = findings(copy.function(BLOCK=2), (1,), [backwards, y, 2])
    assert [(f.kind, f.index) for f in found] == [("bounds", (1,))]
    repeated = np.broadcast_to(np.float32([3]), (6,))
    sanitize(copy.function(BLOCK=1), (1,), [repeated, y, 1])


@kernel
def overlapping(x: Ptr[f32], y: Ptr[f32], BLOCK: constexpr):
    i = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))  # race


def test_two_programs_that_write_one_element_race() -> None:
    found = findings(overlapping.function(BLOCK=4), (3,), [floats(10), np.zeros(10, np.float32)])
    assert places(found, "race") == marked(overlapping, "race")
    (race,) = found
    assert (race.tensor, race.index, race.program, race.lane) == ("y", (3,), (1, 0, 0), (0,))
    assert "which program (0, 0, 0) has written (the same value)" in race.message
    assert race.count == 2


@kernel
def shift(x: Ptr[f32], BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    following = tl.load(x + i + 1)
    tl.store(x + i, following)  # race


@kernel
def shift_back(x: Ptr[f32], BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    preceding = tl.load(x + i)  # race
    tl.store(x + i + 1, preceding)


@pytest.mark.parametrize(("k", "said"), [(shift, "has read"), (shift_back, "has written")])
def test_reading_what_another_program_writes_is_a_race(k: Kernel, said: str) -> None:
    found = findings(k.function(BLOCK=4), (2,), [floats(9)])
    assert places(found, "race") == marked(k, "race")
    assert found[0].index == (4,)
    assert f"which program (0, 0, 0) {said} in line" in found[0].message
    sanitize(k.function(BLOCK=8), (1,), [floats(9)])  # one program has no rival


def test_races_are_found_in_memory_that_two_arguments_share() -> None:
    base = floats(9)
    facts = {"x": tl.control.Facts(noalias=False), "y": tl.control.Facts(noalias=False)}
    function = copy.function(facts, BLOCK=4)
    found = findings(function, (2,), [base[1:], base[:8], 8])
    assert [(f.kind, f.tensor, f.index) for f in found] == [("race", "y", (4,))]
    sanitize(function, (2,), [base[:8], base[:8], 8])


@kernel
def words_and_bytes(x: Ptr[f32], b: Ptr[i8]):
    pid = tl.program_id(0)
    tl.store(x + pid, 1.0)  # race
    tl.store(b + pid * 4 + 5, 1)


def test_races_are_found_between_types() -> None:
    x = floats(8)
    facts = {"x": tl.control.Facts(noalias=False), "b": tl.control.Facts(noalias=False)}
    found = findings(words_and_bytes.function(facts), (3,), [x, x.view(np.int8)])
    assert places(found, "race") == marked(words_and_bytes, "race")
    assert (found[0].tensor, found[0].index, found[0].program) == ("x", (1,), (1, 0, 0))
    sanitize(words_and_bytes.function(), (3,), [x, np.zeros(32, np.int8)])


def test_a_scalar_and_nothing_are_tensors_too() -> None:
    with build_function("k", [("x", Ptr[f32]), ("n", i32)]) as f:
        tl.store(f.arguments[0], 1.0, mask=f.arguments[1] > 0)
    scalar = np.zeros((), np.float32)
    sanitize(f.function, (1,), [scalar, 1])
    assert scalar == 1
    (found,) = findings(f.function, (2,), [scalar, 1])
    assert (found.kind, found.index) == ("race", (0,))
    sanitize(f.function, (1,), [floats(0), 0])
    (found,) = findings(f.function, (1,), [floats(0, 3), 1])
    assert (found.kind, found.message) == (
        "bounds",
        "store writes x[0], outside of its shape (0, 3)",
    )


@pytest.mark.parametrize("dtype", [bf16, f8e5m2, f16, f64, i8, i64, bool_])
def test_every_type_of_element(dtype: Any) -> None:
    with build_function("k", [("x", Ptr[dtype])]) as f:
        place = f.arguments[0] - tl.program_id(0) * 3 + tl.arange(0, 4)
        tl.store(place, tl.load(place))
    flipped = np.zeros((3, 3), dtype.numpy)[::-1]
    found = findings(f.function, (3,), [flipped])
    assert {(f.kind, f.index) for f in found} == {("bounds", (3,)), ("race", (0, 0))}


@kernel
def total(x: Ptr[f32], out: Ptr[f32], BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i * 0, tl.load(x + i))


@kernel
def total_and_store(x: Ptr[f32], out: Ptr[f32], BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i * 0, tl.load(x + i))  # race
    tl.store(out, 0.0)  # race


def test_atomics_race_only_with_plain_accesses() -> None:
    out = np.zeros(1, np.float32)
    sanitize(total.function(BLOCK=4), (4,), [floats(16), out])
    assert out[0] == 120
    found = findings(total_and_store.function(BLOCK=4), (4,), [floats(16), out])
    assert places(found, "race") == marked(total_and_store, "race")


@kernel
def locked(lock: Ptr[i32], x: Ptr[f32], BLOCK: constexpr):
    i = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(x + i, tl.load(x + i) + 1)
    tl.atomic_xchg(lock, 0)


@kernel
def last_one_sums(x: Ptr[f32], parts: Ptr[f32], count: Ptr[i32], out: Ptr[f32], N: constexpr):
    pid = tl.program_id(0)
    tl.store(parts + pid, tl.load(x + pid) * 2)
    if tl.atomic_add(count, 1) == N - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, N)), axis=0))
        tl.store(count, 0)  # all others are past it


@kernel
def unlocked(lock: Ptr[i32], x: Ptr[f32], BLOCK: constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_xchg(lock, 0)
    value = tl.load(x + i)  # race
    tl.store(x + i, value + 1)  # race


@kernel
def signalling(x: Ptr[f32], flag: Ptr[i32], y: Ptr[f32], GIVE: constexpr, TAKE: constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(x, 5.0)
        tl.atomic_xchg(flag, 1, sem=GIVE)
    else:
        tl.atomic_add(flag, 0, sem=TAKE)
        tl.store(y + pid, tl.load(x))


@pytest.mark.parametrize("give", ["acq_rel", "release", "acquire", "relaxed"])
@pytest.mark.parametrize("take", ["acq_rel", "release", "acquire", "relaxed"])
def test_memory_orders(give: str, take: str) -> None:
    """The first program writes and sets a flag; the others see it and read."""
    function = signalling.function(GIVE=give, TAKE=take)
    arguments = [floats(1), np.zeros(1, np.int32), floats(3)]
    ordered = give in ("acq_rel", "release") and take in ("acq_rel", "acquire")
    if ordered:
        sanitize(function, (3,), arguments)
        assert (arguments[2] == [0, 5, 5]).all()
    else:
        found = findings(function, (3,), arguments)
        assert [(f.kind, f.tensor, f.count) for f in found] == [("race", "x", 2)]


def test_scalar_atomics_order_what_is_before_and_after_them() -> None:
    x = np.zeros(4, np.float32)
    sanitize(locked.function(BLOCK=4), (5,), [np.zeros(1, np.int32), x])
    assert (x == 5).all()
    out = np.zeros(1, np.float32)
    parts, count = np.zeros(8, np.float32), np.zeros(1, np.int32)
    sanitize(last_one_sums.function(N=8), (8,), [floats(8), parts, count, out])
    assert (out[0], count[0]) == (2 * 28, 0)
    found = findings(unlocked.function(BLOCK=4), (2,), [np.zeros(1, np.int32), x])
    assert places(found, "race") == marked(unlocked, "race")


@kernel
def far(x: Ptr[f32], stride: i32, n: i32):
    pid = tl.program_id(0)
    offset = pid * stride  # overflow
    tl.store(x + offset, 1.0, mask=pid < n)


@kernel
def far_and_right(x: Ptr[f32], stride: i32, n: i32):
    pid = tl.program_id(0)
    tl.store(x + pid.to(tl.int64) * stride, 1.0, mask=pid < n)


@kernel
def far_in_a_loop(x: Ptr[f32], stride: i32, steps: i32):
    at, offset = x, 0
    for _ in range(steps):
        at = x + offset
        offset = offset + stride  # overflow
    tl.store(at, 1.0)


def test_offsets_that_do_not_fit_32_bits() -> None:
    x = floats(4)
    wrapped = findings(far.function(), (5,), [x, 1 << 30, 5])
    (found,) = (f for f in wrapped if f.kind == "overflow")
    assert [found.location and found.location.line] == marked(far, "overflow")
    assert found.program == (2, 0, 0)
    sanitize(far.function(), (5,), [x, 1 << 30, 1])  # where it overflows, it is masked
    kinds = {f.kind for f in findings(far_and_right.function(), (5,), [x, 1 << 30, 5])}
    assert kinds == {"bounds"}
    found = next(
        f for f in findings(far_in_a_loop.function(), (1,), [x, 1 << 30, 5]) if f.kind == "overflow"
    )
    assert [found.location and found.location.line] == marked(far_in_a_loop, "overflow")


@kernel
def hashed(x: Ptr[f32], n: i32, BLOCK: constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = ((i + 12345) * 1103515245 & 0x7FFFFFFF) % n
    tl.atomic_add(x + slot, 1.0)


@kernel
def chosen(x: Ptr[f32], stride: i32, n: i32, BLOCK: constexpr):
    i = tl.arange(0, BLOCK)
    if n > 0:
        offset = i[:, None] * stride  # overflow
    else:
        offset = i[:, None] + stride
    place = x + tl.where(i[:, None] < n, tl.trans(tl.broadcast_to(offset, (BLOCK, 2)).T), 0)
    total = tl.reduce(tl.load(x + i), 0, lambda a, b: a + b)
    tl.store(place, total)


def test_overflow_is_followed_through_branches_and_movements() -> None:
    x = floats(4)
    found = findings(chosen.function(BLOCK=4), (1,), [x, 1 << 30, 3])
    lines = [f.location.line for f in found if f.kind == "overflow" and f.location]
    assert lines == marked(chosen, "overflow")
    kinds = {f.kind for f in findings(chosen.function(BLOCK=4), (1,), [x, 1 << 30, 2])}
    assert kinds == {"bounds"}  # the lanes that overflow are not chosen


def test_hashes_may_wrap() -> None:
    x = np.zeros(7, np.float32)
    sanitize(hashed.function(BLOCK=64), (2,), [x, 7])
    assert x.sum() == 128


@kernel
def wide_overflow(x: Ptr[f32], step: i64):
    tl.store(x + step * 4, 1.0)  # overflow
    tl.store(x + (step + step), 1.0)  # overflow
    tl.store(x + (step << 2), 1.0)  # overflow
    tl.store(x + (-2 - step), 1.0)  # overflow
    tl.store(x + step.to(tl.int32), 1.0)  # overflow


def test_other_overflows() -> None:
    found = findings(wide_overflow.function(), (1,), [floats(4), (1 << 63) - 1])
    assert places(found, "overflow") == marked(wide_overflow, "overflow")


def test_scratch_memory_is_read_after_it_is_written() -> None:
    with build_function("k", [("y", Ptr[f32])]) as f:
        lanes = tl.arange(0, 8)
        some = tl.scratch(8, f32)
        tl.store(some + lanes, 1.0, mask=lanes != 5)
        tl.store(f.arguments[0] + tl.program_id(0) * 8 + lanes, tl.load(some + lanes))
    (found,) = findings(f.function, (2,), [np.zeros(16, np.float32)])
    assert (found.kind, found.tensor, found.index) == ("uninitialised", "scratch", (5,))
    assert found.count == 2
    assert str(found) == (
        "load reads scratch[5] before it is written\n    in program (0, 0, 0), lane 5; "
        "2 programs do so"
    )


@kernel
def checked(x: Ptr[f32], BLOCK: constexpr):
    value = tl.load(x + tl.arange(0, BLOCK)[:, None] * 2 + tl.arange(0, 2)[None, :])
    tl.device_assert(value < 5, "too large")  # assertion
    assert tl.sum(tl.sum(value, axis=1), axis=0) < 0, "positive"  # assertion


@kernel
def through_numbers(x: Ptr[f32], address: i64):
    value = tl.load(address.to(tl.pointer_type(tl.float32)))  # pointer
    tl.store(x, value)


@kernel
def split_elements(x: Ptr[f32]):
    byte = x.to(tl.pointer_type(tl.int8)) + 2
    tl.store(byte, 5)
    tl.store(byte.to(tl.pointer_type(tl.int32)), 5)  # alignment
    tl.store(byte + 14, 5)  # bounds


def test_null_and_misaligned_pointers() -> None:
    x, elsewhere = floats(4), np.float32([7])
    found = findings(through_numbers.function(), (1,), [x, 0])
    assert places(found, "pointer") == marked(through_numbers, "pointer")
    assert "through a null pointer" in found[0].message
    sanitize(through_numbers.function(), (1,), [x, elsewhere.ctypes.data])  # of a tensor unknown
    assert x[0] == 7
    found = findings(split_elements.function(), (1,), [x])
    assert [f.kind for f in found] == ["alignment", "bounds"]
    for kind in ("alignment", "bounds"):
        assert places(found, kind) == marked(split_elements, kind)
    assert x.view(np.int8)[2] == 5


def test_failed_assertions_are_findings() -> None:
    found = findings(checked.function(BLOCK=4), (1,), [floats(8)])
    assert places(found, "assertion") == marked(checked, "assertion")
    assert (found[0].lane, found[1].lane) == ((2, 1), ())
    assert [f.message for f in found] == [
        "device_assert failed: too large",
        "device_assert failed: positive",
    ]


def test_findings_have_a_limit() -> None:
    with build_function("k", [("x", Ptr[f32])]) as f:
        for _ in range(20):
            tl.store(f.arguments[0] + 9, 1.0)
    assert len(findings(f.function, (3,), [floats(4)])) == 10
    with pytest.raises(SanitizerError, match="k: 3 findings, and there may be more") as caught:
        sanitize(f.function, (3,), [floats(4)], limit=3)
    assert len(caught.value.findings) == 3


def test_wrong_arguments_are_no_findings() -> None:
    with pytest.raises(KernelError, match="copy takes 3 arguments") as caught:
        sanitize(copy.function(BLOCK=4), (1,), [floats(4), floats(4)])
    assert not isinstance(caught.value, SanitizerError)


def test_an_error_after_findings_is_one_of_them() -> None:
    with build_function("k", [("x", Ptr[f32]), ("n", i32)]) as f:
        x, n = f.arguments
        tl.store(x + 9, 1.0)
        with tl.loop(0, 4, n) as (i, _):
            tl.store(x + i, 2.0)
    found = findings(f.function, (1,), [floats(4), 0])
    assert [f.kind for f in found] == ["bounds", "error"]
    assert "steps by 0" in found[1].message


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 40),
    block=st.integers(1, 16),
    shift=st.integers(-3, 3),
    masked=st.booleans(),
    dtype=st.sampled_from([f16, f32, i32]),
)
def test_bounds_agree_with_arithmetic(
    n: int, block: int, shift: int, masked: bool, dtype: Any
) -> None:
    programs = -(-n // block)
    with build_function("k", [("x", Ptr[dtype]), ("n", i32)]) as f:
        x, size = f.arguments
        i = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(x + i + shift, 1, mask=(i < size) if masked else None)
    touched = np.arange(min(n, programs * block) if masked else programs * block) + shift
    bad = touched[(touched < 0) | (touched >= n)]
    x = np.zeros(n, dtype.numpy)
    if not bad.size:
        sanitize(f.function, (programs,), [x, n])
        return
    (found,) = findings(f.function, (programs,), [x, n])
    assert (found.kind, found.index) == ("bounds", (bad[0],))
    assert found.count == len(np.unique((bad - shift) // block))
    expected = np.isin(np.arange(n), touched)
    np.testing.assert_array_equal(x == 1, expected)


@settings(max_examples=30, deadline=None)
@given(
    places=st.lists(st.integers(0, 5), min_size=2, max_size=6),
    writes=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_races_agree_with_their_definition(places: list[int], writes: list[bool]) -> None:
    """Program i touches element places[i], and writes it where writes[i]."""
    with build_function("k", [("x", Ptr[f32]), ("at", Ptr[i32]), ("write", Ptr[i32])]) as f:
        x, at, write = f.arguments
        pid = tl.program_id(0)
        here, does = tl.load(at + pid), tl.load(write + pid)
        tl.store(x + here, 1.0, mask=does != 0)
        tl.device_assert(tl.load(x + here, mask=does == 0) < 9)
    count = len(places)
    races = [
        any(places[j] == places[i] and (writes[i] or writes[j]) for j in range(i))
        for i in range(count)
    ]
    arguments = [floats(6), np.int32(places), np.int32(writes[:count])]
    if not any(races):
        sanitize(f.function, (count,), arguments)
        return
    found = findings(f.function, (count,), arguments)
    assert {f.kind for f in found} == {"race"}
    assert sum(f.count for f in found) == sum(races)
    assert min(f.program[0] for f in found) == races.index(True)


# --- launches ---


@kernel(sanitize=True)
def guarded(x: Ptr[f32], BLOCK: constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)


def test_a_kernel_may_ask_for_it() -> None:
    guarded[(1,)](x := floats(4), BLOCK=4)
    assert (x == 1).all()
    with pytest.raises(SanitizerError, match=r"x\[4\], outside of its shape \(4,\)"):
        guarded[(1,)](floats(4), BLOCK=8)


def test_the_environment_may_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEENY_SANITIZE", "1")
    with pytest.raises(SanitizerError):
        unmasked[(2,)](floats(100), np.zeros(100, np.float32), BLOCK=64)
    monkeypatch.setenv("TEENY_SANITIZE", "0")
    monkeypatch.setenv("TEENY_INTERPRET", "1")
    with pytest.raises(KernelError) as caught:
        unmasked[(2,)](floats(100), np.zeros(100, np.float32), BLOCK=64)
    assert not isinstance(caught.value, SanitizerError)


def test_without_it_nothing_of_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any) -> None:
        raise AssertionError("sanitised")

    monkeypatch.setattr("teeny_triton.decorator.sanitize", never)
    monkeypatch.setenv("TEENY_INTERPRET", "1")
    copy[(1,)](floats(4), y := np.zeros(4, np.float32), 4, BLOCK=4)
    np.testing.assert_array_equal(y, floats(4))


# --- good kernels: their results are those of the interpreter ---


@kernel
def softmax(x: Ptr[f32], y: Ptr[f32], columns: i32, BLOCK: constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * columns + column, mask=inside, other=-float("inf"))
    raised = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * columns + column, raised / tl.sum(raised, axis=0), mask=inside)


@kernel
def matmul(a: Ptr[f32], b: Ptr[f32], c: Ptr[f32], M: i32, N: i32, K: i32, B: constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    column = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    left, right = a + row * K + tl.arange(0, B)[None, :], b + tl.arange(0, B)[:, None] * N + column
    acc = tl.zeros((B, B), f32)
    for start in range(0, K, B):
        depth = start + tl.arange(0, B)
        x = tl.load(left, mask=(row < M) & (depth[None, :] < K), other=0.0)
        y = tl.load(right, mask=(depth[:, None] < K) & (column < N), other=0.0)
        acc = tl.dot(x, y, acc)
        left, right = left + B, right + B * N
    tl.store(c + row * N + column, acc, mask=(row < M) & (column < N))


@kernel
def layer_norm_backward(
    dx: Ptr[f32], dy: Ptr[f32], dw: Ptr[f32], x: Ptr[f32], w: Ptr[f32], locks: Ptr[i32],
    N: i32, GROUPS: constexpr, BLOCK: constexpr,
):  # fmt: skip
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < N
    at = row * N + column
    value = tl.load(x + at, mask=inside, other=0.0)
    gradient = tl.load(dy + at, mask=inside, other=0.0)
    mean = tl.sum(value, axis=0) / N
    centred = tl.where(inside, value - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / N + 1e-5)
    normal = centred * scale
    weighted = tl.load(w + column, mask=inside, other=0.0) * gradient
    along = tl.sum(normal * weighted, axis=0) / N
    constant = tl.sum(weighted, axis=0) / N
    tl.store(dx + at, (weighted - normal * along - constant) * scale, mask=inside)
    group = row % GROUPS
    lock, count = locks + group, locks + GROUPS + group
    partial = dw + group * N + column
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    total = gradient * normal
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        total += tl.load(partial, mask=inside)
    tl.store(partial, total, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@kernel
def attention(q: Ptr[f32], k: Ptr[f32], v: Ptr[f32], out: Ptr[f32], N: i32, D: constexpr,
              ROWS: constexpr, COLUMNS: constexpr):  # fmt: skip
    row, depth = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    queries = tl.load(q + row[:, None] * D + depth[None, :], mask=row[:, None] < N, other=0.0)
    largest = tl.full((ROWS,), -float("inf"), f32)
    total, acc = tl.zeros((ROWS,), f32), tl.zeros((ROWS, D), f32)
    for start in range(0, N, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        place, inside = column[:, None] * D + depth[None, :], column[:, None] < N
        scores = tl.dot(queries, tl.load(k + place, mask=inside, other=0.0).T)
        scores = tl.where(column[None, :] < N, scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        share, raised = tl.exp(largest - larger), tl.exp(scores - larger[:, None])
        total = total * share + tl.sum(raised, axis=1)
        acc = tl.dot(raised, tl.load(v + place, mask=inside, other=0.0), acc * share[:, None])
        largest = larger
    place = row[:, None] * D + depth[None, :]
    tl.store(out + place, acc / total[:, None], mask=row[:, None] < N)


def test_the_locked_sums_of_layer_norm_have_no_findings() -> None:
    rng = np.random.default_rng(0)
    x, dy = (rng.standard_normal((9, 20)).astype(np.float32) for _ in range(2))
    w = rng.standard_normal(20).astype(np.float32)
    dx, dw = np.zeros_like(x), np.zeros((2, 20), np.float32)
    function = layer_norm_backward.function(GROUPS=2, BLOCK=32)
    sanitize(function, (9,), [dx, dy, dw, x, w, np.zeros(4, np.int32), 20])

    def weighed(x: Any, w: Any) -> Any:
        """What dy weighs of the layer's output, for rows of x along the first axis."""
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return (normal * w * dy).sum((-2, -1))

    step, wide, weight = 1e-6, x.astype(np.float64), w.astype(np.float64)
    moves = step * np.eye(x.size).reshape(-1, *x.shape)
    slopes = (weighed(wide + moves, weight) - weighed(wide - moves, weight)) / (2 * step)
    np.testing.assert_allclose(dx, slopes.reshape(x.shape), atol=1e-5)
    moves = step * np.eye(20)[:, None]
    slopes = (weighed(wide, weight + moves) - weighed(wide, weight - moves)) / (2 * step)
    np.testing.assert_allclose(dw.sum(axis=0), slopes, atol=1e-5)


def test_attention_has_no_findings() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((21, 8)).astype(np.float32) for _ in range(3))
    out = np.empty_like(q)
    sanitize(attention.function(D=8, ROWS=8, COLUMNS=16), (3,), [q, k, v, out, 21])
    scores = q.astype(np.float64) @ k.T
    share = np.exp(scores - scores.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out, share @ v, atol=1e-5)


def test_good_kernels_have_no_findings() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 100), np.float32)
    y, expected = np.empty_like(x), np.empty_like(x)
    sanitize(softmax.function(BLOCK=128), (7,), [x, y, 100])
    interpret(softmax.function(BLOCK=128), (7,), [x, expected, 100])
    np.testing.assert_array_equal(y, expected)
    a, b = rng.standard_normal((33, 40), np.float32), rng.standard_normal((40, 21), np.float32)
    c = np.empty((33, 21), np.float32)
    sanitize(matmul.function(B=16), (3, 2), [a, b, c, 33, 21, 40])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
