"""How the rate goes over a run: frozen values that say a factor for every moment of it, and a torch scheduler of them.

A moment is counted in epochs and may be a fraction of one, so that every iteration has its own rate. The factor is of
the rate that the run would have at its height, after linear scaling and warm-up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi
from typing import TYPE_CHECKING

from gossamer.parts.refusal import Refused, kind, real
from gossamer.parts.value import Value

if TYPE_CHECKING:
    import torch

LONGEST = 10**6  # epochs of a run


class Schedule(ABC, Value):
    """The factor of the rate at each moment of a run."""

    @abstractmethod
    def factor(self, epoch: float, epochs: float) -> float:
        """At `epoch` (from 0, a fraction of one within it) of a run of `epochs`."""

    def misses(self, epochs: float) -> str | None:
        """What of it does not come in a run of so many epochs, if anything."""
        return None

    def check(self, epochs: float) -> None:
        """Refuse a run too short for it."""
        long_enough(self.misses, epochs)

    def scheduler(
        self, optimizer: torch.optim.Optimizer, steps_per_epoch: int, epochs: float
    ) -> torch.optim.lr_scheduler.LambdaLR:
        """For a loop of your own: step it after every optimizer step. The optimizer's rate is the height."""
        from torch.optim.lr_scheduler import LambdaLR

        self.check(epochs)
        return LambdaLR(optimizer, lambda step: self.factor(step / steps_per_epoch, epochs))


@dataclass(frozen=True, repr=False)
class Constant(Schedule):
    """One rate for all of the run."""

    def factor(self, epoch: float, epochs: float) -> float:
        return 1.0


@dataclass(frozen=True, repr=False)
class Steps(Schedule):
    """The factor falls to `by` of itself at each of the epochs `at` (Goyal: a tenth at 30, 60 and 80)."""

    at: tuple[float, ...] = (30.0, 60.0, 80.0)
    by: float = 0.1

    def __post_init__(self) -> None:
        _rising("Steps", self.at)
        real("Steps", "by", self.by, 0.0, 1.0, open_low=True)

    def factor(self, epoch: float, epochs: float) -> float:
        return float(self.by ** sum(epoch >= each for each in self.at))

    def misses(self, epochs: float) -> str | None:
        return _not_over("Steps", "at", self.at[-1], epochs) if self.at[-1] >= epochs else None


@dataclass(frozen=True, repr=False)
class Stairs(Schedule):
    """Each of `stairs` is an epoch and the factor from there on; the first begins at 0."""

    stairs: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def __post_init__(self) -> None:
        pairs = isinstance(self.stairs, tuple) and all(isinstance(s, tuple) and len(s) == 2 for s in self.stairs)
        if not pairs:
            raise Refused("Stairs: each stair is an epoch and a factor", "stairs=((0.0, 1.0), (30.0, 0.1))")
        if not self.stairs or self.stairs[0][0] != 0:
            raise Refused("Stairs: the first stair begins at epoch 0", "stairs=((0.0, 1.0), ...)")
        _rising("Stairs", tuple(start for start, _ in self.stairs))
        for _, factor in self.stairs:
            real("Stairs", "factor", factor, 0.0, 1e6)

    def factor(self, epoch: float, epochs: float) -> float:
        return [factor for start, factor in self.stairs if epoch >= start][-1]

    def misses(self, epochs: float) -> str | None:
        last = self.stairs[-1][0]
        return _not_over("Stairs", "stairs", last, epochs) if last >= epochs else None


@dataclass(frozen=True, repr=False)
class Polynomial(Schedule):
    """From 1 to `end`: end + (1 - end) (1 - epoch / epochs) ** power."""

    power: float = 2.0
    end: float = 0.0

    def __post_init__(self) -> None:
        real("Polynomial", "power", self.power, 0.0, 100.0, open_low=True)
        real("Polynomial", "end", self.end, 0.0, 1.0)

    def factor(self, epoch: float, epochs: float) -> float:
        return float(self.end + (1.0 - self.end) * max(0.0, 1.0 - epoch / epochs) ** self.power)


@dataclass(frozen=True, repr=False)
class Cosine(Schedule):
    """From 1 to `end` along half a wave."""

    end: float = 0.0

    def __post_init__(self) -> None:
        real("Cosine", "end", self.end, 0.0, 1.0)

    def factor(self, epoch: float, epochs: float) -> float:
        return self.end + (1.0 - self.end) * 0.5 * (1.0 + cos(pi * min(1.0, epoch / epochs)))


@dataclass(frozen=True, repr=False)
class OneCycle(Schedule):
    """Up from `start` to 1 over the share `rise` of the run, down to `end` over the rest; both along half a wave."""

    start: float = 0.04
    rise: float = 0.3
    end: float = 4e-6

    def __post_init__(self) -> None:
        real("OneCycle", "start", self.start, 0.0, 1.0)
        real("OneCycle", "rise", self.rise, 0.0, 1.0, open_low=True, open_high=True)
        real("OneCycle", "end", self.end, 0.0, 1.0)

    def factor(self, epoch: float, epochs: float) -> float:
        share = min(1.0, epoch / epochs)
        if share < self.rise:
            return _wave(self.start, 1.0, share / self.rise)
        return _wave(1.0, self.end, (share - self.rise) / (1.0 - self.rise))


@dataclass(frozen=True, repr=False)
class Cyclic(Schedule):
    """Between `low` and 1 and back, in straight lines, once every `period` epochs."""

    low: float = 0.1
    period: float = 4.0

    def __post_init__(self) -> None:
        real("Cyclic", "low", self.low, 0.0, 1.0)
        real("Cyclic", "period", self.period, 0.0, 1e6, open_low=True)

    def factor(self, epoch: float, epochs: float) -> float:
        share = epoch % self.period / self.period
        return self.low + (1.0 - self.low) * (1.0 - abs(2.0 * share - 1.0))


@dataclass(frozen=True, repr=False)
class Warmup(Schedule):
    """From `start` in a straight line to what `then` says at its end, over the first `epochs`; then as `then` says.

    Goyal et al. begin with the rate of one worker: `start` is 1/k where k times the batch has k times the rate. `then`
    counts from the begin of the run, or with `after` from the end of the warm-up, for a run that is as much shorter.
    """

    epochs: float = 5.0
    start: float = 0.0
    then: Schedule = Constant()
    after: bool = False

    def __post_init__(self) -> None:
        real("Warmup", "epochs", self.epochs, 0.0, 1e6)
        real("Warmup", "start", self.start, 0.0, 1.0)
        kind("Warmup", "then", self.then, Schedule)

    def factor(self, epoch: float, epochs: float) -> float:
        past = self.epochs if self.after else 0.0
        if epoch >= self.epochs:
            return self.then.factor(epoch - past, epochs - past)
        end = self.then.factor(self.epochs - past, epochs - past)
        return self.start + (end - self.start) * epoch / self.epochs

    def misses(self, epochs: float) -> str | None:
        rest = epochs - self.epochs
        if rest < -1e-9 * epochs or (self.after and rest <= 0):  # a stretched moment is a rounding off
            return _not_over("Warmup", "epochs", self.epochs, epochs)
        said = self.then.misses(rest if self.after else epochs)
        return f"{said} after a warm-up of {self.epochs:g}" if said and self.after else said


def scaled(rate: float, batch: int, base: int = 256) -> float:
    """Linear scaling: k times the batch has k times the rate."""
    return rate * batch / base


def _wave(first: float, last: float, share: float) -> float:
    return last + (first - last) * 0.5 * (1.0 + cos(pi * share))


def _rising(owner: str, epochs: tuple[float, ...]) -> None:
    if not isinstance(epochs, tuple) or not epochs:
        raise Refused(f"{owner}: epochs must be several numbers, not {epochs!r}", "(30.0, 60.0, 80.0)")
    for each in epochs:
        real(owner, "epoch", each, 0.0, 1e6)
    if any(b <= a for a, b in pairwise(epochs)):
        raise Refused(f"{owner}: epochs must rise, not {epochs}", repr(tuple(sorted(set(epochs)))))


def _not_over(owner: str, name: str, last: float, epochs: float) -> str:
    return f"{owner}: {name}={last:g} is not over in a run of {epochs:g} epochs"


def long_enough(misses: Callable[[float], str | None], epochs: float) -> None:
    """Refuse a run of so many epochs in which anything is missed; the nearest has as many whole ones as it takes."""
    reason = misses(epochs)
    if reason is not None:
        least = 1 + bisect_left(range(1, LONGEST + 1), True, key=lambda long: misses(long) is None)
        raise Refused(reason, f"a run of {least} epochs" if least <= LONGEST else None)


SLOW_START = Stairs(((0.0, 0.5), (40.0, 0.075), (70.0, 0.01), (85.0, 0.001)))  # PFN's, for 90 epochs, as we remember it
