"""The pace of a run: how many samples each step has, and which rate. Knows no data and no worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from gossamer.recipes.batches import Batches, Portion, Timetable, portion
from gossamer.recipes.recipe import read, schedule_of
from gossamer.recipes.schedule import Constant, Schedule

if TYPE_CHECKING:
    import torch

CENTER, PERIOD = 1 / 9, 1 / 18  # of the run: where RMSprop becomes SGD (PFN: around epoch 10 of 90, over 5)


@dataclass(frozen=True)
class Passage:
    """Epochs of one batch: the first step, the epochs, samples of a step, and the rate at its begin and at its end."""

    step: int
    steps: int
    begins: float
    ends: float
    batch: int
    rates: tuple[float, float]


class Pace:
    """`rate` is that of the first batch at the schedule's height; by the linear rule it grows as batches do."""

    def __init__(
        self, batches: Batches, schedule: Schedule, samples: int, epochs: float, rate: float, rule: str = "linear"
    ) -> None:
        schedule.check(epochs)
        self.table, self.schedule, self.epochs = Timetable(batches, samples, epochs), schedule, epochs
        self._rate, self._rule, self._first = rate, rule, batches.sizes[0][1]

    @classmethod
    def of(
        cls, batches: str, schedule: str | None, samples: int, epochs: float, rate: float, rule: str = "linear"
    ) -> Pace:
        """The one that a run's settings, as texts, stand for."""
        said = Constant() if schedule is None else schedule_of(schedule)
        return cls(read(batches), said, samples, epochs, rate, rule)

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

    def check(self, workers: int, most: int | None, accumulate: bool = True) -> list[Portion]:
        """How workers meet each size; refuses what they cannot meet."""
        return [portion(leg.size, workers, most, accumulate) for leg in self.table.legs]

    def told(self, rows: int = 12) -> Iterator[Passage]:
        """The run, epoch by epoch, or in about so many pieces, none of which has two sizes."""
        every = max(1, ceil(self.epochs / rows))
        marks = {self.table.legs[0].first, self.steps, *(s.first for s in self.table.legs)}
        edge = 0.0
        while edge < self.epochs:
            marks.add(self._step_at(edge))
            edge += every
        ordered = sorted(marks)
        for first, last in pairwise(ordered):
            ends = self.table.epoch(last) if last < self.steps else self.table.read / self.table.samples
            yield Passage(
                first, last - first, self.table.epoch(first), ends, self.table.size(first),
                (self.rate(first), self.rate(last - 1)),
            )  # fmt: skip

    def _step_at(self, epoch: float) -> int:
        """The first step that begins at `epoch` or later."""
        sample = epoch * self.table.samples
        within = [s for s in self.table.legs if s.sample <= sample][-1]
        return min(within.first + ceil((sample - within.sample) / within.size), within.first + within.steps)
