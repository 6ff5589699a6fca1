"""What the link between hosts costs, measured, and which way is best for a mix of a given length (P1's model).

Seconds = start-up per round + per byte that passes + per byte added. Knows no memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.fabrics.across import Across, Way
from gossamer.parts.route import Doubling, HalvingDoubling, Native, cost

MASTERS = (Doubling(), HalvingDoubling(), Native())
REPEATS, LONG, MOST = 5, 0.03, 4 << 20  # of a probe; seconds and bytes that suffice to see the rate


@dataclass(frozen=True)
class Choice:
    """Seconds: to start a round, by way; for a byte to leave a host; for a byte to be added."""

    hosts: int
    per_host: int
    starts: tuple[tuple[Way, float], ...]
    byte: float
    add: float

    def seconds(self, way: Way, nbytes: float) -> float:
        """Of a mix: sums inside a host and the copies to its members, then the rounds among hosts."""
        start = dict(self.starts)[way]
        inside = 2 * self.per_host * nbytes * self.add / (self.per_host if way.columns else 1)
        share = nbytes / self.per_host if way.columns else nbytes
        # members of a host share its link: a byte of a share takes as many times as long
        byte = self.byte * (self.per_host if way.columns else 1)
        return inside + cost(way.among, self.hosts, share, start, byte, self.add)

    def best(self, nbytes: int) -> Way:
        """The way that takes the least."""
        return min(self.starts, key=lambda each: self.seconds(each[0], nbytes))[0]

    def told(self) -> str:
        """What was measured and what follows from it, in one line."""
        sizes = [1 << power for power in range(8, 29)]
        runs = [(way, [*found][-1]) for way, found in groupby(sizes, self.best)]
        parts = [f"{way} up to {_size(last)}" for way, last in runs[:-1]] + [f"{runs[-1][0]} above" * bool(runs[1:])]
        rate = 8e-6 / self.byte if self.byte else float("inf")
        chosen = ", ".join(part for part in parts if part) or f"{runs[0][0]} for all"
        least = min(start for _, start in self.starts)
        return f"link between hosts: {rate:,.0f} Mbit/s, {1e3 * least:.2f} ms a round; {chosen}"


_known: WeakKeyDictionary[dist.ProcessGroup, Choice] = WeakKeyDictionary()


def measured(across: Across) -> Choice:
    """What the link costs, measured once among these processes."""
    everybody = dist.group.WORLD
    assert everybody is not None
    if everybody not in _known:
        _known[everybody] = _measure(across)
    return _known[everybody]


def _measure(across: Across) -> Choice:
    """Play each way with the least there is, and one with enough to see the rate; all members do so together.

    What member 0 found is what all use, so that all choose alike.
    """
    ways = [Way(False, among) for among in MASTERS]
    ways += [Way(True, Native())] if across.even and len(across.hosts[0]) > 1 else []
    found = [_timed(across, way, torch.zeros(1)) for way in ways]
    numbers = torch.tensor([*found, *_rate(across), _adding()], dtype=torch.float64)
    dist.broadcast(numbers, 0)
    *times, taken, nbytes, add = numbers.tolist()
    hosts = len(across.hosts)
    starts = tuple((way, t / max(1, way.among.rounds(hosts))) for way, t in zip(ways, times, strict=True))
    native = Way(False, Native())
    passed = native.among.passed(hosts, nbytes)
    byte = max(taken - dict(starts)[native] * native.among.rounds(hosts), 0.1 * taken) / passed
    return Choice(hosts, len(across.hosts[0]), starts, byte, add)


def _timed(across: Across, way: Way, numbers: Tensor, repeats: int = REPEATS) -> float:
    """The usual seconds of a mix among hosts; those that do not speak wait for the others."""
    speaks = way.columns or across.master

    def once() -> float:
        dist.barrier()
        return _spent(lambda: across.add(way, numbers, 0) if speaks else None)

    if repeats > 1:
        once()  # connections are made
    return median([once() for _ in range(repeats)])


def _rate(across: Across) -> tuple[float, int]:
    """Seconds and bytes of a mix among masters that is long enough to tell the rate."""
    nbytes = 1 << 18
    while True:
        seconds = _timed(across, Way(False, Native()), torch.zeros(nbytes // 4), repeats=1)  # bytes are dear here
        enough = torch.tensor([float(seconds > LONG or nbytes >= MOST)])
        dist.broadcast(enough, 0)
        if enough.item():
            return seconds, nbytes
        nbytes *= 4


def _adding() -> float:
    """Seconds to add a byte to another."""
    one, other = torch.zeros(1 << 18), torch.zeros(1 << 18)
    return median([_spent(lambda: one.add_(other)) for _ in range(REPEATS)]) / one.nbytes


def _spent(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MB" if nbytes >= 1 << 20 else f"{max(1, nbytes >> 10)} KB"
