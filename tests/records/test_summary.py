"""What records say in sum: numbers one can count by hand."""

from __future__ import annotations

from math import inf, nan

import pytest

from gossamer.records import STILL, Evaluation, Event, StepRecord, summary


def step(member: int, number: int, time: float, loss: float = 1.0, heard: dict[int, int] | None = None) -> StepRecord:
    return StepRecord(member, number, time, loss, {"compute": 1.0}, {}, heard or {})


def look(steps: int, time: float, loss: float) -> Evaluation:
    return Evaluation(time, steps, 0.0, loss, 0.5, 0.0)


def test_answers_of_a_hub_are_those_of_its_slots_only() -> None:
    steps = [step(0, 0, 1.0, heard={0: 100, 1: 7}), step(1, 0, 1.0, heard={0: 50})]
    assert summary.bytes_answered_per_member(steps, 2, {0}) == 75.0
    assert summary.bytes_answered_per_member(steps, 2, {0, 1}) == 78.5
    assert summary.bytes_answered_per_member(steps, 2, set()) == 0.0


def test_a_run_that_stood_still_is_told_from_one_in_which_somebody_died() -> None:
    died = Event(1.0, "member 2 died as it began step 3", 2)
    assert not summary.stood_still([died])
    assert summary.stood_still([died, Event(2.0, f"{STILL} after 3 of 9 steps: members 0, 1 wait for member 2")])


@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_divergence_is_dated_by_the_first_loss_that_is_no_number(bad: float) -> None:
    fine = [step(0, 0, 1.0), step(1, 0, 1.1), step(0, 1, 2.0)]
    assert summary.diverged_at(fine, [look(2, 1.1, 3.0)], 2) is None
    late = [*fine, step(1, 5, 2.5, bad), step(0, 2, 3.0, bad)]
    assert summary.diverged_at(late, [look(2, 1.1, 3.0)], 2) == 5
    assert summary.diverged_at(fine, [look(2, 1.1, 3.0), look(6, 3.0, bad)], 2) == 2
    assert summary.diverged_at([step(0, 0, 1.0, 1e30)], [], 1) is None


def test_training_loss_is_that_of_the_last_steps() -> None:
    steps = [step(0, 0, 1.0, 9.0), step(1, 0, 1.0, 9.0), step(0, 1, 2.0, 1.0), step(1, 1, 2.0, 3.0)]
    assert summary.training_loss(steps, 2) == 2.0
    assert summary.training_loss([], 2) is None
