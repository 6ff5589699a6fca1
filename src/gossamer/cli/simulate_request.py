"""What was asked of `simulate`, read and refused before anything is played, and the rows it comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.trouble import Script
from gossamer.sim.cluster import Cluster
from gossamer.sim.forecast import Forecast
from gossamer.sim.simulate import lasting, period, simulate, staged
from gossamer.sim.workload import Workload
from gossamer.strategy import AnyStrategy, parse, slots

DRAWN, LONGEST = 4, 64  # steps of a trace; and where it takes more to see every exchange
Watch = Callable[[int, str], None]  # told how many forecasts there are, and of what the next one is


@dataclass(frozen=True)
class Part:
    """One strategy of the question: as it was typed, and as it was read."""

    text: str
    strategy: AnyStrategy


@dataclass(frozen=True)
class Row:
    """One strategy on so many workers."""

    part: Part
    forecast: Forecast


@dataclass(frozen=True)
class Omission:
    """A worker count that a strategy cannot be played on, and why."""

    part: Part
    workers: int
    reason: str


@dataclass(frozen=True)
class Question:
    """Everything that all rows share; `local`: samples of a worker where there are `workers` of them.

    Fewer workers keep the local batch, or the global one if it is `fixed`. `places`: the files, as they were named.
    """

    parts: tuple[Part, ...]
    cluster: Cluster
    workload: Workload
    places: tuple[str, str]
    workers: int
    local: float
    least: int | None = None
    fixed: bool = False
    servers: int = 0
    trouble: Script = Script()
    seed: int = 0
    steps: int = 100

    def __post_init__(self) -> None:
        if self.least is not None:
            whole("simulate", "from", self.least, 1, self.workers)
        whole("simulate", "servers", self.servers, 0, 2**20)
        whole("simulate", "steps", self.steps, 1, 10**6)
        for part in self.parts:
            staged(
                part.strategy, self.cluster, self.workload, self.workers, batch=self.local * self.workers,
                seed=self.seed, trouble=self.trouble, servers=self.servers,
            )  # fmt: skip

    def counts(self) -> list[int]:
        """Doubling from one host, or from 1 where all sit on one; what was asked for is always the last."""
        count = self.least or (self.cluster.per_host if self.cluster.per_host < self.workers else 1)
        found = []
        while count < self.workers:
            found.append(count)
            count *= 2
        return [*found, self.workers]

    def batch(self, workers: int) -> float:
        """The global batch of so many."""
        return self.local * (self.workers if self.fixed else workers)

    def forecast(self, part: Part, workers: int, drawn: int = 0) -> Forecast:
        """One strategy on so many workers."""
        return simulate(
            part.strategy, self.cluster, self.workload, workers, batch=self.batch(workers), steps=self.steps,
            seed=self.seed, trouble=self.trouble, servers=self.servers, drawn=drawn,
        )  # fmt: skip

    def drawn(self) -> int:
        """Steps of a trace: a whole period of the first strategy, as far as one cares to look."""
        return min(max(DRAWN, period(lasting(self.parts[0].strategy))), LONGEST)

    def undrawn(self) -> list[int]:
        """Exchanges of it that are due after those steps for the first time."""
        exchanges, steps = slots(lasting(self.parts[0].strategy)), range(self.drawn())
        return [n for n, ex in enumerate(exchanges) if not any(ex.synchrony.due(step, ex.order) for step in steps)]

    def answer(self, drawn: bool, watch: Watch) -> Iterator[Row | Omission]:
        """All strategies on all counts; of the first strategy on the last count, the first steps are drawn."""
        done, steps = 0, self.drawn() if drawn else 0
        for workers in self.counts():
            for part in self.parts:
                watch(done, f"{part.text} on {workers:,} workers")
                done += 1
                last = drawn and workers == self.workers and part is self.parts[0]
                try:
                    yield Row(part, self.forecast(part, workers, steps if last else 0))
                except Refused as error:
                    if workers == self.workers:
                        raise
                    yield Omission(part, workers, error.reason)


def parts(texts: Sequence[str]) -> tuple[Part, ...]:
    """The strategies, in the order they were named, each once."""
    words = dict.fromkeys(" ".join(text.split()) for text in texts)
    return tuple(Part(text, parse(text)) for text in words)


def local(workload: Workload, batch: float | None, workers: int) -> float:
    """Samples of one of so many workers: the largest batch that was measured, where nobody says."""
    whole("simulate", "workers", workers, 1, 2**20)
    if batch is None:
        return float(workload.batches[-1])
    real("simulate", "batch", batch, 1.0, 1e12)
    return batch / workers
