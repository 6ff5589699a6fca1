"""What a run's records say in sum: pure functions from records to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from math import isfinite

from gossamer.records.record import STILL, Evaluation, Event, StepRecord


def bytes_sent_per_member(records: Iterable[StepRecord | Event], workers: int) -> float:
    """Mean over members of all bytes they sent in the run, what they served after their last step included."""
    return sum(sum(record.sent.values()) for record in records) / workers


def bytes_answered_per_member(steps: Iterable[StepRecord], workers: int, hubs: Container[int]) -> float:
    """Mean over members of all bytes they took from hubs, which are the slots in `hubs`."""
    return sum(size for record in steps for slot, size in record.heard.items() if slot in hubs) / workers


def stood_still(events: Iterable[Event]) -> bool:
    """Whether the run ended before its time because nobody could go on."""
    return any(event.what.startswith(STILL) for event in events)


def diverged_at(steps: Iterable[StepRecord], evaluations: Iterable[Evaluation], workers: int) -> int | None:
    """The first step, in virtual time, whose loss is no finite number, in training or on held-out data; or None."""
    bad = [(record.time, record.step) for record in steps if not isfinite(record.loss)]
    bad += [(each.time, max(0, each.steps // workers - 1)) for each in evaluations if not isfinite(each.loss)]
    return min(bad)[1] if bad else None


def training_loss(steps: Sequence[StepRecord], workers: int) -> float | None:
    """Mean loss of the last steps, as many as there are workers, on the batches they trained on."""
    recent = [record.loss for record in steps[-workers:]]
    return sum(recent) / len(recent) if recent else None


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
