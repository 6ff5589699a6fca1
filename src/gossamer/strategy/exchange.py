"""One exchange: a value on every axis, refused when built if the values cannot work together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gossamer.parts.codec import Codec, Dense, Size
from gossamer.parts.merge import Adopt, Merge
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import kind
from gossamer.parts.route import Auto, Route
from gossamer.parts.selection import Everything, Selection, Tag
from gossamer.parts.synchrony import Late, Synchrony
from gossamer.parts.topology import Complete, Hub, Topology, Weighing
from gossamer.parts.value import Value
from gossamer.parts.world import World
from gossamer.strategy import legality

if TYPE_CHECKING:
    from gossamer.strategy.strategy import Strategy


@dataclass(frozen=True, repr=False)
class Exchange(Value):
    """What is exchanged, by whom, when, written how, travelling how, and how it comes back."""

    payload: Payload = Payload.GRADIENTS
    where: Selection = Everything()
    topology: Topology = Complete()
    route: Route = Auto()
    synchrony: Synchrony = Synchrony()
    codec: Codec = Dense()
    merge: Merge = Adopt()
    order: Order = Order.AFTER

    def __post_init__(self) -> None:
        kinds = (Payload, Selection, Topology, Route, Synchrony, Codec, Merge, Order)
        for name, wanted in zip(self.__dataclass_fields__, kinds, strict=True):
            kind("Exchange", name, getattr(self, name), wanted)
        legality.check(self)

    def __add__(self, other: Exchange | Strategy) -> Strategy:
        from gossamer.strategy.strategy import Strategy

        return Strategy((self,)) + other

    @property
    def hub(self) -> bool:
        """Whether a hub answers."""
        return isinstance(self.topology, Hub)

    @property
    def meets(self) -> bool:
        """Whether a member trades with one partner as it is right now, nobody else waiting."""
        return self.synchrony.staleness is None or (not self.hub and self.synchrony.staleness > 0)

    @property
    def survives(self) -> bool:
        """Whether the others can go on without a member: all meet one partner at a time, and nobody waits at a gate.

        A hub lives with a worker and is lost with it.
        """
        return self.meets and not self.hub and self.synchrony.staleness is None

    @property
    def updates_at_hub(self) -> bool:
        """Whether the hub, and not the member, steps the optimizer."""
        return self.hub and self.payload is Payload.GRADIENTS

    @property
    def cuttable(self) -> bool:
        """Whether its tensors may be exchanged bucket by bucket, with the same result as all at once."""
        waits = self.synchrony.staleness == 0 and self.synchrony.delay == 0 and not self.hub
        plain = isinstance(self.merge, Adopt) and self.codec.by_element and isinstance(self.topology, Complete)
        return self.payload is Payload.GRADIENTS and waits and plain

    @property
    def idle_alone(self) -> bool:
        """Whether it changes nothing in a world of one."""
        return self.cuttable and not self.codec.lossy

    @property
    def shardable(self) -> bool:
        """Whether all gradients are summed as they are at every step, so each member may step a share for all."""
        return self.idle_alone and self.synchrony.every == 1 and self.where == Everything()

    @property
    def leaves_behind(self) -> bool:
        """Whether a round closes without some, whose steps then no longer line up with the others'."""
        sync = self.synchrony
        return self.hub and sync.staleness == 0 and sync.quorum is not None and sync.late is Late.DROP

    @property
    def agrees(self) -> bool:
        """Whether all members that were the same before, or mixed all of themselves, are the same after it."""
        together = isinstance(self.topology, Complete) or self.hub
        waits = self.synchrony.staleness == 0 and self.synchrony.delay == 0 and self.synchrony.quorum is None
        adopts = isinstance(self.merge, Adopt) or self.payload is Payload.DELTAS
        everything = self.payload is Payload.GRADIENTS or self.where == Everything()
        return together and waits and adopts and everything and self.order is Order.AFTER and not self._partly

    @property
    def _partly(self) -> bool:
        """Whether parameters go only part of the way to what was heard."""
        return self.payload is Payload.PARAMETERS and self.codec.lossy

    @property
    def carries_mass(self) -> bool:
        """Whether a mass travels with the parameters, to be divided out again (push-sum)."""
        return self.topology.weighing is Weighing.SENDER and self.payload is Payload.PARAMETERS

    def round(self, step: int) -> int:
        """The number of the exchange that happens at `step`."""
        return self.synchrony.round(step, self.order)

    def wire_bytes(self, tags: Sequence[Tag]) -> tuple[Size, ...]:
        """Bytes of each turn's wire for a model with these tensors, before any route multiplies them."""
        chosen = [tags[place] for place in self.where.pick(tags)]
        itemsize = chosen[0].itemsize if chosen else 4
        sizes = self.codec.wire_bytes([tag.shape for tag in chosen], itemsize)
        extra = itemsize if self.carries_mass else 0
        return tuple(replace(s, low=s.low + extra, likely=s.likely + extra, high=s.high + extra) for s in sizes)

    def fits(self, world: World) -> None:
        """Refuse a world in which this exchange cannot happen."""
        legality.check_world(self, world)
