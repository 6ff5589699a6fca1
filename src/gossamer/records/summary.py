"""What a run's records say in sum: pure functions from records to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gossamer.records.record import Evaluation, Event, StepRecord


def bytes_sent_per_member(records: Iterable[StepRecord | Event], workers: int) -> float:
    """Mean over members of all bytes they sent in the run, what they served after their last step included."""
    return sum(sum(record.sent.values()) for record in records) / workers


def staleness_histogram(steps: Iterable[StepRecord]) -> dict[int, int]:
    """How often each staleness occurred."""
    return dict(sorted(Counter(record.staleness for record in steps).items()))


def seconds_per_step(steps: Sequence[StepRecord]) -> dict[str, float]:
    """Mean seconds of a step, split by span."""
    total: Counter[str] = Counter()
    for record in steps:
        total.update(record.spans)
    return {span: seconds / max(1, len(steps)) for span, seconds in total.items()}


def scaling_efficiency(steps: Sequence[StepRecord]) -> float:
    """Compute seconds over all seconds: what N workers deliver over N times what one alone would."""
    split = seconds_per_step(steps)
    busy = sum(split.values())
    return split.get("compute", 0.0) / busy if busy else 1.0


def dropped(steps: Iterable[StepRecord]) -> int:
    """Contributions that came too late and were not counted."""
    return sum(record.dropped for record in steps)


def best(evaluations: Iterable[Evaluation]) -> Evaluation | None:
    """The evaluation with the highest accuracy, the earliest of equals."""
    return max(evaluations, key=lambda e: (e.accuracy, -e.time), default=None)


def time_to(evaluations: Iterable[Evaluation], accuracy: float) -> float | None:
    """Seconds until the accuracy was first reached, or None."""
    return next((e.time for e in evaluations if e.accuracy >= accuracy), None)


def epochs_to(evaluations: Iterable[Evaluation], accuracy: float) -> float | None:
    """Epochs until the accuracy was first reached, or None."""
    return next((e.epochs for e in evaluations if e.accuracy >= accuracy), None)
