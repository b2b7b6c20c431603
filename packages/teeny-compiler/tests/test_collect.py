"""The collector is off while something is compiled, and as before afterwards."""

from __future__ import annotations

import gc

import pytest
from teeny_compiler.collect import collection_paused
from teeny_core import CompileError


def test_the_last_one_out_turns_it_on() -> None:
    assert gc.isenabled()
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_turns_it_on() -> None:
    @collection_paused()
    def fail() -> None:
        assert not gc.isenabled()
        raise CompileError("no")

    with pytest.raises(CompileError):
        fail()
    assert gc.isenabled()
