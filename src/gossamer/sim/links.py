"""The links of a rehearsal: each end has one way out and one way in, and whatever uses a way queues for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from gossamer.sim import prices
from gossamer.sim.machines import Machines
from gossamer.sim.prices import Price


@dataclass
class Lane:
    """One direction of a link: first come, first served."""

    free: float = 0.0

    def take(self, now: float, seconds: float) -> float:
        """When a transfer that asks at `now` is through."""
        self.free = max(self.free, now) + seconds
        return self.free


def _lanes() -> dict[Hashable, Lane]:
    return defaultdict(Lane)


@dataclass
class Links:
    """Every end's lanes: an end is a worker's number, or whatever names a hub."""

    machines: Machines
    _out: dict[Hashable, Lane] = field(default_factory=_lanes)
    _into: dict[Hashable, Lane] = field(default_factory=_lanes)

    def carry(self, source: Hashable, to: Hashable, nbytes: int, now: float) -> float:
        """When a message is heard: it leaves once the sender's way out is free, and comes in once the hearer's is."""
        price = prices.message(self.machines, nbytes)
        left = self._out[source].take(now, price.busy)
        return self._into[to].take(left - price.busy, price.busy) + price.latency

    def together(self, members: Iterable[int], price: Price, now: float) -> float:
        """When an exchange of all members is over: it begins as the last of their links is free, and holds them all."""
        lanes = [lane for member in members for lane in (self._out[member], self._into[member])]
        begins = max(now, max(lane.free for lane in lanes))
        for lane in lanes:
            lane.free = begins + price.busy
        return begins + price.seconds
