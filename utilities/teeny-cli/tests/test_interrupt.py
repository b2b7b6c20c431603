import os
import signal

import pytest
from teeny_cli.interrupt import Interrupt


def press() -> None:
    """Press ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def test_before_deferring_it_interrupts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt():
        press()


def test_a_first_is_a_request_and_a_second_interrupts() -> None:
    with Interrupt() as interrupt:
        interrupt.defer()
        interrupt.defer()
        assert not interrupt.requested
        press()
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            press()


def test_afterwards_all_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        interrupt.defer()
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
