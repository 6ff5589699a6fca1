"""What a training run comes to: its numbers. Draws nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gossamer.cli.report import SPANS
from gossamer.cli.train_request import Request
from gossamer.records import Evaluation, Event, Noise, Truth, summary
from gossamer.records.record import SERVED
from gossamer.records.summary import Slow
from gossamer.records.tally import Tally
from gossamer.strategy import slots


@dataclass(frozen=True)
class Verdict:
    """The numbers of a run, finished or not; `resumed` is the step it went on from."""

    request: Request
    folder: Path
    last: Evaluation | None
    best: Evaluation | None
    steps: float  # of a member since the very beginning
    played: float  # of a member in this run
    epochs: float
    seconds: float
    loss: float | None
    to_target: float | None
    spans: dict[str, float]
    efficiency: float
    exchange: float
    sent: float
    stale: tuple[float, int]  # how old the oldest thing that a step used was: the mean over steps, and the most
    dropped: int  # contributions that came too late
    torn: int  # reads of a partner that was writing
    pays_below: float | None  # bits a second of a link below which the codec pays; None where there is none
    truth: Truth | None  # what the last look beside lossy exchanges has shown, the mean over members and buckets
    looks: int
    noise: Noise | None  # the last look at the gradients' noise; None where they are not averaged as they are
    slow: Slow | None
    spread: float  # the slowest member's own seconds over those of the others
    events: Sequence[Event]
    fabric: str | None
    kernel: str | None
    failure: str | None
    resumed: int | None

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.spans.values())


def verdict(request: Request, folder: Path, tally: Tally, failure: str | None, resumed: int | None) -> Verdict:
    """Sum a run up as far as it has come."""
    split, last = tally.split, tally.evaluations[-1] if tally.evaluations else None
    carried = tally.header.settings if tally.header is not None else {}
    diverged = None if tally.diverged is None else f"diverged at step {tally.diverged}"
    return Verdict(
        request=request,
        folder=folder,
        last=last,
        best=summary.best(tally.evaluations),
        steps=tally.reached,
        played=tally.steps / max(1, len(tally.laps)),
        epochs=request.epochs(tally.reached),
        seconds=tally.seconds,
        loss=tally.loss,
        to_target=summary.time_to(tally.evaluations, request.settings.target),
        spans={span: split.get(span, 0.0) for span in (*SPANS, *split)},
        efficiency=summary.efficiency(split),
        exchange=summary.exchange_share(split),
        sent=tally.sent,
        stale=_stale(tally),
        dropped=tally.dropped,
        torn=tally.torn,
        pays_below=_pays_below(request, split, round(tally.reached)) if tally.steps else None,
        truth=summary.looked([look for looks in tally.truth.values() for look in looks]),
        looks=tally.looks,
        noise=tally.noise,
        slow=summary.slowest(tally.splits),
        spread=summary.spread(tally.splits),
        events=[event for event in tally.events if event.what != SERVED],
        fabric=carried.get("fabric"),
        kernel=carried.get("kernel"),
        failure=failure or diverged,
        resumed=resumed,
    )


def _pays_below(request: Request, split: Mapping[str, float], steps: int) -> float | None:
    """By what writing and reading took in this run, and by the bytes that the codecs keep off a link."""
    if request.world.size == 1 or not any(exchange.codec.compresses for exchange in slots(request.strategy)):
        return None
    from gossamer.engine.pays import spared

    spent = split.get("encode", 0.0) + split.get("decode", 0.0)
    return max(0.0, 8 * spared(request.strategy, request.world, request.tags, steps) / spent) if spent else None


def _stale(tally: Tally) -> tuple[float, int]:
    total = sum(tally.staleness.values())
    aged = sum(age * count for age, count in tally.staleness.items())
    return aged / max(1, total), max(tally.staleness, default=0)
