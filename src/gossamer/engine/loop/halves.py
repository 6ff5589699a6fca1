"""Whether a member died in the midst of a push: servers compare how often each was told. It mends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gossamer.engine.loop.place import Place
from gossamer.engine.loop.tell import tell
from gossamer.engine.shards import Shard, Shards


class Halves:
    """One server's word on each member that dies, left in the store; the last server to come compares them all."""

    def __init__(self, name: str, place: Place, shards: Shards) -> None:
        self._name, self._place, self._shards = name, place, shards

    def __call__(self, member: int, pushed: Mapping[int, int]) -> None:
        store, mine = self._place.store, f"halves/{self._name}/{member}"
        store.set(f"{mine}/{self._place.member}", msgspec.json.encode(pushed).decode())
        servers = self._place.everybody[self._place.size :]
        if store.add(mine, 1) < len(servers):
            return
        told = {each: msgspec.json.decode(store.get(f"{mine}/{each}"), type=dict[int, int]) for each in servers}
        for slot, shards in self._shards.items():
            if line := halved(shards, [told[shard.owner].get(slot, 0) for shard in shards]):
                tell(f"{self._place.named(member)} {line}")


def halved(shards: Sequence[Shard], pushed: Sequence[int]) -> str:
    """In words, which shards have the last push of a member and which have not; nothing where all have as many."""
    most = max(pushed)
    have, lack = ([s for s, n in zip(shards, pushed, strict=True) if (n == most) is got] for got in (True, False))
    if not lack:
        return ""
    return (
        f"died in the midst of a push: its push {most} is in {_listed(have)}, and not in {_listed(lack)}; "
        "the others go on from that"
    )


def _listed(shards: Sequence[Shard]) -> str:
    numbers = ", ".join(str(shard.number) for shard in shards)
    return f"shard{'s' * (len(shards) > 1)} {numbers} of {shards[0].count} of the hub of slot {shards[0].slot}"
