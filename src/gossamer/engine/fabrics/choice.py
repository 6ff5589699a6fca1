"""What mixes between hosts cost, measured, and which way is best for one of a given length. Knows no memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from gossamer.engine.fabrics.across import Across, Way
from gossamer.parts.route import Direct, Doubling, HalvingDoubling, Native, Ring, Route

MASTERS: tuple[Route, ...] = (Native(), Direct(), Doubling(), HalvingDoubling(), Ring())
COLUMNS: tuple[Route, ...] = (Native(),)  # a direct one was among the slowest of most probes: twice the messages
FAR: tuple[Route, ...] = (Native(), Ring())  # among masters, and columns: what may be best for long mixes
REPEATS, LONG = (5, 3), 0.04  # of a short and of a long probe; seconds that a long one may take
# bytes, turns and seconds of a far probe: in 0.25 s, 4 MB at 200 Mbit/s, it could not tell what is best for 16 MB
FARTHEST, TURNS, PATIENCE = 16 << 20, 2, 1.0
LEAST, MOST, APART = 1 << 16, 4 << 20, 16  # bytes of a long probe; how many times as long as a short one it is


@dataclass(frozen=True)
class Choice:
    """Seconds that mixes of two lengths, in bytes, took among hosts, by way; and that adding a byte takes.

    Some ways were also tried with a far longer one, of `reach` bytes; only those are taken for long mixes.
    """

    hosts: int
    per_host: int
    lengths: tuple[int, int]
    seen: tuple[tuple[Way, tuple[float, float]], ...]
    add: float
    reach: int = 0
    far: tuple[tuple[Way, float], ...] = ()

    @property
    def byte(self) -> float:
        """Seconds for a byte to leave a host, by the median of the ways: no single probe says so."""
        (low, high), found = self.lengths, []
        for way, (short, long) in self.seen:
            passed = way.among.passed(self.hosts, high - low)
            found.append(max(long - short, 0.1 * long) / passed if passed else 0.0)
        return median(found)

    @property
    def start(self) -> float:
        """Seconds to start a message: the best that was seen."""
        least, low = 1e-6, self.lengths[0]
        passing = [(way, short - self.byte * way.among.passed(self.hosts, low)) for way, (short, _) in self.seen]
        return min(max(least, rest) / max(1.0, way.among.delays(self.hosts)) for way, rest in passing)

    def seconds(self, way: Way, nbytes: float) -> float:
        """Of a mix: sums inside a host and the copies to its members, then what is between hosts."""
        inside = 2 * nbytes * self.add * (1 if way.columns else self.per_host)
        return inside + self._across(way, nbytes)

    def best(self, nbytes: int) -> Way:
        """The way that takes the least. Beyond what all were tried with, only those that were tried farther: a route
        that was as quick at 1 MB took a quarter more at 16 MB."""
        near = nbytes <= self.lengths[1]
        ways = [way for way, _ in self.seen] if near or not self.far else [way for way, _ in self.far]
        return min(ways, key=lambda way: self.seconds(way, nbytes))

    def told(self) -> str:
        """What was measured and what follows from it, in one line."""
        sizes = [1 << power for power in range(8, 29)]
        runs = [(way, [*found][-1]) for way, found in groupby(sizes, self.best)]
        parts = [f"{way} up to {_size(last)}" for way, last in runs[:-1]] + [f"{runs[-1][0]} above" * bool(runs[1:])]
        rate = 8e-6 / self.byte if self.byte else float("inf")
        chosen = ", ".join(part for part in parts if part) or f"{runs[0][0]} for all"
        return f"link between hosts: {rate:,.0f} Mbit/s, {1e3 * self.start:.2f} ms a round; {chosen}"

    def _across(self, way: Way, nbytes: float) -> float:
        """On a straight line through what was seen. Beyond it no byte is quicker than the link, so that one
        probe that came out well promises nothing for lengths that nobody has tried."""
        (low, high), (short, long) = self.lengths, dict(self.seen)[way]
        slope = (long - short) / (high - low)
        if nbytes < low:
            return max(short - max(0.0, slope) * (low - nbytes), 0.5 * short)
        if nbytes <= high:
            return short + slope * (nbytes - low)
        least = self.byte * way.among.passed(self.hosts, 1.0)
        if (far := dict(self.far).get(way)) is None or self.reach <= high:
            return long + max(slope, least) * (nbytes - high)
        slope = (far - long) / (self.reach - high)
        return far + (slope if nbytes <= self.reach else max(slope, least)) * (nbytes - self.reach)


_known: WeakKeyDictionary[dist.ProcessGroup, Choice] = WeakKeyDictionary()


def measured(across: Across, most: int) -> Choice:
    """What mixes of up to `most` bytes cost, measured once among these processes."""
    everybody = dist.group.WORLD
    assert everybody is not None
    if everybody not in _known:
        _known[everybody] = _measure(across, most)
    return _known[everybody]


def _measure(across: Across, most: int) -> Choice:
    """Play all ways in turns, with two lengths, all members together. A turn took as long as the slowest of them took,
    and a way takes the median of its turns: so one that was disturbed counts for nothing, and all choose alike."""
    ways = [Way(False, among) for among in MASTERS]
    ways += [Way(True, among) for among in COLUMNS] if across.even and len(across.hosts[0]) > 1 else []
    long = _length(across)
    lengths, far = (long // APART, long), [way for way in ways if way.columns or way.among in FAR]
    for way in ways:
        _timed(across, way, lengths[0])  # connections are made
    turns = [
        [[_timed(across, way, length) for way in ways] for _ in range(repeats)]
        for length, repeats in zip(lengths, REPEATS, strict=True)
    ]
    short, long_ones = map(_agreed, turns)
    add = torch.tensor(_adding(), dtype=torch.float64)
    dist.broadcast(add, 0)
    seen = tuple(zip(ways, zip(short, long_ones, strict=True), strict=True))
    reach = int(min(FARTHEST, max(most, long), long * max(1.0, PATIENCE / max(1e-9, long_ones[0]))))
    times = _agreed([[_timed(across, way, reach) for way in far] for _ in range(TURNS)])
    hosts, per_host = len(across.hosts), len(across.hosts[0])
    return Choice(hosts, per_host, lengths, seen, float(add), reach, tuple(zip(far, times, strict=True)))


def _agreed(turns: Sequence[Sequence[float]]) -> list[float]:
    """By way, the (lower) median over turns of what the slowest member saw."""
    slowest = torch.tensor(turns, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.median(0).values.tolist()


def _timed(across: Across, way: Way, nbytes: int) -> float:
    """The seconds of one mix among hosts; 0 for those who do not speak."""
    if way.columns:
        dist.barrier()  # all columns at once: they share a link
    elif across.master:
        across.meet()
    if not (way.columns or across.master):
        return 0.0
    share = nbytes // len(across.hosts[0]) if way.columns else nbytes
    numbers = torch.zeros(max(1, share // 4))
    return _spent(lambda: across.add(way, numbers, 0))


def _length(across: Across) -> int:
    """Bytes of a long probe: as many as take the backend's own collective no more than LONG seconds, about."""
    nbytes = LEAST
    _timed(across, Way(False, Native()), nbytes)
    while True:
        seconds = torch.tensor(_timed(across, Way(False, Native()), nbytes))
        dist.broadcast(seconds, 0)
        if 4 * seconds.item() > LONG or nbytes >= MOST:
            return nbytes
        nbytes *= 4


def _adding() -> float:
    """Seconds to add a byte to another."""
    one, other = torch.zeros(1 << 18), torch.zeros(1 << 18)
    return median([_spent(lambda: one.add_(other)) for _ in range(5)]) / one.nbytes


def _spent(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MB" if nbytes >= 1 << 20 else f"{max(1, nbytes >> 10)} KB"
