"""The pace of a run: how many samples each step has, and which rate. Knows no data and no worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from gossamer.recipes.batches import Batches, Timetable
from gossamer.recipes.recipe import schedule_of
from gossamer.recipes.schedule import Constant, Schedule, long_enough

if TYPE_CHECKING:
    import torch

CENTER, PERIOD = 1 / 9, 1 / 18  # of the run: where RMSprop becomes SGD (PFN: around epoch 10 of 90, over 5)


LOOKS = 1000  # at the rate in a passage: in one of more steps, evenly spread


@dataclass(frozen=True)
class Passage:
    """Epochs of one batch: the first step, the epochs, samples of a step; the rate at its begin and at its end, and the
    least and the greatest in it."""

    step: int
    steps: int
    begins: float
    ends: float
    batch: int
    rates: tuple[float, float]
    bounds: tuple[float, float]

    def joined(self, other: Passage) -> Passage | None:
        """With the one after it, if nothing changes from its begin to the other's end."""
        same = self.batch == other.batch and self.bounds == other.bounds and self.bounds[0] == self.bounds[1]
        return replace(self, steps=self.steps + other.steps, ends=other.ends) if same else None


class Pace:
    """`rate` is that of the first batch at the schedule's height; by the linear rule it grows as batches do."""

    def __init__(
        self, batches: Batches, schedule: Schedule, samples: int, epochs: float, rate: float, rule: str = "linear"
    ) -> None:
        long_enough(lambda long: schedule.misses(long) or batches.misses(long), epochs)
        self.table, self.schedule, self.epochs = Timetable(batches, samples, epochs), schedule, epochs
        self._rate, self._rule, self._first = rate, rule, batches.sizes[0][1]

    @classmethod
    def of(
        cls, batches: Batches, schedule: str | None, samples: int, epochs: float, rate: float, rule: str = "linear"
    ) -> Pace:
        """The one with the schedule that a text stands for."""
        said = Constant() if schedule is None else schedule_of(schedule)
        return cls(batches, said, samples, epochs, rate, rule)

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.table.steps

    def rate(self, step: int) -> float:
        """The rate of a step: every iteration has its own."""
        grown = self.table.size(step) / self._first if self._rule == "linear" else 1.0
        return self._rate * grown * self.schedule.factor(min(self.table.epoch(step), self.epochs), self.epochs)

    def set(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Let an optimizer have the rate of a step, and what else goes with the moment of the run."""
        for group in optimizer.param_groups:
            group["lr"] = self.rate(step)
            if "share" in group:
                from gossamer.recipes.warm import sgd_share

                group["share"] = sgd_share(self.table.epoch(step), CENTER * self.epochs, PERIOD * self.epochs)

    def told(self, rows: int = 120) -> list[Passage]:
        """The run epoch by epoch, in one passage where nothing changes; of a run that would have more than so many
        rows, several epochs to each."""
        found = self._passages(max(1, ceil(self.epochs / (10 * rows))))
        return found if len(found) <= rows else self._passages(ceil(self.epochs / rows))

    def _passages(self, every: int) -> list[Passage]:
        marks = {self.steps, *(leg.first for leg in self.table.legs)}
        marks |= {self._step_at(float(edge)) for edge in range(0, ceil(self.epochs), every)}
        found = list[Passage]()
        for first, last in pairwise(sorted(marks)):
            passage = self._passage(first, last)
            joined = found[-1].joined(passage) if found else None
            if joined is not None:
                found.pop()
            found.append(joined or passage)
        return found

    def _passage(self, first: int, last: int) -> Passage:
        """The steps from one to before another."""
        rates = [self.rate(step) for step in range(first, last - 1, ceil((last - first) / LOOKS))]
        rates.append(self.rate(last - 1))
        begins, ends = (self.table.start(step) / self.table.samples for step in (first, last))
        size, bounds = self.table.size(first), (min(rates), max(rates))
        return Passage(first, last - first, begins, ends, size, (rates[0], rates[-1]), bounds)

    def _step_at(self, epoch: float) -> int:
        """The first step that begins at `epoch` or later."""
        sample = epoch * self.table.samples
        within = [s for s in self.table.legs if s.sample <= sample][-1]
        return min(within.first + ceil((sample - within.sample) / within.size), within.first + within.steps)
