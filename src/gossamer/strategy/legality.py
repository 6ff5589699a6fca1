"""Which values of the axes can work together: each rule with its reason, and a search for the nearest legal choice."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from gossamer.parts.codec import Dense, Difference
from gossamer.parts.merge import Adopt, Elastic, Share
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.route import Auto
from gossamer.parts.synchrony import AllBut, Late, OneIn
from gossamer.parts.topology import Complete, Cycle, Hub, RandomPeer, Weighing
from gossamer.parts.world import World

if TYPE_CHECKING:
    from gossamer.strategy.exchange import Exchange

Change = dict[str, Any]  # fields of an exchange or of its synchrony, and what they become


def check(ex: Exchange) -> None:
    """Refuse an exchange whose parts cannot work together, naming the fewest changes that make it legal."""
    broken = _broken(ex)
    if broken is not None:
        reason, fields = broken
        raise Refused(reason, lambda: _nearest(ex, fields))


def check_world(ex: Exchange, world: World) -> None:
    """Refuse a world too small or of the wrong shape for the exchange."""
    ex.topology.fits(world)
    if isinstance(ex.topology, Complete):
        ex.route.fits(world.size)
    _check_quorum(ex.synchrony.quorum, ex.synchrony.closes(world.size), world.size)


def _check_quorum(quorum: int | AllBut | OneIn | None, closes: int, size: int) -> None:
    """Refuse a quorum of nobody, or of more than there are; say the nearest, and how many workers it would need."""
    if 1 <= closes <= size:
        return
    workers = f"{size} worker{'s' * (size > 1)}"
    match quorum:
        case AllBut(count):
            backups = f"{count} backups of {workers} leave" if count > 1 else f"1 backup of {workers} leaves"
            said = f"{backups} nobody to wait for"
            fewer, enough = f"AllBut({size - 1})" if size > 1 else "no quorum", count + 1
        case OneIn(count):
            said, fewer, enough = f"one in {count} of {workers} is nobody", f"OneIn({size})", count
        case _:
            said, fewer, enough = f"{workers} never make a quorum of {closes}", f"quorum={size}", closes
    raise Refused(f"Synchrony: {said}", f"{fewer}, or {enough} workers")


Broken = tuple[str, tuple[str, ...]] | None  # the reason, and the fields one would change first


def _broken(ex: Exchange) -> Broken:
    for rule in (_timing, _hub_timing, _gradients, _payload, _merge, _codec, _difference, _travel):
        broken = rule(ex)
        if broken is not None:
            return broken
    return None


def _timing(ex: Exchange) -> Broken:
    sync, who = ex.synchrony, type(ex.topology).__name__
    if sync.staleness != 0 and ex.topology.patient:
        return f"{who}: both ends must be there, so nobody can run ahead; a late answer is a delay", ("staleness",)
    if sync.staleness == 0 and ex.topology.only_met:
        return f"{who}: a partner is met as it is, so nobody can be in step with it", ("staleness", "topology")
    if sync.quorum is not None and not ex.hub:
        return f"{who}: only a hub can close a round before everybody is in", ("quorum", "topology")
    if sync.delay > sync.every and ex.carries_mass:
        return f"{who}: mass sent again before it has come back would dwindle, and steps would grow", ("every", "delay")
    adds_up = ex.payload is Payload.GRADIENTS or ex.carries_mass
    if sync.delay and not adds_up and sync.delay >= sync.every:
        return f"{ex.payload!r}: sent before the last has settled, it counts the same steps twice", ("every", "delay")
    return None


def _hub_timing(ex: Exchange) -> Broken:
    sync = ex.synchrony
    if ex.hub and sync.staleness != 0 and sync.quorum is None:
        return "Hub: who runs ahead would count twice in a round that waits for everybody", ("quorum", "staleness")
    if ex.hub and sync.staleness and sync.every > 1:
        return "Hub: staleness counts steps; who hears only some cannot keep the bound", ("every", "staleness")
    relaxed = sync.staleness != 0 or sync.late is Late.APPLY
    if ex.hub and ex.merge.answers_with_before and relaxed and sync.quorum != 1:
        return f"{ex.merge!r}: who is answered before it is counted is not pulled as hard as it pulls", ("quorum",)
    return None


def _gradients(ex: Exchange) -> Broken:
    if ex.payload is not Payload.GRADIENTS:
        return None
    who = type(ex.topology).__name__
    if ex.order is Order.BEFORE:
        return "GRADIENTS always mix before the update; order speaks of parameters and deltas", ("order",)
    if ex.synchrony.every > 1:
        return (
            "GRADIENTS: what is skipped would be applied on one member only, and the replicas would drift apart",
            ("payload", "every"),
        )
    if ex.meets and not ex.hub:
        return f"{who}: a gradient does not lie still to be read by a partner", ("payload",)
    if ex.topology.weighing is Weighing.SENDER and not ex.topology.balanced:
        return f"{who}: only parameters carry the mass an unbalanced graph needs", ("payload",)
    return None


def _payload(ex: Exchange) -> Broken:
    who = type(ex.topology).__name__
    if ex.payload is Payload.DELTAS and not (ex.hub or isinstance(ex.topology, Complete)):
        return f"{who}: deltas count from what all last agreed on, and neighbours never all agree", ("payload",)
    relaxed = ex.hub and (ex.synchrony.staleness != 0 or ex.synchrony.late is Late.APPLY)
    if ex.payload is Payload.PARAMETERS and relaxed and not ex.merge.moves_centre_gently:
        return "Hub: whoever spoke last would overwrite everybody else's parameters", ("merge",)
    return None


def _merge(ex: Exchange) -> Broken:
    if ex.payload not in ex.merge.payloads:
        takes = ", ".join(p.name for p in Payload if p in ex.merge.payloads)
        return f"{ex.merge!r} merges {takes}, not {ex.payload!r}", ("merge", "payload")
    if ex.merge.at_hub_only and not ex.hub:
        return f"{ex.merge!r} speaks of what a hub does, and there is none", ("merge", "topology")
    if ex.merge.lookahead and not ex.hub:
        return f"{ex.merge!r}: who looks ahead must not be read meanwhile, and only a hub does not read", ("merge",)
    if ex.carries_mass and not isinstance(ex.merge, Adopt):
        return f"{ex.merge!r}: with a mass on the way only the whole sum keeps the mean", ("merge",)
    return None


def _codec(ex: Exchange) -> Broken:
    if ex.payload not in ex.codec.payloads:
        if ex.payload is Payload.PARAMETERS and ex.codec.lossy:
            return f"{ex.codec!r} loses parts of what it carries, and parameters do not come again", (
                "codec",
                "payload",
            )
        carries = ", ".join(p.name for p in Payload if p in ex.codec.payloads)
        return f"{ex.codec!r} carries {carries}, not {ex.payload!r}", ("codec", "payload")
    if ex.codec.turns > 1 and not isinstance(ex.topology, Complete):
        return (
            f"{ex.codec!r} speaks {ex.codec.turns} times and all must hear the same; only Complete gives that",
            ("topology", "codec"),
        )
    if ex.codec.turns > 1 and ex.codec.remembers and ex.synchrony.delay >= ex.synchrony.every:
        return f"{ex.codec!r} knows only in the end what it keeps, and the next is sent before that", ("delay", "codec")
    if ex.codec.draws_alike and not isinstance(ex.topology, Complete):
        return (
            f"{ex.codec!r} can be read only by who drew the same places, in the same step; only Complete gives that",
            ("topology", "codec"),
        )
    return None


def _difference(ex: Exchange) -> Broken:
    if not isinstance(ex.codec, Difference):
        return None
    if not ex.topology.fixed or ex.hub or ex.carries_mass:
        return "Difference: a reference must have the same hearers in every round, and no mass", ("topology", "codec")
    if ex.synchrony.delay:
        return "Difference: a reference cannot be compared with one that is still under way", ("delay",)
    if isinstance(ex.merge, Elastic):
        return "Difference already moves only part of the way; two rates would multiply", ("merge",)
    if isinstance(ex.topology, Complete) and not ex.codec.codec.sums_exactly:
        return f"Difference: {ex.codec.codec!r} is rounded as it is summed, and references would drift", ("codec",)
    return None


def _travel(ex: Exchange) -> Broken:
    if not isinstance(ex.topology, Complete) and ex.route != Auto():
        return f"{ex.route!r} is a way to all-reduce; {type(ex.topology).__name__} has its own way", ("route",)
    if ex.route.shards and not ex.shardable:
        told = (
            "each member steps its share of the parameters, so all gradients must be summed as they are at every step"
        )
        return f"{ex.route!r}: {told}", ("route",)
    return None


def _nearest(ex: Exchange, fields: tuple[str, ...]) -> str | None:
    """The first change that makes the exchange legal: the fields the rule names first, then any one, then any two."""
    single = sorted(_changes(ex), key=lambda change: min((fields.index(f) for f in change if f in fields), default=9))
    pairs = ({**one, **two} for one, two in combinations(single, 2) if not one.keys() & two.keys())
    for change in (*single, *pairs):
        changed = _changed(ex, change)
        if changed is not None and _broken(changed) is None:
            return ", ".join(f"{name}={value!r}" for name, value in change.items())
    return None


def _changes(ex: Exchange) -> Iterator[Change]:
    """Simple values for each axis, likelier ones first."""
    inner = getattr(ex.codec, "codec", ex.codec)
    if inner.lossy and not inner.remembers:
        yield {"codec": Difference(inner)}
        yield {"codec": inner}
    yield {"codec": Dense()}
    for merge in (Adopt(), Elastic(), Share()):
        yield {"merge": merge}
    for payload in (Payload.DELTAS, Payload.PARAMETERS, Payload.GRADIENTS):
        yield {"payload": payload}
    for topology in (Complete(), Cycle(), Hub(), RandomPeer()):
        yield {"topology": topology}
    yield from ({"route": Auto()}, {"order": Order.AFTER}, {"staleness": 0}, {"delay": 0}, {"every": 1})
    yield {"staleness": None}
    yield {"every": max(1, ex.synchrony.delay)}
    yield {"every": ex.synchrony.delay + 1}
    yield {"quorum": None, "late": Late.DROP}
    yield {"quorum": 1, "late": Late.APPLY}


def _changed(ex: Exchange, change: Change) -> Exchange | None:
    """The exchange with fields of its own or of its synchrony changed, unchecked; None where the synchrony says no."""
    other = copy(ex)
    times = {name: value for name, value in change.items() if name in ex.synchrony.__dataclass_fields__}
    try:
        object.__setattr__(other, "synchrony", replace(ex.synchrony, **times))
    except Refused:
        return None
    for name, value in change.items():
        if name not in times:
            object.__setattr__(other, name, value)
    return other
