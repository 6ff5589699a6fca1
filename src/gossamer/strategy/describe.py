"""What a strategy asks of the network, worked out without running it: wires, rounds, bytes, mixing, spectral gap.

Knows no clock, no player and no values; a complete mix stays one value and is never written out as n x n weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from gossamer.parts.codec import Size
from gossamer.parts.refusal import whole
from gossamer.parts.selection import Tag
from gossamer.parts.topology import AtHub, Everyone, Topology, hears
from gossamer.parts.world import World
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import AnyStrategy, Staged, slots

if TYPE_CHECKING:
    from numpy import ndarray

    Matrix = ndarray[Any, Any]

LAYERS = 8  # square matrices of the stand-in model
HORIZON = 32  # rounds looked at where a topology does not repeat itself
MOST_MIXED = 256  # members up to which the product of the mixing matrices is worked out
LOOKED_AT = 4096  # mixings asked for when messages are counted
PRIME = 1048583  # above every number of members: its multiples meet each of them, and no place on a host too often


@dataclass(frozen=True)
class Load:
    """What one exchange asks of the network each time it happens, in force from step `first` to `last`.

    `rounds`: messages one after the other, of which a member sends and receives at most one each. `sent`: bytes out of
    a member, mean over members. `answered`: bytes a hub sends back to each. `carried`: bytes of the tensors it takes.
    `passed`: likely bytes that pass one after the other, where rounds keep step.
    """

    slot: int
    exchange: Exchange
    first: int
    last: int | None
    wires: tuple[Size, ...]
    rounds: int
    sent: Size
    answered: int
    carried: int
    passed: float

    @property
    def per_step(self) -> float:
        """Likely bytes sent by a member, averaged over steps."""
        return self.sent.likely / self.exchange.synchrony.every


def stand_in(nbytes: int) -> tuple[Tag, ...]:
    """A model of `nbytes` as 32-bit floats: eight square matrices, each with its bias, and the rest as one vector."""
    whole("model", "bytes", nbytes, 4, 10**15)
    count = nbytes // 4
    side = (isqrt(1 + 4 * (count // LAYERS)) - 1) // 2  # the largest for which a layer's side (side + 1) fit
    tags: list[Tag] = []
    for layer in range(LAYERS if side else 0):
        tags += [Tag(f"layers.{layer}.weight", (side, side)), Tag(f"layers.{layer}.bias", (side,))]
    rest = count - LAYERS * side * (side + 1)
    return (*tags, Tag("rest", (rest,))) if rest else tuple(tags)


def loads(strategy: AnyStrategy, world: World, tags: Sequence[Tag]) -> tuple[Load, ...]:
    """The load of every slot, for a model with these tensors."""
    return tuple(_load(strategy, slot, world, tags) for slot in range(len(slots(strategy))))


def _load(strategy: AnyStrategy, slot: int, world: World, tags: Sequence[Tag]) -> Load:
    ex = slots(strategy)[slot]
    wires = ex.wire_bytes(tags)
    trips = [_trip(ex, wire, world, slot) for wire in wires]
    low, likely, high = (
        round(sum(trip.sent(getattr(wire, bound)) for trip, wire in zip(trips, wires, strict=True)))
        for bound in ("low", "likely", "high")
    )
    rounds, passed = sum(trip.rounds for trip in trips), sum(trip.passed for trip in trips)
    carried = sum(tags[place].bytes for place in ex.where.pick(tags))
    span = in_force(strategy, slot)
    return Load(slot, ex, *span, wires, rounds, Size(low, likely, high), carried if ex.hub else 0, carried, passed)


def in_force(strategy: AnyStrategy, slot: int) -> tuple[int, int | None]:
    """The first and the last step at which the slot's exchange counts; None: to the end."""
    if not isinstance(strategy, Staged):
        return 0, None
    return (0, strategy.step - 1) if slot < len(strategy.first.exchanges) else (strategy.step, None)


class _Trip(NamedTuple):
    """The rounds one wire takes, the bytes a member sends for a wire of so many, and those that pass in its time."""

    rounds: int
    sent: Callable[[float], float]
    passed: float


def _trip(ex: Exchange, wire: Size, world: World, slot: int) -> _Trip:
    match ex.topology.mixing(0, 0, world, slot):
        case Everyone() if not wire.gathered:
            route, size = ex.route.suited(wire.likely), world.size

            def sent(nbytes: float) -> float:
                return ex.route.suited(nbytes).total(size, nbytes) / size

            return _Trip(route.starts(size), sent, route.passed(size, wire.likely))
        case Everyone():
            rounds, copies = world.size - 1, float(world.size - 1)
        case AtHub():
            rounds, copies = 2, 1.0  # there, and the answer back
        case _:
            rounds, copies = messages(ex.topology, world, slot)
    return _Trip(rounds, lambda nbytes: copies * nbytes, copies * wire.likely)


def messages(topology: Topology, world: World, slot: int) -> tuple[int, float]:
    """The most messages a member hears or sends in a round of mixing, and the mean that it sends.

    Counted over all members or, in large worlds, a sample; over 32 rounds where rounds differ.
    """
    rounds = 1 if topology.fixed else HORIZON
    looked_at = min(world.size, max(1, LOOKED_AT // rounds))
    sample = [place * PRIME % world.size for place in range(looked_at)]
    heard = [len({*hears(topology, m, r, world, slot)} - {m}) for r in range(rounds) for m in sample]
    most = max(heard)
    if topology.patient:
        most = max(most, *(len(topology.listeners(m, r, world, slot)) for r in range(rounds) for m in sample))
    both = 2 if topology.trades else 1  # a partner that is drawn hears as much as it tells
    return both * most, both * sum(heard) / len(heard)


def mixing_matrix(topology: Topology, round: int, world: World, slot: int) -> Matrix:
    """Row m holds the weights with which member m hears each member."""
    import numpy

    if topology.trades:
        return _trades(topology, round, world, slot)
    weights = numpy.zeros((world.size, world.size))
    for member in range(world.size):
        for other, weight in hears(topology, member, round, world, slot).items():
            weights[member, other] = weight
    return weights


def _trades(topology: Topology, round: int, world: World, slot: int) -> Matrix:
    """What comes of a round in which each member trades once, one after the other: both sides of a trade move."""
    import numpy

    weights = numpy.eye(world.size)
    for member in range(world.size):
        both = list(hears(topology, member, round, world, slot))
        weights[both] = weights[both].mean(0)
    return weights


def spectral_gap(topology: Topology, world: World, slot: int) -> float | None:
    """1 - s ** (1 / k), s the second largest singular value of the product of the mixing matrices W of k rounds.

    k is one period of the topology. Where partners are drawn, 1 - sqrt(r), r the largest eigenvalue of the mean of
    W' (1 - J) W over many rounds: by r the squared distance from agreement shrinks in a round, on average. 1: all agree
    after a period; 0: some never hear of others. None at a hub, which mixes as its merge says, and above 256 members.
    """
    match topology.mixing(0, 0, world, slot):
        case AtHub():
            return None
        case Everyone():
            return 1.0
    if world.size == 1:
        return 1.0
    if world.size > MOST_MIXED:
        return None
    import numpy

    rounds = period(topology, world, slot)
    if rounds is None:
        return _drawn_gap(topology, world, slot)
    product = numpy.eye(world.size)
    for round in range(rounds):
        product = mixing_matrix(topology, round, world, slot) @ product
    second = float(numpy.linalg.svd(product, compute_uv=False)[1])
    return max(0.0, 1.0 - second ** (1.0 / rounds)) if second > 1e-14 else 1.0


def joint_gap(exchanges: Mapping[int, Exchange], world: World) -> float:
    """The same of several exchanges by slot, which mix one after the other: by each round of the rarest of them. 1 of
    none, as whoever mixes by a hub alone."""
    import numpy

    if not exchanges:
        return 1.0
    if len(exchanges) == 1:
        ((slot, ex),) = exchanges.items()
        return spectral_gap(ex.topology, world, slot) or 0.0
    product, rarest, step = numpy.eye(world.size), max(ex.synchrony.every for ex in exchanges.values()), 0
    most = min(HORIZON * rarest, LOOKED_AT)
    while step < most:
        for slot, ex in exchanges.items():
            if ex.synchrony.due(step, ex.order):
                product = _mixed(ex, step, world, slot) @ product
        step += 1
        if not step % rarest and (step >= min(HORIZON, most) or numpy.ptp(product) < 1e-14):
            break
    second = float(numpy.linalg.svd(product, compute_uv=False)[1]) if world.size > 1 else 0.0
    return max(0.0, 1.0 - second ** (rarest / step)) if second > 1e-14 else 1.0


def _mixed(ex: Exchange, step: int, world: World, slot: int) -> Matrix:
    import numpy

    round = ex.round(step)
    if isinstance(ex.topology.mixing(0, round, world, slot), Everyone):
        return numpy.full((world.size, world.size), 1.0 / world.size)
    return mixing_matrix(ex.topology, 0 if ex.topology.fixed else round, world, slot)


def _drawn_gap(topology: Topology, world: World, slot: int) -> float:
    import numpy

    apart = numpy.eye(world.size) - 1.0 / world.size
    rounds = max(HORIZON, LOOKED_AT // world.size)
    mixings = (mixing_matrix(topology, round, world, slot) for round in range(rounds))
    mean = sum(weights.T @ apart @ weights for weights in mixings) / rounds
    largest = float(numpy.linalg.eigvalsh(apart @ mean @ apart)[-1])
    return 1.0 - sqrt(max(0.0, largest))


def period(topology: Topology, world: World, slot: int) -> int | None:
    """After how many rounds, up to 32, the mixing repeats itself; None where it does not."""
    if topology.fixed:
        return 1

    def row(round: int) -> list[dict[int, float]]:
        return [dict(hears(topology, member, round, world, slot)) for member in range(world.size)]

    seen = [row(round) for round in range(2 * HORIZON)]
    repeats = (p for p in range(1, HORIZON + 1) if all(seen[k] == seen[k + p] for k in range(HORIZON)))
    return next(repeats, None)
