"""What `prepare` is on a server: it keeps shards of hubs until all members are done, and does not come back.

It runs the same script, so that it has the same model to lay out and the same optimizer to step with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from gossamer.engine.loop import carried
from gossamer.engine.loop.carried import Named
from gossamer.engine.loop.halves import Halves
from gossamer.engine.loop.place import Place, tell_kept
from gossamer.engine.loop.tell import tell
from gossamer.engine.server import Server
from gossamer.engine.shards import Shard, hubs_of, shared_out
from gossamer.engine.shared.room import available
from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.recipes import Borrowed
from gossamer.replica import Layout
from gossamer.strategy import AnyStrategy, slots

NAP = 0.05  # seconds between two looks at each strand
COPIES = 2  # of a shard that come and go while it is served: a push that came, and an answer that leaves


def serve(
    place: Place,
    optimizers: Sequence[torch.optim.Optimizer],
    named: Sequence[Sequence[Named]],
    strategy: AnyStrategy,
    world: World,
) -> NoReturn:
    """`named` are each optimizer's tensors by kind, as members' strands hold them."""
    parts = [
        _Part(f"{course}/{number}", each, Borrowed(optimizer, [tensor for _, tensor in each]), strategy, place)
        for course, (optimizer, kinds) in enumerate(zip(optimizers, named, strict=True))
        for number, each in enumerate(kinds)
    ]
    _refuse_scarce(sum(part.needed(place.size) for part in parts))
    servers = [part.opened(place, world) for part in parts]
    kept = "; ".join(map(str, parts))
    tell(f"{place.named(place.member)} keeps {kept}")
    tell_kept(place, kept)
    while sum(server.attend(NAP) for server in servers) < len(servers):  # what goes wrong with one is everybody's
        pass
    for server in servers:
        server.close()
    raise SystemExit(0)


class _Part:
    """What this server has to do with one strand of the members."""

    def __init__(self, name: str, named: Named, optimizer: Borrowed, strategy: AnyStrategy, place: Place) -> None:
        self._name, self._named, self._optimizer, self._exchanges = name, named, optimizer, slots(strategy)
        self._layout, owners = Layout(named, as_they_lie=True), place.everybody[place.size :]
        self._shards = shared_out(self._exchanges, self._layout, optimizer, owners)
        self._mine = [shard for each in self._shards.values() for shard in each if shard.owner == place.member]
        self._bytes = [shard.part.count * self._layout.start.element_size() for shard in self._mine]

    def needed(self, members: int) -> int:
        """Bytes that its shards take, with all that is remembered of them."""
        return sum(n * self._vectors(shard, members) for n, shard in zip(self._bytes, self._mine, strict=True))

    def opened(self, place: Place, world: World) -> Server:
        """Serve it from now on."""
        hubs = hubs_of(place.member, self._shards, self._exchanges, self._layout, world, self._optimizer)
        compared = Halves(self._name, place, self._shards)
        return Server(carried.messages(place, self._name, self._named), hubs, self._optimizer.set, compared)

    def __str__(self) -> str:
        told = [f"{shard} ({n / 1e6:,.1f} MB)" for n, shard in zip(self._bytes, self._mine, strict=True)]
        return ", ".join(told) or "nothing: there are fewer shards than servers"

    def _vectors(self, shard: Shard, members: int) -> int:
        """How many times as large as it is a shard is with what is remembered of it."""
        ex = self._exchanges[shard.slot]
        remembered = _remembered(self._optimizer, shard.part.places[0], self._layout) if ex.updates_at_hub else 1
        return 1 + remembered + (members if ex.merge.compares else 0) + COPIES


def _remembered(optimizer: Borrowed, place: int, layout: Layout) -> int:
    """How many numbers an optimizer remembers of each that it steps: seen on two of them."""
    tried = torch.zeros(2, dtype=layout.start.dtype, device=layout.start.device)
    tried.grad = torch.zeros_like(tried)
    try:
        made = optimizer.over_places([(place, tried)])
        made.step()
    except Exception:  # one of the user's own may want more than a vector
        return 2
    return sum(1 for value in made.state[tried].values() if isinstance(value, Tensor) and value.shape == tried.shape)


def _refuse_scarce(needed: int) -> None:
    """Refuse shards that this host has no memory for."""
    if needed > (room := available()):
        raise Refused(
            f"its shards need {needed / 1e6:,.0f} MB, with all that is remembered of them, and there are "
            f"{room / 1e6:,.0f} MB",
            "more servers, or none: members keep the shards then",
        )
