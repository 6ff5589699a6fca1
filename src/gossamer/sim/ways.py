"""What is under way where members go on without each other: messages that queue for links, pushes and answers of hubs.

Knows no phases; whoever plays a strategy asks when something is there.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
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
    """When the ways out and in of members, and of hosts whose members share them, are free: for a round of messages.

    What shares a lane shares it evenly: each message is through after as long as if all of the round were under way at
    once, or when everything is through, whichever is first. So nobody gains by another's coming later, as it would
    where the first to come is served first.
    """

    def __init__(self, scene: Scene) -> None:
        import numpy

        self._np, self.roads, self._size = numpy, scene.roads, scene.world.size
        self.out, self.into = numpy.zeros((2, self._size + self.roads.used))  # of members, then of hosts

    def carry(self, hearing: Hearing, nbytes: float, now: Array) -> Array:
        """When each message of a round is heard, if members speak at `now`."""
        np, per_host, nics = self._np, self.roads.cluster.per_host, self.roads.links.nics
        source, target = hearing.source, hearing.target
        hosts = source // per_host, target // per_host
        near, shared = hosts[0] == hosts[1], (hosts[0] != hosts[1]) & (per_host > 1)
        (close, lag), (far, farther) = self.roads.message(nbytes, near=True), self.roads.message(nbytes, near=False)
        busy, under_way = np.where(near, close, far), np.where(near, lag, farther)
        busier = np.where(shared, busy / nics, busy)
        out, into = np.where(shared, self._size + hosts[0], source), np.where(shared, self._size + hosts[1], target)
        begun, left = self._through(self.out, out, now[source], busier)
        _, heard = self._through(self.into, into, begun, busier)
        found: Array = np.maximum(np.maximum(left, heard), begun + busy) + under_way
        return found

    def _through(self, free: Array, lane: Array, asked: Array, busy: Array) -> tuple[Array, Array]:
        """When each begins, and when it is through; a lane's messages are all equally long."""
        np = self._np
        begun = np.maximum(asked, free[lane])
        order = np.lexsort((begun, lane))
        first = np.flatnonzero(np.diff(lane[order], prepend=-1))  # of each lane
        counts = np.diff(first, append=len(lane))
        count, many = np.repeat(counts, counts), np.empty(len(lane), int)
        later = count - (np.arange(len(lane)) - np.repeat(first, counts))  # those that come no earlier
        free[lane[order[first]]] = np.maximum.reduceat(begun[order] + later * busy[order], first)
        many[order] = count
        return begun, np.minimum(begun + many * busy, free[lane])


class Doors:
    """The same for messages that come one member's after the other's: of those that share a host's links the first to
    come is served first."""

    def __init__(self, scene: Scene) -> None:
        self.roads, size = scene.roads, scene.world.size
        self._out, self._into = [0.0] * (size + self.roads.used), [0.0] * (size + self.roads.used)
        self._per_host, self._nics, self._size = self.roads.cluster.per_host, self.roads.links.nics, size

    def leave(
        self, source: int, targets: Sequence[int], nbytes: float, now: float
    ) -> Iterator[tuple[int, float, float]]:
        """To whom each message goes, when it begins to leave and when it has left."""
        for near in (True, False):
            some = [target for target in targets if self.roads.near(source, target) is near]
            lane, busy = self._lane(source, near=near), self._busier(nbytes, near=near)
            begun = max(self._out[lane], now)
            if some:
                self._out[lane] = begun + len(some) * busy
                yield from ((target, begun, self._out[lane]) for target in some)

    def hear(self, target: int, nbytes: float, coming: Sequence[tuple[float, float, int]]) -> float:
        """When all messages are heard of which each began to leave, and has left, at such times, from such a member."""
        heard = 0.0
        for begun, left, source in sorted(coming):
            near = self.roads.near(source, target)
            (busy, under_way), lane = self.roads.message(nbytes, near=near), self._lane(target, near=near)
            self._into[lane] = through = max(self._into[lane], begun) + self._busier(nbytes, near=near)
            heard = max(heard, max(left, through, begun + busy) + under_way)
        return heard

    def _lane(self, member: int, *, near: bool) -> int:
        return member if near or self._per_host == 1 else self._size + member // self._per_host

    def _busier(self, nbytes: float, *, near: bool) -> float:
        busy, _ = self.roads.message(nbytes, near=near)
        return busy if near or self._per_host == 1 else busy / self._nics


class Line:
    """The way to a hub that is shared out, and back: everybody's pushes queue for its links, and answers for the ways
    back. Servers have a way in and a way out; where workers share it out, a worker's pushes leave by the same way as
    its answers to others, so both queue together. What is under way keeps its order, so neither way needs a heap."""

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
        self._ways = [0.0] * (2 if scene.servers else 1)  # when each is free: in, out; or both
        self._served = 0.0

    def closed(self, now: float, rounds: int) -> float:
        """When so many rounds more have been counted in, one after the other."""
        if rounds and self.serves:
            self._served = max(self._served, now) + rounds * self.serves
        return max(self._served, now)

    def arrives(self, now: float) -> float:
        """When a push that leaves now is there; none overtakes another."""
        return self._through(0, now, self.push, self.far)

    def answers(self, now: float, count: int) -> float:
        """When so many answers that leave now are there, all at once; none overtakes another."""
        return self._through(-1, now, count * self.pull, self.back)

    def _through(self, way: int, now: float, busy: float, alone: float) -> float:
        """When what leaves now is there: it takes up the hub's way, and its own member's links for as long as alone."""
        free = self._ways[way]
        self._ways[way] = free = (free if free > now else now) + busy
        own = now + alone
        return (free if free > own else own) + self.latency
