"""The arena: nothing that lives at one time overlaps, for any size of the symbols."""

from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler.schedule.memory import Lifetime, pack
from teeny_core import Dim, substitute, symbol

N = symbol("n")


@st.composite
def lifetimes(draw: st.DrawFn) -> Lifetime:
    first = draw(st.integers(0, 12))
    size: Dim = draw(st.sampled_from([0, 4, 64, 100, 3136])) + N * draw(
        st.sampled_from([0, 4, 40, 480, 18816])
    )
    return Lifetime(size, first, first + draw(st.integers(0, 5)))


@settings(max_examples=60, deadline=None)
@given(st.lists(lifetimes(), max_size=14), st.sampled_from([0, 1, 3, 64, 1000]))
def test_live_buffers_are_apart(buffers: list[Lifetime], n: int) -> None:
    arena = pack(buffers)
    at = {"n": n}
    placed = [
        (substitute(offset, at), substitute(buffer.size, at), buffer)
        for offset, buffer in zip(arena.offsets, buffers, strict=True)
    ]
    for i, (start, size, buffer) in enumerate(placed):
        assert start % 64 == 0
        assert start + size <= substitute(arena.size, at)
        for other_start, other_size, other in placed[:i]:
            if buffer.first <= other.last and other.first <= buffer.last:
                assert start + size <= other_start or other_start + other_size <= start


def test_memory_is_reused() -> None:
    chain = [Lifetime(4096 * N, step, step + 1) for step in range(10)]
    arena = pack(chain)
    assert arena.size == 8192 * N == arena.bound


def test_fixed_sizes_reach_the_lower_bound() -> None:
    arena = pack([Lifetime(128, 0, 2), Lifetime(64, 0, 0), Lifetime(64, 1, 1), Lifetime(64, 2, 2)])
    assert arena.size == arena.bound == 192


def test_the_lower_bound_is_that_of_the_fullest_step_for_each_size() -> None:
    """A large buffer of fixed size counts where the symbol is small, a symbolic one elsewhere."""
    arena = pack([Lifetime(1 << 16, 0, 0), Lifetime(4096 * N, 1, 1), Lifetime(4096 * N, 1, 2)])
    for n, live in ((1, 1 << 16), (32, 8192 * 32), (1024, 8192 * 1024)):
        assert substitute(arena.bound, {"n": n}) == live
        assert live <= substitute(arena.size, {"n": n}) <= live + (1 << 16)
