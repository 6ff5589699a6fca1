"""Records summed up as they come, and who holds the others up: numbers one can count by hand."""

from __future__ import annotations

from math import nan

import pytest

from gossamer.records import Evaluation, Event, Header, StepRecord, summary
from gossamer.records.summary import Slow
from gossamer.records.tally import Tally


def step(member: int, number: int, time: float, loss: float = 1.0, **spans: float) -> StepRecord:
    return StepRecord(member, number, time, loss, spans, {0: 10, 1: 5}, {}, number % 2, 1)


def test_a_tally_says_what_the_summary_of_all_records_says() -> None:
    steps = [
        step(m, n, 0.3 * n + 0.1 * m, m + n, compute=0.1 * (m + 1), wait=0.02 * n) for n in range(9) for m in (0, 1)
    ]
    served = Event(3.0, "sent after its last step", 1, {0: 70})
    tally = Tally()
    for record in (*steps, served):
        tally.take([record])
    assert tally.split == pytest.approx(summary.seconds_per_step(steps))
    assert tally.sent == summary.bytes_sent_per_member([*steps, served], 2)
    assert tally.loss == summary.training_loss(steps, 2)
    assert dict(tally.staleness) == summary.staleness_histogram(steps)
    assert tally.dropped == summary.dropped(steps)
    assert summary.efficiency(tally.split) == pytest.approx(summary.scaling_efficiency(steps))
    assert (tally.steps, tally.reached, tally.seconds) == (18, 9, 3.0)
    assert tally.splits[1]["compute"] == pytest.approx(0.2)


def test_a_resumed_run_counts_its_own_steps_and_knows_how_far_it_has_come() -> None:
    tally = Tally()
    tally.take([step(0, number, 0.1 * number, compute=0.1) for number in range(50, 60)])
    assert (tally.steps, tally.reached) == (10, 60)


def test_a_rate_is_that_of_the_last_seconds() -> None:
    tally = Tally()
    tally.take([step(0, number, 0.1 * (number + 1), compute=0.1) for number in range(100)])  # ten a second, 10 s
    assert tally.laps[0].rate == pytest.approx(10, rel=0.05)
    tally.take([step(0, 100 + number, 10 + number + 1.0, compute=1.0) for number in range(10)])  # then one a second
    assert tally.laps[0].rate == pytest.approx(1, rel=0.05)


def test_the_first_header_evaluations_events_and_where_it_diverged() -> None:
    head = Header("engine", "allreduce", 2, 0, "digits", "sgd", 8, 9, {"fabric": "shared"})
    tally = Tally()
    assert (tally.loss, tally.seconds, tally.reached, tally.split) == (None, 0.0, 0.0, {})
    tally.take(
        [head, step(0, 4, 1.0, nan), step(0, 3, 1.0, nan), Event(9.0, "somebody died"), Evaluation(1, 1, 1, 1, 1, 0)]
    )
    assert tally.header == head
    assert tally.diverged == 3
    assert (len(tally.evaluations), len(tally.events), tally.seconds) == (1, 1, 9.0)


def spans(compute: float, wait: float, data: float = 0.0, send: float = 0.01) -> dict[str, float]:
    return {"compute": compute, "wait": wait, "data": data, "send": send}


@pytest.mark.parametrize(
    ("splits", "found"),
    [
        ({0: spans(0.10, 0.1), 1: spans(0.10, 0.1), 2: spans(0.19, 0.01)}, Slow(2, "compute", 0.19, 0.10)),
        ({0: spans(0.10, 0.1), 1: spans(0.10, 0.0, 0.12), 2: spans(0.11, 0.1)}, Slow(1, "data", 0.12, 0.0)),
        ({0: spans(0.10, 0.1), 1: spans(0.10, 0.09), 2: spans(0.101, 0.02)}, Slow(2, "wait", 0.02, 0.095)),
        ({0: spans(0.10, 0.1), 1: spans(0.101, 0.099), 2: spans(0.10, 0.1)}, None),
        ({0: spans(0.10, 0.1)}, None),
        ({}, None),
        # the slow one sends long because it comes last: its own seconds say nothing, its waiting does
        ({0: spans(0.1, 0.05), 1: spans(0.1, 0.0, send=0.06)}, Slow(1, "wait", 0.0, 0.05)),
        # much data of everybody is no reason, more compute of one is
        ({0: spans(0.1, 0.1, 0.5), 1: spans(0.2, 0.0, 0.5), 2: spans(0.1, 0.1, 0.5)}, Slow(1, "compute", 0.2, 0.1)),
    ],
)
def test_who_holds_the_others_up_and_why(splits: dict[int, dict[str, float]], found: Slow | None) -> None:
    slow = summary.slowest(splits)
    if found is None or slow is None:
        assert slow is found
    else:
        assert (slow.member, slow.span) == (found.member, found.span)
        assert (slow.seconds, slow.usual) == pytest.approx((found.seconds, found.usual))


def test_the_share_of_exchange() -> None:
    assert summary.exchange_share({"compute": 6.0, "encode": 1.0, "send": 1.0, "wait": 1.0, "data": 1.0}) == 0.3
    assert summary.exchange_share({}) == 0.0
    assert summary.efficiency({}) == 1.0
