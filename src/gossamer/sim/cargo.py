"""What each exchange of a strategy carries for a workload: parcels, when they may leave, and what they cost.

Knows no clock; whoever plays a strategy asks for the cargo of a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gossamer.parts.codec import Size
from gossamer.parts.payload import Payload
from gossamer.parts.topology import Everyone
from gossamer.strategy import Exchange, slots
from gossamer.strategy.buckets import length, parted

if TYPE_CHECKING:
    from gossamer.parts.selection import Tag
    from gossamer.sim.scene import Scene

WIDE = 32  # bits of a number: a body of fewer bits a number still takes as long to read as all its numbers


@dataclass(frozen=True)
class Parcel:
    """A bucket of an exchange: the share of compute that is over when it may leave, seconds to write and to read it,
    seconds on the links in a mix of all, bytes that leave a member for it then, and bytes of its wires."""

    ready: float
    write: float
    read: float
    seconds: float
    sent: float
    wires: tuple[Size, ...]

    @property
    def nbytes(self) -> int:
        """Likely bytes of all its wires."""
        return sum(wire.likely for wire in self.wires)


@dataclass(frozen=True)
class Cargo:
    """All parcels of an exchange, in the order in which they leave; `carried`: bytes of its tensors."""

    exchange: Exchange
    parcels: tuple[Parcel, ...]
    carried: int
    early: bool  # parcels leave while backward still runs

    @cached_property
    def write(self) -> float:
        """Seconds to write all of it."""
        return sum(parcel.write for parcel in self.parcels)

    @cached_property
    def read(self) -> float:
        """Seconds to read what comes back."""
        return sum(parcel.read for parcel in self.parcels)

    @cached_property
    def nbytes(self) -> int:
        """Likely bytes of all wires of one member."""
        return sum(parcel.nbytes for parcel in self.parcels)

    @property
    def steady(self) -> bool:
        """Whether its wires are as long whatever the numbers are."""
        return all(wire.low == wire.high for parcel in self.parcels for wire in parcel.wires)


def cargoes(scene: Scene) -> list[Cargo]:
    """The cargo of every slot."""
    return [_cargo(scene, ex, slot) for slot, ex in enumerate(slots(scene.strategy))]


def _cargo(scene: Scene, ex: Exchange, slot: int) -> Cargo:
    workload = scene.workload
    places = ex.where.pick(workload.tags)
    gradients = ex.payload is Payload.GRADIENTS and not ex.synchrony.delay
    cut = bool(places) and gradients and (ex.cuttable or (scene.early and ex.hub and ex.codec.by_element))
    ready = workload.ready()
    if cut:
        later = scene.bucket or length(workload.nbytes, local=scene.roads.used == 1)
        buckets = parted(workload.tags, places, later)
        moments = [max(ready[place] for place in bucket) for bucket in buckets]
    else:
        buckets, moments = [places] if places else [], [1.0]
    everyone = isinstance(ex.topology.mixing(0, 0, scene.world, slot), Everyone)
    parcels = tuple(
        _parcel(scene, ex, [workload.tags[place] for place in bucket], moment, everyone)
        for bucket, moment in zip(buckets, moments, strict=False)
    )
    return Cargo(ex, parcels, sum(workload.tags[place].bytes for place in places), cut)


def _parcel(scene: Scene, ex: Exchange, tags: Sequence[Tag], ready: float, everyone: bool) -> Parcel:
    roads, size = scene.roads, scene.world.size
    itemsize, carried = tags[0].itemsize, sum(tag.bytes for tag in tags)
    wires = ex.codec.wire_bytes([tag.shape for tag in tags], itemsize)
    wires = tuple(replace(wire, likely=getattr(wire, scene.bound)) for wire in wires)
    write = read = 0.0
    if ex.codec.compresses:
        bodies = size if everyone and any(wire.gathered for wire in wires) else 1
        dense = sum(min(1.0, WIDE * wire.likely / max(1, carried)) for wire in wires if wire.gathered) or 1.0
        write = carried / roads.cluster.writing
        read = carried / roads.cluster.reading * (1.0 + (bodies - 1) * min(1.0, dense))
    extra = itemsize if ex.carries_mass else 0
    wires = tuple(Size(w.low + extra, w.likely + extra, w.high + extra, w.gathered) for w in wires)
    if not everyone:
        return Parcel(ready, write, read, 0.0, 0.0, wires)
    seconds = sent = 0.0
    for wire in wires:
        route = ex.route.suited(wire.likely)
        if wire.gathered:
            seconds, sent = seconds + roads.gathered(wire.likely), sent + (size - 1) * wire.likely
        else:
            seconds += roads.summed(ex.route, wire.likely)
            sent += route.total(size, wire.likely) / size
    return Parcel(ready, write, read, seconds, sent, wires)
