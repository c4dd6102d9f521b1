"""Ctrl-C as an event: counted while ranks run, never lost, never raised in the middle."""

import os
import select
import signal
import threading

import pytest

from realranks.ranks.kernel.interrupts import deferred


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_a_press_is_counted_and_raised_at_the_end_when_nobody_heeds_it():
    steps = []

    def ranks_run():
        with deferred() as stop:
            press()
            steps.append(stop.pressed)
        steps.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        ranks_run()
    assert steps == [True]


def test_a_heeded_press_is_over():
    with deferred() as stop:
        press()
        press()
        stop.acknowledge()
        assert not stop.pressed
        assert stop.count == 2


def test_a_press_wakes_whoever_waits():
    with deferred() as stop:
        press()
        assert select.select([stop], [], [], 5)[0]
        stop.take()
        assert not select.select([stop], [], [], 0)[0]
        stop.acknowledge()


def test_nested_blocks_share_one_counter():
    with deferred() as outer:
        with deferred() as inner:
            press()
        assert inner is outer
        assert outer.pressed
        outer.acknowledge()


def test_afterwards_ctrl_c_is_what_it_was():
    before = signal.getsignal(signal.SIGINT)
    with deferred():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_inside_is_not_hidden_by_a_press():
    def ranks_run():
        with deferred():
            press()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        ranks_run()


def test_every_thread_has_a_counter_of_its_own():
    seen = []

    def other():
        with deferred() as stop:
            seen.append(stop)

    with deferred() as stop:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen[0] is not stop
        assert select.select([stop], [], [], 0)[0] == []
