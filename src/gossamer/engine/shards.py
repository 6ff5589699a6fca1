"""Who keeps which part of a hub: shards of as many elements, one for each owner. Moves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gossamer.parts.world import World
from gossamer.replica import Chosen, Hub, Layout, carried
from gossamer.replica.hub import Builder
from gossamer.replica.stretch import Stretch, balanced
from gossamer.strategy import Exchange


@dataclass(frozen=True)
class Shard:
    """One stretch of what a hub is told, and the member or server that keeps it."""

    slot: int
    number: int
    count: int
    owner: int
    part: Stretch

    def __str__(self) -> str:
        return f"shard {self.number} of {self.count} of the hub of slot {self.slot}"


SMALLEST = 1 << 14  # elements: below, what a message costs in itself is more than what there is to share
Shards = Mapping[int, Sequence[Shard]]  # of each slot that a hub answers


def shared_out(
    exchanges: Sequence[Exchange], layout: Layout, optimizer: Builder, owners: Sequence[int], smallest: int = 1
) -> Shards:
    """All hubs of a strategy, in shards of no fewer elements than `smallest`; everybody finds the same."""
    return {
        slot: _shards(slot, ex, carried(ex, layout.tags), optimizer, owners, smallest)
        for slot, ex in enumerate(exchanges)
        if ex.hub
    }


def hubs_of(
    owner: int, kept: Shards, exchanges: Sequence[Exchange], layout: Layout, world: World, optimizer: Builder
) -> dict[int, Hub]:
    """What one owner has to keep, by slot: it has one shard of a hub, or none."""
    found = {}
    for slot, shard in [(slot, shard) for slot, all_ in kept.items() for shard in all_ if shard.owner == owner]:
        start, stop = shard.part.bounds
        first = carried(exchanges[slot], layout.tags).take(layout.start)[start:stop]
        found[slot] = Hub(exchanges[slot], shard.part, first, world, optimizer)
    return found


def _shards(
    slot: int, ex: Exchange, chosen: Chosen, optimizer: Builder, owners: Sequence[int], smallest: int
) -> list[Shard]:
    """One for each owner, as far as there is enough for all; one in all where the codec looks at everything at once, or
    the optimizer may, and whole tensors where it looks at those."""
    alone = not ex.codec.by_element or (ex.updates_at_hub and not optimizer.by_tensor)
    count = 1 if alone else max(1, min(len(owners), chosen.count // smallest))
    parts = balanced(chosen, count, anywhere=not ex.updates_at_hub or optimizer.elementwise)
    return [
        Shard(slot, number, len(parts), owner, part)
        for number, (owner, part) in enumerate(zip(owners, parts, strict=False))
    ]
