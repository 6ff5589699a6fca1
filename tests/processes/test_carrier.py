"""The carrier performs what it is handed in order, beside the main thread, and hands failures back."""

from __future__ import annotations

import threading

import pytest

from gossamer.engine.carrier import Carrier


def test_first_handed_over_is_first_performed_elsewhere() -> None:
    carrier, gate, done = Carrier(), threading.Event(), list[int]()
    first = carrier.begin(lambda: gate.wait(10))
    rest = [carrier.begin(lambda n=n: done.append(n) or threading.get_ident()) for n in range(50)]
    assert not first.done() and done == []  # handing over waits for nothing
    gate.set()
    assert first.result(10) is True
    assert {future.result(10) for future in rest}.isdisjoint({threading.get_ident()})
    assert done == list(range(50))
    carrier.close()


def test_what_goes_wrong_is_told_to_whoever_waits_and_the_next_goes_on() -> None:
    carrier = Carrier()
    wrong, right = carrier.begin(lambda: 1 / 0), carrier.begin(lambda: 7)
    with pytest.raises(ZeroDivisionError):
        wrong.result(10)
    assert right.result(10) == 7
    carrier.close()


def test_no_thread_is_left_and_none_is_started_for_nothing() -> None:
    before = threading.active_count()
    carrier = Carrier()
    assert threading.active_count() == before
    last = carrier.begin(lambda: 3)
    assert threading.active_count() == before + 1
    carrier.close()
    assert threading.active_count() == before and last.result(0) == 3
