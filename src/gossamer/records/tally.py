"""A run's records summed up as they come, so that a long run takes no more memory than a short one. Knows no player."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite

from gossamer.records.record import Evaluation, Event, Header, Noise, Record, StepRecord, Truth

WINDOW, MARKS = 1.0, 4  # seconds between the marks a rate is taken over, and how many


@dataclass
class Lap:
    """What one member has done: its steps in this run, where its seconds went, its bytes, its last loss."""

    steps: int = 0
    reached: int = 0  # steps since the very beginning, those before a resume included
    time: float = 0.0
    loss: float = float("nan")
    spans: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    marks: deque[tuple[float, int]] = field(default_factory=lambda: deque([(0.0, 0)], maxlen=MARKS))

    def take(self, record: StepRecord) -> None:
        """One more step."""
        self.steps, self.reached = self.steps + 1, record.step + 1
        self.time, self.loss = record.time, record.loss
        self.spans.update(record.spans)
        self.sent += sum(record.sent.values())
        if self.time >= self.marks[-1][0] + WINDOW:
            self.marks.append((self.time, self.steps))

    @property
    def rate(self) -> float:
        """Steps a second over the last few seconds."""
        since, before = self.marks[0]
        return (self.steps - before) / (self.time - since) if self.time > since else 0.0

    @property
    def split(self) -> dict[str, float]:
        """Mean seconds of a step, by span."""
        return {span: seconds / max(1, self.steps) for span, seconds in self.spans.items()}


class Tally:
    """All members' laps, the evaluations and the events of a run, as far as it has come."""

    def __init__(self) -> None:
        self.header: Header | None = None
        self.laps: dict[int, Lap] = {}
        self.evaluations: list[Evaluation] = []
        self.events: list[Event] = []
        self.diverged: int | None = None  # the first step whose loss is no finite number
        self.staleness: Counter[int] = Counter()
        self.dropped = self.torn = self.looks = 0
        self.truth: dict[int, list[Truth]] = {}  # by member, what its last look beside lossy exchanges has shown
        self.noise: Noise | None = None  # the last look at the gradients' noise
        self._lost: dict[int, Lap] = {}  # of members that died, while the others go on
        self._served = 0  # bytes that left a member after its last step

    def take(self, records: Iterable[Record]) -> None:
        """Count in what came."""
        for record in records:
            match record:
                case Header():
                    self.header = self.header or record
                case StepRecord():
                    self._step(record)
                case Evaluation():
                    self.evaluations.append(record)
                    self._sound(record.loss, max(0, record.steps // max(1, len(self.laps)) - 1))
                case Event():
                    if not any(record.what == event.what and record.member == event.member for event in self.events):
                        self.events.append(record)  # what several saw is said once
                    self._served += sum(record.sent.values())

    def lose(self, member: int) -> int:
        """A member has died, and the others go on: it is late no more, and counts for nothing; the step it was in."""
        self._lost[member] = lap = self.laps.pop(member, Lap())
        return lap.reached

    def _step(self, record: StepRecord) -> None:
        if record.member not in self._lost:
            self.laps.setdefault(record.member, Lap()).take(record)
        self.staleness[record.staleness] += 1
        self.dropped += record.dropped
        self.torn += record.torn
        if record.truth:
            self.looks += record.member == min(self.laps)
            self.truth[record.member] = record.truth
        self.noise = record.noise[-1] if record.noise else self.noise
        self._sound(record.loss, record.step)

    def _sound(self, loss: float, step: int) -> None:
        if not isfinite(loss):
            self.diverged = step if self.diverged is None else min(step, self.diverged)

    @property
    def splits(self) -> dict[int, dict[str, float]]:
        """Each member's mean step, of those that have done one."""
        return {member: lap.split for member, lap in sorted(self.laps.items()) if lap.steps}

    @property
    def split(self) -> dict[str, float]:
        """The mean step, the mean taken over all steps of all members."""
        total = Counter[str]()
        for lap in self.laps.values():
            total.update(lap.spans)
        return {span: seconds / max(1, self.steps) for span, seconds in total.items()}

    @property
    def seconds(self) -> float:
        """Until the last thing that happened."""
        laps, looks = (lap.time for lap in self.laps.values()), (each.time for each in self.evaluations)
        return max((*laps, *looks, *(event.time for event in self.events)), default=0.0)

    @property
    def steps(self) -> int:
        """Of all members together, in this run."""
        return sum(lap.steps for lap in self.laps.values())

    @property
    def reached(self) -> float:
        """Steps of a member since the very beginning, the mean over members."""
        return sum(lap.reached for lap in self.laps.values()) / max(1, len(self.laps))

    @property
    def loss(self) -> float | None:
        """Mean loss of every member's last batch."""
        losses = [lap.loss for lap in self.laps.values() if lap.steps]
        return sum(losses) / len(losses) if losses else None

    @property
    def sent(self) -> float:
        """Bytes that left a member, the mean over members."""
        return (self._served + sum(lap.sent for lap in self.laps.values())) / max(1, len(self.laps))
