"""The carrier performs what it is handed in order, beside the main thread, and hands failures back."""

from __future__ import annotations

import threading

import pytest

from gossamer.engine.carrier import Carrier


def test_first_handed_over_is_first_performed_beside_the_main_thread() -> None:
    carrier, gate, last, done = Carrier(), threading.Event(), threading.Event(), list[int]()
    first = carrier.begin(lambda: gate.wait(10))
    rest = [carrier.begin(lambda n=n: done.append(n) or threading.get_ident()) for n in range(50)]
    carrier.begin(last.set)
    assert not first.future.done() and done == []  # handing over waits for nothing
    gate.set()
    assert last.wait(10) and first.result() is True  # nobody had to wait for it to be performed
    assert {task.result() for task in rest}.isdisjoint({threading.get_ident()})
    assert done == list(range(50))
    carrier.close()


def test_who_waits_takes_the_place_of_a_thread_that_has_not_begun() -> None:
    carrier, done = Carrier(), list[int]()
    carrier._perform = lambda: None  # type: ignore[method-assign]  # a thread that never wakes up
    tasks = [carrier.begin(lambda n=n: done.append(n) or threading.get_ident()) for n in range(5)]
    assert tasks[3].result() == threading.get_ident() and done == [0, 1, 2, 3]
    assert tasks[4].result() == threading.get_ident() and done == [0, 1, 2, 3, 4]


def test_what_goes_wrong_is_told_to_whoever_waits_and_nothing_after_it_is_performed() -> None:
    carrier, gate, done = Carrier(), threading.Event(), list[int]()
    carrier.begin(lambda: gate.wait(10))
    before, wrong = carrier.begin(lambda: 7), carrier.begin(lambda: 1 / 0)
    after = carrier.begin(lambda: done.append(1))
    gate.set()
    assert before.result() == 7
    for task in (after, wrong, carrier.begin(lambda: done.append(2))):
        with pytest.raises(ZeroDivisionError):
            task.result()
    carrier.close()
    assert done == []


def test_no_thread_is_left_and_none_is_started_for_nothing() -> None:
    before = threading.active_count()
    carrier = Carrier()
    assert threading.active_count() == before
    last = carrier.begin(lambda: 3)
    assert threading.active_count() == before + 1
    carrier.close()
    assert threading.active_count() == before and last.result() == 3
