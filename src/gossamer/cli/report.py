"""What a run comes to: its numbers as a person reads them, and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.cli.perform import Run
from gossamer.records import summary
from gossamer.records.record import SERVED
from gossamer.strategy import slots

if TYPE_CHECKING:
    from gossamer.records import Evaluation, Event
    from gossamer.strategy import AnyStrategy

SPANS = ("compute", "encode", "send", "wait", "decode", "data")


@dataclass(frozen=True)
class Numbers:
    """The numbers of a run; seconds are virtual, bytes and steps are means over the members."""

    last: Evaluation
    best: Evaluation
    steps: float
    seconds: float
    seconds_to_target: float | None
    epochs_to_target: float | None
    sent: float
    answered: float | None
    training_loss: float | None
    staleness: dict[int, int]
    unit: str
    dropped: int
    efficiency: float
    spans: dict[str, float]
    failure: str | None

    @property
    def mean_staleness(self) -> float:
        """Over all steps of all members."""
        count = sum(self.staleness.values())
        return sum(old * times for old, times in self.staleness.items()) / max(1, count)

    @property
    def most_staleness(self) -> int:
        """The oldest thing ever used."""
        return max(self.staleness, default=0)


def numbers(run: Run) -> Numbers:
    """Sum a run up."""
    outcome, workers, target = run.outcome, run.plan.world.size, run.request.target
    split = summary.seconds_per_step(outcome.steps)
    hubs = {slot for slot, ex in enumerate(slots(run.part.strategy)) if ex.hub}
    return Numbers(
        last=outcome.evaluations[-1],
        best=summary.best(outcome.evaluations) or outcome.evaluations[-1],
        steps=len(outcome.steps) / workers,
        seconds=outcome.seconds,
        seconds_to_target=summary.time_to(outcome.evaluations, target),
        epochs_to_target=summary.epochs_to(outcome.evaluations, target),
        sent=summary.bytes_sent_per_member([*outcome.steps, *outcome.events], workers),
        answered=summary.bytes_answered_per_member(outcome.steps, workers, hubs) if hubs else None,
        training_loss=summary.training_loss(outcome.steps, workers),
        staleness=summary.staleness_histogram(outcome.steps),
        unit=unit(run.part.strategy),
        dropped=summary.dropped(outcome.steps),
        efficiency=summary.scaling_efficiency(outcome.steps),
        spans={span: split.get(span, 0.0) for span in (*SPANS, *split)},
        failure=failure(run),
    )


def unit(strategy: AnyStrategy) -> str:
    """What staleness counts: versions of a hub, or steps of a peer or of a delayed answer."""
    exchanges = slots(strategy)
    hub = any(ex.hub for ex in exchanges)
    peer = any(not ex.hub and (ex.synchrony.delay or ex.synchrony.staleness != 0) for ex in exchanges)
    return "versions" if hub and not peer else "versions or steps" if hub else "steps"


def failure(run: Run) -> str | None:
    """Why a run is no result to be ranked: its loss left the numbers, or it stood still; None for one that is."""
    at = summary.diverged_at(run.outcome.steps, run.outcome.evaluations, run.plan.world.size)
    if at is not None:
        return f"diverged at step {at}"
    return "stood still" if summary.stood_still(run.outcome.events) else None


def mishaps(run: Run) -> list[Event]:
    """Who died and what stood still; bytes served late are counted, and no news."""
    return [event for event in run.outcome.events if event.what != SERVED]


def told(run: Run) -> dict[str, object]:
    """A run as one JSON object."""
    sums = numbers(run)
    request = run.request
    return {
        "strategy": repr(run.part.strategy),
        "workers": run.plan.world.size,
        "seed": run.plan.world.seed,
        "steps": int(sums.steps) if sums.steps == int(sums.steps) else sums.steps,
        "epochs": sums.last.epochs,
        "seconds": sums.seconds,
        "accuracy": sums.last.accuracy,
        "loss": sums.last.loss,
        "training_loss": sums.training_loss,
        "failure": sums.failure,
        "bytes_sent_per_member": sums.sent,
        "bytes_answered_by_hub_per_member": sums.answered,
        "seconds_per_step": sums.spans,
        "scaling_efficiency": sums.efficiency,
        "journal": run.journal,
        "target": request.target,
        "seconds_to_target": sums.seconds_to_target,
        "epochs_to_target": sums.epochs_to_target,
        "best_accuracy": sums.best.accuracy,
        "staleness": {
            "unit": sums.unit,
            "mean": sums.mean_staleness,
            "max": sums.most_staleness,
            "histogram": sums.staleness,
        },
        "divergence": sums.last.divergence,
        "dropped": sums.dropped,
        "events": [{"seconds": e.time, "what": e.what, "member": e.member} for e in mishaps(run)],
        "expression": run.part.text,
        "task": request.task,
        "task_options": request.task_options,
        "optimizer": repr(run.part.optimizer),
        "batch": run.plan.batch,
        "machines": repr(request.machines),
        "trouble": " + ".join(lower(repr(line)) for line in request.trouble.lines) or None,
    }


def lower(text: str) -> str:
    """A line of trouble as it is typed."""
    return text[:1].lower() + text[1:]
