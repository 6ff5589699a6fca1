"""What one member has to see to of hubs that are shared out: its own shards, and, as the first, those of servers.

Their beginning, and what must outlive them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gossamer.engine.counter import Counter
from gossamer.engine.server import packed, unpacked
from gossamer.engine.service import Service
from gossamer.engine.shards import Shard, Shards
from gossamer.replica import Replica
from gossamer.replica.joined import State

FIRST = 0  # the member that speaks for servers where all are there


class Upkeep:
    """One member's, by slot; shards and their states come in one order."""

    def __init__(self, replica: Replica, service: Service, counter: Counter, shards: Shards) -> None:
        self._replica, self._service, self._counter = replica, service, counter
        self._servers = frozenset(service.lines.servers)
        self._shards, self._first = shards, replica.member == FIRST

    def begin(self) -> None:
        """Servers have this member's parameters to begin with."""
        for slot, each in self._mine(self._first).items():
            values = self._replica.desks[slot].chosen.take(self._replica.parameters)
            for shard in filter(self._serves, each):
                start, stop = shard.part.bounds
                self._counter.lay(shard.owner, slot, values[start:stop])

    @property
    def bounds(self) -> dict[int, list[tuple[int, int]]]:
        """The stretches whose states are this member's to keep."""
        return {slot: [shard.part.bounds for shard in each] for slot, each in self._mine(self._first).items()}

    def states(self, *, first: bool) -> dict[int, list[State]]:
        """What must outlive them; the first of those that are left speaks for servers."""
        return {slot: [self._state(shard) for shard in each] for slot, each in self._mine(first).items()}

    def go_on(self, states: Mapping[int, Sequence[State]]) -> None:
        """Let them go on from such states."""
        for slot, each in self._mine(self._first).items():
            for shard, state in zip(each, states.get(slot, ()), strict=True):
                if self._serves(shard):
                    self._counter.go_on(shard.owner, slot, packed(state))
                else:
                    self._service.hubs[slot].resume(state)

    def _state(self, shard: Shard) -> State:
        if self._serves(shard):
            return unpacked(self._counter.state(shard.owner, shard.slot))
        return self._service.hubs[shard.slot].state()

    def _mine(self, first: bool) -> dict[int, list[Shard]]:
        """By slot, the shards that this member speaks for: its own, and the first member for those of servers."""
        found = {
            slot: [shard for shard in each if shard.owner == self._replica.member or (first and self._serves(shard))]
            for slot, each in self._shards.items()
        }
        return {slot: each for slot, each in found.items() if each}

    def _serves(self, shard: Shard) -> bool:
        return shard.owner in self._servers
