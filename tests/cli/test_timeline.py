"""The timeline says exactly what `phases` says, in fewer rows."""

from __future__ import annotations

import pytest

from gossamer.cli.timeline import MOST_ROWS, Row, Timeline, timeline, told
from gossamer.strategy import CATALOG, parse, phases, slots

SPECIMENS = [
    *(entry.name for entry in CATALOG),
    "Exchange(synchrony=Synchrony(delay=3))",
    "Exchange(payload=PARAMETERS, synchrony=Synchrony(every=7, delay=6))",
    "local_sgd(every=2) + local_sgd(every=3)",
    "easgd(every=3) + local_sgd(every=4)",
    "allreduce + local_sgd(every=100)",
    "Staged(first=allreduce(), step=50, then=local_sgd(every=8))",
    "Staged(first=allreduce(), step=3, then=Exchange(synchrony=Synchrony(delay=2)))",
    "Staged(first=allreduce(), step=9, then=Exchange(payload=PARAMETERS, synchrony=Synchrony(every=7, delay=6)))",
    "Staged(first=local_sgd(every=5), step=12, then=allreduce())",
    "Staged(first=local_sgd(every=50), step=5, then=allreduce())",
]


def flaw(text: str, found: Timeline, steps: int = 200) -> str | None:
    """What the timeline gets wrong about the first steps, or None."""
    strategy, expected = parse(text), 0
    for row in found.rows:
        if row.first != expected:
            return f"step {expected} is in no row"
        last = steps if row.last is None else row.last
        for step in range(row.first, min(last, steps) + 1) if row.marks else ():
            played = tuple(told(phase, step, len(slots(strategy)) > 1) for phase in phases(strategy, step))
            if played != row.marks:
                return f"step {step} plays {played}, not {row.marks}"
        expected = last + 1
    return None if expected > steps else "the rows end too early"


@pytest.mark.parametrize("text", SPECIMENS)
def test_rows_say_what_phases_say(text: str) -> None:
    assert flaw(text, timeline(parse(text))) is None


def test_the_law_rejects_wrong_timelines() -> None:
    right = timeline(parse("local_sgd(every=8)"))
    alone = right.rows[0].marks
    assert flaw("local_sgd(every=8)", Timeline((Row(0, None, alone),), (1,))) is not None
    assert flaw("local_sgd(every=8)", Timeline(right.rows[1:], right.periods)) is not None
    assert flaw("local_sgd(every=8)", Timeline(right.rows[:1], right.periods)) is not None


def test_a_long_period_is_two_rows() -> None:
    rows = timeline(parse("diloco(every=1000000000)")).rows
    assert [(row.first, row.last) for row in rows] == [(0, 999_999_998), (999_999_999, 999_999_999), (10**9, None)]
    assert rows[1].marks == ("Compute", "Update", "Send", "Settle")


def test_a_tangled_period_is_cut_off_and_says_so() -> None:
    found = timeline(parse("local_sgd(every=2) + local_sgd(every=999999937)"))
    assert len(found.rows) == MOST_ROWS + 1
    assert found.rows[-1].marks is None
    assert found.periods == (2 * 999999937,)


def test_a_delayed_answer_says_how_old_it_is() -> None:
    assert timeline(parse("Exchange(synchrony=Synchrony(delay=1))")).rows[1].marks == (
        "Compute",
        "Send",
        "Settle (of 1 step ago)",
        "Update",
    )


def test_a_gate_is_told() -> None:
    text = "Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness=2))"
    assert timeline(parse(text)).rows[0].marks == ("Compute (at most 2 ahead)", "Update", "Meet")
