"""What a run's records say in sum: pure functions from records to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

from msgspec.structs import replace

from gossamer.records.record import STILL, Evaluation, Event, StepRecord, Truth

EXCHANGE = ("encode", "send", "wait", "decode")
NOTABLE = 0.05  # of a step: less than that is noise
EVEN = 1.15  # times what the others take: less than that is noise, too


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
    return efficiency(seconds_per_step(steps))


def efficiency(split: Mapping[str, float]) -> float:
    """The share of compute in a step's seconds."""
    busy = sum(split.values())
    return split.get("compute", 0.0) / busy if busy else 1.0


def exchange_share(split: Mapping[str, float]) -> float:
    """The share of a step's seconds that goes into writing, sending and waiting for others."""
    busy = sum(split.values())
    return sum(split.get(span, 0.0) for span in EXCHANGE) / busy if busy else 0.0


@dataclass(frozen=True)
class Slow:
    """The member that others wait for: `span` is where it takes `seconds` a step, the median of the others `usual`.

    Where `span` is wait, it is the member that waits least, and its own spans do not say why.
    """

    member: int
    span: str
    seconds: float
    usual: float


def slowest(splits: Mapping[int, Mapping[str, float]]) -> Slow | None:
    """Who holds the others up by a notable share of a step, and in which span; None where members are even.

    A member's own seconds are all but sending and waiting, since who is early waits for who is late.
    """
    if len(splits) < 2:
        return None
    step = median(sum(split.values()) for split in splits.values())
    late = {member: _beyond(splits, member, _own) for member in splits}
    member = max(late, key=lambda each: late[each])
    spans = sorted({span for split in splits.values() for span in split if span not in ("send", "wait")})
    if late[member] <= NOTABLE * step:
        member, spans = min(splits, key=lambda each: splits[each].get("wait", 0.0)), ["wait"]
        saved = -_beyond(splits, member, lambda split: split.get("wait", 0.0))
        if step < EVEN * (step - saved):  # what the others would gain by not waiting for it
            return None
    elif spread(splits) < EVEN:
        return None
    span = max(spans, key=lambda each: _beyond(splits, member, lambda split: split.get(each, 0.0)))
    seconds = splits[member].get(span, 0.0)
    return Slow(member, span, seconds, seconds - _beyond(splits, member, lambda split: split.get(span, 0.0)))


def spread(splits: Mapping[int, Mapping[str, float]]) -> float:
    """How many times the median of the others' own seconds the slowest member takes; 1 where nobody does anything."""
    if len(splits) < 2:
        return 1.0
    own = {member: _own(split) for member, split in splits.items()}
    last = max(own, key=lambda each: own[each])
    usual = median(seconds for member, seconds in own.items() if member != last)
    return own[last] / usual if usual > 0 else 1.0


def _own(split: Mapping[str, float]) -> float:
    return sum(seconds for span, seconds in split.items() if span not in ("send", "wait"))


def _beyond(
    splits: Mapping[int, Mapping[str, float]], member: int, value: Callable[[Mapping[str, float]], float]
) -> float:
    """How far a member's value lies above the median of the others."""
    return value(splits[member]) - median(value(split) for other, split in splits.items() if other != member)


def looked(looks: Sequence[Truth]) -> Truth | None:
    """The mean of looks beside the exchange that loses most, at all members and buckets; its worst tensor."""
    if not looks:
        return None
    slots = [[look for look in looks if look.slot == slot] for slot in {look.slot for look in looks}]
    most = min(slots, key=lambda each: sum(look.cosine for look in each) / len(each))
    cosine, bias, residual = (
        sum(getattr(look, name) for look in most) / len(most) for name in ("cosine", "bias", "residual")
    )
    worst = min(most, key=lambda look: look.lowest)
    return replace(worst, cosine=cosine, bias=bias, residual=residual)


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
