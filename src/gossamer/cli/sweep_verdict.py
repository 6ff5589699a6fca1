"""What a sweep's results say: means, spreads over the seeds, and who is ahead by more than them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from gossamer.cli.sweep_case import Result

ALIKE = "no difference beyond the spread"


@dataclass(frozen=True)
class Spread:
    """A number over the seeds, lowest and highest; a seed that never got there counts as infinite, not in the mean."""

    values: tuple[float, ...]
    since: tuple[float, ...] = ()  # as early as each may have been, where it was only looked for now and then

    @property
    def least(self) -> float:
        """As low as any may have been."""
        return min(self.since or self.values, default=inf)

    @property
    def low(self) -> float:
        return min(self.values, default=inf)

    @property
    def high(self) -> float:
        return max(self.values, default=inf)

    @property
    def known(self) -> tuple[float, ...]:
        """Those that are numbers."""
        return tuple(value for value in self.values if isfinite(value))

    @property
    def mean(self) -> float:
        """Of those that are numbers; infinite where there is none."""
        return sum(self.known) / len(self.known) if self.known else inf

    @property
    def complete(self) -> bool:
        """Whether every seed has a number."""
        return bool(self.values) and len(self.known) == len(self.values)


@dataclass(frozen=True)
class Cell:
    """All seeds of one strategy at one place of the sweep. One failed seed, and the cell ranks nowhere."""

    strategy: str
    runs: tuple[Result, ...]
    target: float

    @property
    def failures(self) -> list[str]:
        """What went wrong, seed by seed."""
        return [f"seed {run.seed} {run.failure}" for run in self.runs if run.failure is not None]

    @property
    def sound(self) -> list[Result]:
        """The runs that are results."""
        return [run for run in self.runs if run.failure is None]

    @property
    def ranks(self) -> bool:
        """Whether it may be compared: some run, and none that failed."""
        return bool(self.runs) and not self.failures

    @property
    def accuracy(self) -> Spread:
        """At the end."""
        return Spread(tuple(run.accuracy for run in self.sound if run.accuracy is not None))

    @property
    def seconds(self) -> Spread:
        """To the target."""
        since = tuple(run.seconds_before(self.target) for run in self.sound)
        return Spread(tuple(run.seconds_to(self.target) for run in self.sound), since)

    @property
    def epochs(self) -> Spread:
        """To the target."""
        return Spread(tuple(run.epochs_to(self.target) for run in self.sound))


@dataclass(frozen=True)
class Row:
    """One place of the sweep: so many workers, this rate, with or without the straggler; a cell per strategy."""

    workers: int
    rate: float
    straggler: str | None
    cells: tuple[Cell, ...]

    @property
    def place(self) -> str:
        """Where in the sweep, beside the workers."""
        return f"rate {self.rate:g}{' with the straggler' if self.straggler else ''}"


def rows(results: Sequence[Result], strategies: Mapping[str, str], target: float) -> list[Row]:
    """The results as a table, in the order in which they come; strategies by their printed form, with their names."""
    found: dict[tuple[int, float, str | None], dict[str, list[Result]]] = {}
    for result in results:
        place = found.setdefault((result.workers, result.rate, result.straggler), {form: [] for form in strategies})
        place[result.strategy].append(result)
    return [
        Row(*place, tuple(Cell(strategies[form], tuple(runs), target) for form, runs in cells.items()))
        for place, cells in found.items()
    ]


def leaders(spreads: Sequence[Spread | None], *, more: bool) -> list[int]:
    """Whom the best by its mean does not leave behind by more than the spread, itself first; None ranks nowhere.

    Whoever is best must have a number for every seed. The best leaves another behind if its worst seed is better than
    the other's best, a time between two looks counting as the earlier one there.
    """
    ranked = [place for place, spread in enumerate(spreads) if spread is not None]
    fit = [place for place in ranked if _of(spreads, place).complete]
    if not fit:
        return []
    sign = -1.0 if more else 1.0
    best = min(fit, key=lambda place: sign * _of(spreads, place).mean)
    near = [place for place in ranked if place != best and not _behind(_of(spreads, place), _of(spreads, best), more)]
    return [best, *near]


def _behind(other: Spread, best: Spread, more: bool) -> bool:
    return other.high < best.low if more else other.least > best.high


def _of(spreads: Sequence[Spread | None], place: int) -> Spread:
    spread = spreads[place]
    assert spread is not None
    return spread


def best(spreads: Sequence[Spread | None], *, more: bool) -> int | None:
    """Who leaves everybody else behind by more than the spread; nobody where there is one seed or one strategy."""
    ahead = leaders(spreads, more=more)
    rivals = [spread for spread in spreads if spread is not None]
    certain = len(ahead) == 1 and len(rivals) > 1 and all(len(spread.values) > 1 for spread in rivals)
    return ahead[0] if certain else None


def fastest(row: Row) -> list[int]:
    """Who reached the target first, and whoever is not behind by more than the spread."""
    return leaders([cell.seconds if cell.ranks else None for cell in row.cells], more=False)
