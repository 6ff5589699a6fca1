"""Which values of the axes can work together, each rule with its reason and the nearest legal choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.parts.codec import Dense, Difference
from gossamer.parts.merge import Adopt, Elastic
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.route import Auto
from gossamer.parts.topology import Complete, Weighing
from gossamer.parts.world import World

if TYPE_CHECKING:
    from gossamer.strategy.exchange import Exchange


def check(ex: Exchange) -> None:
    """Refuse an exchange whose parts cannot work together."""
    for rule in (_timing, _payload, _merge, _codec, _travel):
        rule(ex)


def check_world(ex: Exchange, world: World) -> None:
    """Refuse a world too small or of the wrong shape for the exchange."""
    ex.topology.fits(world)
    if isinstance(ex.topology, Complete):
        ex.route.fits(world.size)
    closes = ex.synchrony.closes(world.size)
    if not 1 <= closes <= world.size:
        raise Refused(
            f"Synchrony: {ex.synchrony.quorum!r} of {world.size} workers leaves a quorum of {closes}",
            f"quorum={min(max(1, closes), world.size)}, or more workers",
        )


def _timing(ex: Exchange) -> None:
    sync, who = ex.synchrony, type(ex.topology).__name__
    if sync.staleness != 0 and ex.topology.patient:
        raise Refused(
            f"{who}: both ends of this exchange must be there, so nobody can run ahead; a late answer is a delay",
            "staleness=0, with delay=1 if the answer may come one step late",
        )
    if sync.quorum is not None and not ex.hub:
        raise Refused(f"{who}: only a hub can close a round before everybody is in", "topology=Hub()")
    if sync.delay and ex.carries_mass:
        raise Refused(f"{who}: mass that is under way belongs to nobody; a delayed push-sum would lose it", "delay=0")
    if sync.delay and ex.payload is Payload.DELTAS and sync.delay >= sync.every:
        raise Refused(
            "DELTAS: a delta sent before the last one has settled would count the same steps twice",
            f"every={sync.delay + 1}, or delay={sync.every - 1}",
        )


def _payload(ex: Exchange) -> None:
    who = type(ex.topology).__name__
    if ex.payload is Payload.GRADIENTS:
        if ex.order is Order.BEFORE:
            raise Refused(
                "GRADIENTS always mix before the update; order speaks of parameters and deltas", "order=AFTER"
            )
        if ex.synchrony.every > 1:
            raise Refused(
                "GRADIENTS: what is skipped would be applied on one member only, and the replicas would drift apart",
                f"payload=DELTAS with every={ex.synchrony.every}",
            )
        if ex.meets and not ex.hub:
            raise Refused(f"{who}: a gradient does not lie still to be read by a partner", "payload=PARAMETERS")
        if ex.topology.weighing is Weighing.SENDER and not ex.topology.balanced:
            raise Refused(f"{who}: only parameters carry the mass an unbalanced graph needs", "payload=PARAMETERS")
    if ex.payload is Payload.DELTAS and not (ex.hub or isinstance(ex.topology, Complete)):
        raise Refused(
            f"{who}: deltas count from what all last agreed on, and neighbours never all agree",
            "payload=PARAMETERS, or topology=Complete()",
        )
    if ex.payload is Payload.PARAMETERS and ex.hub and ex.synchrony.staleness != 0 and not ex.merge.moves_centre_gently:
        raise Refused("Hub: whoever spoke last would overwrite everybody else's parameters", "merge=Elastic()")


def _merge(ex: Exchange) -> None:
    if ex.payload not in ex.merge.payloads:
        takes = ", ".join(p.name for p in Payload if p in ex.merge.payloads)
        raise Refused(f"{ex.merge!r} merges {takes}, not {ex.payload!r}", "merge=Adopt()")
    if ex.merge.at_hub_only and not ex.hub:
        raise Refused(f"{ex.merge!r} speaks of what a hub does, and there is none", "merge=Adopt(), or topology=Hub()")
    if ex.carries_mass and not isinstance(ex.merge, Adopt):
        raise Refused(f"{ex.merge!r}: with a mass on the way only the whole sum keeps the mean", "merge=Adopt()")
    if ex.hub and ex.merge.answers_with_before and ex.synchrony.staleness != 0 and ex.synchrony.quorum != 1:
        raise Refused(
            f"{ex.merge!r}: who is answered before it is counted would not be pulled as hard as it pulls",
            "quorum=1, late=APPLY",
        )
    if isinstance(ex.merge, Elastic) and isinstance(ex.codec, Difference):
        raise Refused("Difference already moves only part of the way; two rates would multiply", "merge=Adopt()")


def _codec(ex: Exchange) -> None:
    if ex.payload not in ex.codec.payloads:
        if ex.payload is Payload.PARAMETERS and Payload.DELTAS in ex.codec.payloads:
            raise Refused(
                f"{ex.codec!r} loses parts of what it carries, and parameters do not come again", _nearest(ex)
            )
        raise Refused(
            f"{ex.codec!r} carries {', '.join(p.name for p in Payload if p in ex.codec.payloads)}, not {ex.payload!r}",
            repr(Dense()) if not isinstance(ex.codec, Difference) else f"codec={ex.codec.codec!r}",
        )
    if ex.codec.turns > 1 and not isinstance(ex.topology, Complete):
        raise Refused(
            f"{ex.codec!r} speaks {ex.codec.turns} times and all must hear the same; only Complete gives that",
            "topology=Complete()",
        )
    if isinstance(ex.codec, Difference) and (not ex.topology.fixed or ex.hub or ex.carries_mass):
        raise Refused(
            "Difference: a reference must be kept by the same hearers in every round, on a graph without mass",
            "topology=Cycle() or Complete()",
        )
    if isinstance(ex.codec, Difference) and ex.synchrony.delay:
        raise Refused("Difference: a reference cannot be compared with one that is still under way", "delay=0")


def _nearest(ex: Exchange) -> str:
    inner = getattr(ex.codec, "codec", ex.codec)
    usable = Payload.DELTAS in inner.payloads
    return f"codec=Difference(codec={inner!r})" if usable else "codec=Dense()"


def _travel(ex: Exchange) -> None:
    if not isinstance(ex.topology, Complete) and ex.route != Auto():
        raise Refused(
            f"{ex.route!r} is a way to all-reduce; {type(ex.topology).__name__} has its own way",
            "route=Auto()",
        )
