"""What is under way where members go on without each other: messages that queue for links, pushes and answers of hubs.

Knows no phases; whoever plays a strategy asks when something is there.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from gossamer.sim.hearing import Hearing
from gossamer.sim.scene import Scene
from gossamer.strategy import slots
from gossamer.strategy.rounds import Rounds

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]

Event = tuple[float, int, int, int]  # when, the how manieth that was written down, whose, and of which round a push is
Reply = tuple[float, int, int]  # when it is there, the hub's version, and how stale the push was


class Lanes:
    """When each end's ways out and in are free; members of a host share its links to others."""

    def __init__(self, scene: Scene) -> None:
        self.roads, size = scene.roads, scene.world.size
        self._out, self._into = [0.0] * size, [0.0] * size
        self._hosts_out, self._hosts_into = [0.0] * self.roads.used, [0.0] * self.roads.used
        self._per_host, self._nics = self.roads.cluster.per_host, self.roads.links.nics

    def carry(self, source: int, target: int, nbytes: float, now: float) -> float:
        """When a message is heard: it leaves as the sender's way out is free, and comes in as the hearer's is."""
        here, there = source // self._per_host, target // self._per_host
        near = here == there
        busy, under_way = self.roads.message(nbytes, near=near)
        if near or self._per_host == 1:
            out, into, one, other, busier = self._out, self._into, source, target, busy
        else:
            out, into, one, other, busier = self._hosts_out, self._hosts_into, here, there, busy / self._nics
        free = out[one]
        begun = free if free > now else now
        out[one] = begun + busier
        free = into[other]
        into[other] = heard = (free if free > begun else begun) + busier
        alone = begun + busy
        return (heard if heard > alone else alone) + under_way


class AllLanes:
    """The same for a round of messages of all members at once. Who sends first has the links first, and so do, of those
    that send at once, the first members."""

    def __init__(self, scene: Scene) -> None:
        import numpy

        self._np, self.roads, self._size = numpy, scene.roads, scene.world.size
        self.out, self.into = numpy.zeros((2, self._size + self.roads.used))  # of members, then of hosts

    def carry(self, hearing: Hearing, nbytes: float, now: Array) -> Array:
        """When each message of a round is heard, if members speak at `now`."""
        np, per_host, nics = self._np, self.roads.cluster.per_host, self.roads.links.nics
        order = np.lexsort((hearing.turn, hearing.source, now[hearing.source]))
        source, target = hearing.source[order], hearing.target[order]
        hosts = source // per_host, target // per_host
        near, shared = hosts[0] == hosts[1], (hosts[0] != hosts[1]) & (per_host > 1)
        (close, lag), (far, farther) = self.roads.message(nbytes, near=True), self.roads.message(nbytes, near=False)
        busy, under_way = np.where(near, close, far), np.where(near, lag, farther)
        busier = np.where(shared, busy / nics, busy)
        begun = self._queue(self.out, np.where(shared, self._size + hosts[0], source), now[source], busier) - busier
        heard = self._queue(self.into, np.where(shared, self._size + hosts[1], target), begun, busier)
        found: Array = np.empty(len(order))
        found[order] = np.maximum(heard, begun + busy) + under_way
        return found

    def _queue(self, free: Array, lane: Array, asked: Array, busy: Array) -> Array:
        """When each is through that asks for a lane, one after the other."""
        np, through = self._np, asked.copy()
        for now in places(lane):
            through[now] = np.maximum(free[lane[now]], asked[now]) + busy[now]
            free[lane[now]] = through[now]
        return through


def places(lane: Array) -> list[Array]:
    """The first of every lane, then the second of every lane, and so on."""
    import numpy

    by_lane = numpy.argsort(lane, kind="stable")
    begins = numpy.flatnonzero(numpy.diff(lane[by_lane], prepend=-1))
    counts = numpy.diff(begins, append=len(lane))
    return [by_lane[begins[counts > place] + place] for place in range(int(counts.max()))]


class Line:
    """The way to a hub that is shared out, and back: everybody's pushes queue for its links, and answers for the ways
    back. What is under way keeps its order, so neither way needs a heap."""

    def __init__(self, scene: Scene, slot: int) -> None:
        ex, roads, size = slots(scene.strategy)[slot], scene.roads, scene.world.size
        self.rounds = Rounds(ex, scene.world, lambda _: None)
        self.counts = ex.synchrony.quorum is None  # rounds are a member's own pushes; else what it last heard of
        self.asked = [0] * size  # the round that each speaks about next
        cargo = scene.cargoes[slot]
        self.nbytes, self.carried = cargo.nbytes, cargo.carried
        push, self.latency = scene.pushed(cargo.nbytes)
        pull, _ = scene.pushed(cargo.carried)
        self.push, self.pull = push / size, pull / size  # of the hub's own links, for each
        away = 1.0 if scene.servers else 1.0 - (roads.per_host if roads.used > 1 else 1) / size
        link = roads.single if roads.used > 1 or scene.servers else roads.links.inside
        self.serves = scene.served(ex)  # seconds a round
        self.far, self.back = cargo.nbytes * away * link.beta, cargo.carried * away * link.beta
        self.coming, self.going = deque[Event](), deque[Event]()  # pushes, and answers that are waited for
        self.replies: dict[int, deque[Reply]] = defaultdict(deque)
        self.hoping = [False] * size  # who waits for an answer that has not left yet
        self._in = self._out = self._served = 0.0

    def closed(self, now: float, rounds: int) -> float:
        """When so many rounds more have been counted in, one after the other."""
        if rounds and self.serves:
            self._served = max(self._served, now) + rounds * self.serves
        return max(self._served, now)

    def arrives(self, now: float) -> float:
        """When a push that leaves now is there; none overtakes another."""
        free = self._in
        self._in = free = (free if free > now else now) + self.push
        alone = now + self.far
        return (free if free > alone else alone) + self.latency

    def answers(self, now: float) -> float:
        """When an answer that leaves now is there; none overtakes another."""
        free = self._out
        self._out = free = (free if free > now else now) + self.pull
        alone = now + self.back
        return (free if free > alone else alone) + self.latency
