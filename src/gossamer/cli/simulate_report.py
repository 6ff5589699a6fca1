"""What a simulation comes to: its rows, what to say first, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gossamer.cli.simulate_request import Omission, Question, Row
from gossamer.sim.forecast import Forecast


@dataclass(frozen=True)
class Answer:
    """Rows by worker count, then by strategy; and what was left out."""

    question: Question
    rows: Sequence[Row]
    omitted: Sequence[Omission]

    @property
    def last(self) -> Sequence[Row]:
        """Those of the count that was asked for."""
        return [row for row in self.rows if row.forecast.workers == self.question.workers]

    @property
    def warning(self) -> str | None:
        """What must be said first."""
        return self.last[0].forecast.warning


@dataclass(frozen=True)
class Described:
    """A file that was read: as it was named, what it says it is, and how its figures are known."""

    kind: str
    given: str
    name: str
    source: str

    @property
    def title(self) -> str:
        """As it was named, and what it says it is."""
        return f"{self.given}: {self.name}" if self.name else self.given


def described(question: Question) -> tuple[Described, Described]:
    """Both files."""
    cluster, workload = question.cluster, question.workload
    return (
        Described("cluster", question.places[0], cluster.name, cluster.source),
        Described("workload", question.places[1], workload.name, workload.source),
    )


def omissions(answer: Answer) -> list[str]:
    """Counts that were left out, a line for each reason."""
    found: dict[str, tuple[dict[str, None], dict[int, None]]] = {}
    for each in answer.omitted:
        texts, counts = found.setdefault(each.reason, ({}, {}))
        texts[each.part.text] = counts[each.workers] = None
    return [
        f"left out: {', '.join(texts)} on {', '.join(f'{count:,}' for count in counts)}: {reason}"
        for reason, (texts, counts) in found.items()
    ]


def troubles(answer: Answer) -> list[str]:
    """What keeps rows from their goal, a line each."""
    rows = [(f"{row.part.text} on {row.forecast.workers:,} workers", row.forecast) for row in answer.rows]
    return [
        *(f"{what} stands still: {found.stopped}" for what, found in rows if found.stopped),
        *(f"{what} never reaches its goal: {found.hopeless}" for what, found in rows if found.hopeless),
    ]


def scaling(question: Question) -> str:
    """How the batch goes with the workers, in words."""
    whole = question.batch(question.workers)
    if question.fixed:
        return f"{whole:,.15g} samples at every count (strong scaling)"
    return f"{question.local:,g} samples a worker (weak scaling: {whole:,.15g} on {question.workers:,})"


def told(answer: Answer, plot: Path | None, trace: Path | None) -> dict[str, object]:
    """The one object."""
    question = answer.question
    return {
        "warning": answer.warning,
        **{each.kind: {"given": each.given, "name": each.name, "source": each.source} for each in described(question)},
        "strategies": [part.text for part in question.parts],
        "workers": question.workers, "batch": question.batch(question.workers),
        "scaling": "strong" if question.fixed else "weak", "servers": question.servers,
        "trouble": [repr(line) for line in question.trouble.lines], "seed": question.seed, "steps": question.steps,
        "interval": 0.9, "goal": question.workload.goal.what if question.workload.goal else None,
        "rows": [_row(row) for row in answer.rows],
        "left_out": [{"strategy": e.part.text, "workers": e.workers, "reason": e.reason} for e in answer.omitted],
        "plot": plot, "trace": trace,
    }  # fmt: skip


def _row(row: Row) -> dict[str, object]:
    """A row; of one that stands still there are no times."""
    found = row.forecast
    still = found.stopped is not None
    return {
        "strategy": row.part.text, "expression": found.strategy, "workers": found.workers, "batch": found.batch,
        "seconds_per_step": None if still else found.step.value,
        "seconds_per_step_low": None if still else found.step.low,
        "seconds_per_step_high": None if still else found.step.high,
        "seconds_per_step_alone": found.alone,
        "scaling_efficiency": None if still else found.efficiency,
        "exposed_seconds": None if still else found.exposed,
        "bytes_sent_per_member_per_step": found.sent, "bytes_answered_per_member_per_step": found.answered,
        "samples_per_second": None if still else found.throughput,
        **_goal(found),
        "staleness_mean": found.staleness, "staleness_most": found.played.stalest, "dropped": found.played.dropped,
        "goodput": found.goodput, "extrapolation": found.extrapolation, "warning": found.warning,
        "stopped": found.stopped, "hopeless": found.hopeless,
    }  # fmt: skip


def _goal(found: Forecast) -> dict[str, object]:
    goal = found.goal
    return {
        "seconds_to_goal": goal and goal.value,
        "seconds_to_goal_low": goal and goal.low,
        "seconds_to_goal_high": goal and goal.high,
    }
