"""The clock of an exchange: when it is due, which round it is, how many close it, what does not go together."""

from __future__ import annotations

import pytest

from gossamer.parts.payload import Order
from gossamer.parts.refusal import Refused
from gossamer.parts.synchrony import AllBut, Late, Synchrony


@pytest.mark.parametrize(
    ("every", "order", "steps"),
    [
        (1, Order.AFTER, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (1, Order.BEFORE, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (3, Order.AFTER, [2, 5, 8]),
        (3, Order.BEFORE, [0, 3, 6]),
        (9, Order.AFTER, [8]),
        (10, Order.AFTER, []),
    ],
)
def test_due_after_so_many_updates(every: int, order: Order, steps: list[int]) -> None:
    assert [step for step in range(9) if Synchrony(every=every).due(step, order)] == steps


@pytest.mark.parametrize("every", [1, 2, 3, 7])
@pytest.mark.parametrize("order", Order)
def test_rounds_are_numbered_from_zero_without_a_gap(every: int, order: Order) -> None:
    synchrony = Synchrony(every=every)
    rounds = [synchrony.round(step, order) for step in range(60) if synchrony.due(step, order)]
    assert rounds == list(range(len(rounds))) and len(rounds) >= 60 // every


@pytest.mark.parametrize(("quorum", "closes"), [(None, 8), (1, 1), (5, 5), (AllBut(1), 7), (AllBut(4), 4)], ids=repr)
def test_a_quorum_counts_from_either_end(quorum: int | AllBut | None, closes: int) -> None:
    assert Synchrony(quorum=quorum).closes(8) == closes


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"delay": 1, "staleness": 2}, "delay and staleness"),
        ({"delay": 1, "staleness": None}, "delay and staleness"),
        ({"delay": 1, "quorum": 2}, "quorum"),
        ({"late": Late.APPLY}, "nobody is late"),
        ({"late": "drop"}, "late must be a Late"),
        ({"quorum": AllBut}, "quorum must be a whole number"),
        ({"every": None}, "every must be a whole number"),
    ],
    ids=repr,
)
def test_what_does_not_go_together_is_refused(given: dict, reason: str) -> None:
    with pytest.raises(Refused, match=f"Synchrony.*{reason}"):
        Synchrony(**given)


def test_a_synchrony_prints_as_it_is_written() -> None:
    assert repr(Synchrony()) == "Synchrony()"
    assert repr(Synchrony(2, None, quorum=AllBut(3), late=Late.APPLY)) == (
        "Synchrony(every=2, staleness=None, quorum=AllBut(count=3), late=APPLY)"
    )
