"""How hosts mix among each other what each has summed inside: who speaks for a host, and over which process group.

Knows no memory and no strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store, _get_default_store

from gossamer.engine import mixes
from gossamer.engine.broken import Broken
from gossamer.engine.executor import Executor
from gossamer.engine.groups import Groups
from gossamer.parts.refusal import Refused
from gossamer.parts.route import Auto, Hierarchical, Native, Route, Sharded, Torus, counted

Span = tuple[int, int]
PIECE = 8 << 20  # bytes


@dataclass(frozen=True)
class Way:
    """Who speaks for a host: each of its members for a share (2D-torus), or its first for all (hierarchical)."""

    columns: bool
    among: Route

    def __str__(self) -> str:
        among = "the backend's own collective" if self.among.native else repr(self.among)
        return f"{'columns of a 2D-torus' if self.columns else 'masters'} by {among}"


class Across:
    """One member's hold on the other hosts; all members make it alike. `hosts` are the members, host by host."""

    def __init__(self, member: int, hosts: Sequence[Sequence[int]], groups: Groups, store: Store) -> None:
        self.hosts = hosts
        self.host = next(number for number, members in enumerate(hosts) if member in members)
        self.place = list(hosts[self.host]).index(member)
        self.even = len({len(members) for members in hosts}) == 1
        lines = [[members[place] for members in hosts] for place in range(len(hosts[0]) if self.even else 1)]
        made = [groups.make(line) for line in lines]
        self._group = made[self.place] if self.place < len(made) else None
        self._executor = Executor(self._group, store=_get_default_store()) if self._group is not None else None

        mine = lines[self.place] if self.place < len(lines) else []
        self._broken = Broken(store, member, mine)

    @property
    def master(self) -> bool:
        """Whether this member may speak for its host."""
        return self.place == 0

    def meet(self) -> None:
        """Wait for those who speak for the same share of other hosts."""
        dist.barrier(self._group)

    def end(self) -> None:
        """Nobody adds any more: let go of the process group, which ends with whoever made it."""
        self._group = self._executor = None

    def named(self, route: Route) -> Way | None:
        """The way that a named route is; None for those that are no way of hosts."""
        size, per_host = sum(map(len, self.hosts)), len(self.hosts[0])
        match route:
            case Torus() if route.grid(size)[0] == per_host or not self.even:
                if not self.even:
                    counts = " + ".join(str(len(members)) for members in self.hosts)
                    raise Refused(
                        f"Torus: hosts of {counts} workers make no grid", f"Hierarchical(per_host={per_host})"
                    )
                return Way(columns=True, among=Native())
            case Hierarchical(per_host=asked, among=among) if asked == per_host and self.even:
                return Way(columns=False, among=among)
            case _:
                return None

    def span(self, way: Way, start: int, stop: int) -> Span:
        """The elements between two that this member speaks for."""
        if not way.columns:
            return (start, stop) if self.master else (stop, stop)
        count, length = len(self.hosts[self.host]), stop - start
        return start + self.place * length // count, start + (self.place + 1) * length // count

    def pieces(self, way: Way, span: Span, width: int) -> list[Span]:
        """What is mixed at once of a span: the backend's own collective takes a part while another is summed."""
        start, length = span[0], span[1] - span[0]
        whole = not way.among.native or width == 2
        count = 1 if whole else max(1, -(-length * width // PIECE))
        return [(start + length * n // count, start + length * (n + 1) // count) for n in range(count)]

    def bytes_of(self, way: Way, length: int, width: int) -> tuple[int, int]:
        """Bytes that leave this member for other hosts, and come from there, in a sum of so many elements."""
        if not length:
            return 0, 0
        out, into = counted(way.among, self.host, len(self.hosts), length)
        return out * width, into * width

    def add(self, way: Way, mine: Tensor, tag: int) -> None:
        """Sum these numbers over all hosts, in place; of 16-bit numbers the mean, added up in 32 bits, rounded once."""
        self.begin(way, mine, tag)()

    def begin(self, way: Way, mine: Tensor, tag: int) -> Callable[[], object]:
        """Begin `add`, and give back who waits for it; but for the backend's own collective it is over by then."""
        assert self._group is not None
        assert self._executor is not None
        if mine.element_size() == 2:
            mean = self._executor.place("mean", torch.float32, mine.device, mine.numel())
            mine.copy_(mixes.mean_of_short(mine, mean, self._executor, tag))
            return _over
        if way.among.native:
            work: dist.Work | None = dist.all_reduce(mine, group=self._group, async_op=True)
            assert work is not None
            return lambda: self._wait(work)
        moved = self._executor.run(way.among, mine, tag)
        known = self.bytes_of(way, mine.numel(), mine.element_size())
        if moved != known:
            raise RuntimeError(f"{way.among!r} moved {moved} bytes where {known} were recorded")
        return _over

    def _wait(self, work: dist.Work) -> None:
        with self._broken.named():
            work.wait()


def _over() -> None:
    """Nothing is left to wait for."""


def left_open(route: Route) -> bool:
    """Whether a route leaves the way to the fabric."""
    return isinstance(route, Auto | Sharded)
