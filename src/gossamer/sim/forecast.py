"""What a simulation comes to: seconds with an interval, efficiency, bytes, time to a goal. Plays nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, hypot, log, log2, sqrt

from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Tag
from gossamer.parts.synchrony import Synchrony
from gossamer.parts.world import World
from gossamer.sim.cluster import MODEL, Cluster
from gossamer.sim.scene import Played
from gossamer.sim.workload import Goal
from gossamer.strategy import AnyStrategy, Exchange, slots

NINETY = 1.645  # standard deviations on either side that hold nine tenths
FITTED, DOUBLED = 0.05, 0.02  # of a logarithm: what a fitted model misses, and more for each doubling beyond the fit
LABELS = 0.15  # what a model misses that was fitted to nothing
FAR = 64.0  # times as many workers as were measured: beyond it one should not trust a model
# models of ours, not any paper's: how many more samples are needed, in proportion to
STALE = 0.01  # each version or step of age in what a step uses
APART = 0.02  # each doubling of the local steps between two mixes
MIXED = 0.02  # how much of a disagreement a round of gossip leaves, over what it takes away
GAPS = 32  # members for whom a spectral gap is worked out, at most
DAY = 86400.0


@dataclass(frozen=True)
class Interval:
    """A figure, and between what it lies with nine chances in ten."""

    value: float
    low: float
    high: float

    def plus(self, more: float) -> Interval:
        """All three, and so much more."""
        return Interval(self.value + more, self.low + more, self.high + more)

    def times(self, factor: float) -> Interval:
        """All three, multiplied."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Forecast:
    """What so many workers would do: seconds of a step and its parts, and what follows from them.

    `efficiency`: samples a second over those of as many workers that never wait. `exposed`: seconds of a step in which
    a member waits for others. `sent`, `answered`: bytes a step, out of a member and back from hubs. `extrapolation`:
    workers over the most that were measured; `stretched`: how many times off any that was measured a worker's batch is.
    `goodput`: the share of the time that failures and checkpoints leave.
    """

    strategy: str
    workers: int
    batch: float
    step: Interval
    alone: float
    exposed: float
    sent: float
    answered: float
    staleness: float
    extrapolation: float
    stretched: float
    goodput: float
    goal: Interval | None
    stopped: str | None
    played: Played = field(repr=False, compare=False)

    @property
    def efficiency(self) -> float:
        """Of 1."""
        return self.alone / self.step.value if self.step.value else 1.0

    @property
    def throughput(self) -> float:
        """Samples a second."""
        return self.batch / self.step.value if self.step.value else 0.0

    @property
    def hopeless(self) -> str | None:
        """Why no goal is ever reached, if so."""
        if self.goodput or self.stopped:
            return None
        return "machines fail so often that checkpoints and restarts leave no time to train"

    @property
    def warning(self) -> str | None:
        """What must be said before anything else."""
        far = [*self._many(), *self._large()]
        return f"{'; '.join(far)}: beyond {FAR:.0f} times what was measured, take this as a guess" if far else None

    def _many(self) -> Iterator[str]:
        if self.extrapolation <= FAR:
            return
        if self.extrapolation == self.workers:
            yield f"nobody measured several workers on this cluster, and these are {self.workers:,}"
        else:
            yield (
                f"{self.workers:,} workers are {self.extrapolation:,.0f} times as many as were measured on this cluster"
            )

    def _large(self) -> Iterator[str]:
        if self.stretched > FAR:
            batch = self.batch / self.workers
            yield f"{batch:,.0f} samples a worker are {self.stretched:,.0f} times off any that were measured"


def around(
    value: float,
    slopes: dict[str, float],
    cluster: Cluster,
    extrapolation: float,
    stretched: float = 1.0,
    ends: tuple[float, float] = (0.0, 0.0),
) -> Interval:
    """The interval of a time, by how it follows each parameter (d log t / d log x) and how sure one is of each.

    `ends`: logarithms to the shortest and to the longest that numbers may make it; those count by 1/2.
    """
    known = sum((slope * cluster.spread.get(name, 0.0)) ** 2 for name, slope in slopes.items())
    misses = cluster.spread.get(MODEL, FITTED if cluster.measured else LABELS)
    misses += DOUBLED * (log2(max(1.0, extrapolation)) + log2(stretched))
    width = NINETY * sqrt(known + misses**2)
    low, high = (hypot(width, end / 2.0) for end in ends)
    return Interval(value, value * exp(-low), value * exp(high))


def slope(value: float, other: float, factor: float) -> float:
    """d log t / d log x, from t at x and at x times a factor."""
    return log(other / value) / log(factor) if value > 0 and other > 0 else 0.0


def goodput(cluster: Cluster, hosts: int) -> float:
    """1 - C/tau - (tau/2 + R)/M with tau = sqrt(2 C M): what checkpoints, and work lost to failures, leave."""
    if not cluster.failures:
        return 1.0
    between = 1000.0 * DAY / (cluster.failures * hosts)
    every = sqrt(2.0 * cluster.save * between)
    lost = (cluster.save / every if every else 0.0) + (every / 2.0 + cluster.restart) / between
    return max(0.0, 1.0 - lost)


def samples(
    goal: Goal, strategy: AnyStrategy, world: World, tags: tuple[Tag, ...], batch: float, staleness: float
) -> float:
    """Samples until the goal: those of the batch that an update is made of, more where what is used is old, where
    members go apart, and where they hear of each other slowly."""
    exchanges = slots(strategy)
    alone = any(ex.hub and _single(ex.synchrony, world) for ex in exchanges)
    needed = goal.needed(batch / world.size if alone else batch)
    every = max(ex.synchrony.every for ex in exchanges)
    gap = _gap(tuple(exchanges), world, tags)
    mixing = (1.0 - gap) / max(gap, 1e-6)
    return needed * (1.0 + STALE * staleness) * (1.0 + APART * log2(every)) * (1.0 + min(1.0, MIXED * mixing))


def _single(synchrony: Synchrony, world: World) -> bool:
    return synchrony.quorum is not None and synchrony.closes(world.size) == 1


@lru_cache(maxsize=256)
def _gap(exchanges: tuple[Exchange, ...], world: World, tags: tuple[Tag, ...]) -> float:
    """The least spectral gap with which any tensor is mixed, 1 where only hubs do it; of worlds too large for it that
    of the largest it is worked out for, which is no smaller."""
    from gossamer.strategy.describe import joint_gap

    mixing = {slot: ex for slot, ex in enumerate(exchanges) if not ex.hub}
    sizes = range(min(world.size, GAPS), 0, -1)
    small = next((size for size in sizes if all(_fits(ex, World(size)) for ex in mixing.values())), 1)
    picked = {slot: set(ex.where.pick(tags)) for slot, ex in mixing.items()}
    alike = {tuple(slot for slot in mixing if place in picked[slot]) for place in range(len(tags))}
    return min(joint_gap({slot: mixing[slot] for slot in some}, World(small, world.seed)) for some in alike)


def _fits(exchange: Exchange, world: World) -> bool:
    try:
        exchange.topology.fits(world)
    except Refused:
        return False
    return True
