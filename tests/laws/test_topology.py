"""Every topology keeps its promises: weights that sum to 1, listeners that agree with mixing, pure answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, product
from math import isclose, sqrt
from typing import ClassVar

import pytest
from tests.laws.specimens import TOPOLOGIES

from gossamer.parts.chance import below
from gossamer.parts.refusal import Refused
from gossamer.parts.topology import (
    AtHub,
    Complete,
    Cycle,
    Dissemination,
    Everyone,
    Exponential,
    Follow,
    Graph,
    Inside,
    Masters,
    Mixing,
    Neighbours,
    RandomPeer,
    RandomPush,
    Topology,
    Weighing,
    hears,
)
from gossamer.parts.world import World

ROUNDS = (0, 1, 2, 5, 1000)
HOSTED: tuple[Topology, ...] = (  # of other sizes, and made of others still
    Inside(per_host=3),
    Inside(per_host=1),
    Follow(per_host=4),
    Masters(per_host=1, among=Cycle()),
    Masters(per_host=3, among=RandomPeer(pulls=2)),
    Masters(per_host=3, among=RandomPush()),
    Masters(among=Complete()),
    Masters(among=Graph(edges=((0, 1), (1, 2), (2, 0), (2, 1)))),
    Masters(among=Masters(among=Dissemination())),
)
Law = Callable[[Topology], str | None]


def cases(topology: Topology) -> Iterator[tuple[int, World, int]]:
    """Rounds, worlds and slots to try it in; a topology that fits no world is wrong in itself."""
    fitting = 0
    for size in range(2, 18):
        for seed in (0, 7, 2**40 + 1):
            world = World(size, seed)
            try:
                topology.fits(world)
            except Refused:
                continue
            fitting += 1
            yield from ((round, world, slot) for round in ROUNDS for slot in (0, 3))
    assert fitting, f"{topology!r} fits no world from 2 to 17"


def matrix(topology: Topology, round: int, world: World, slot: int) -> list[dict[int, float]]:
    """The mixing matrix of a round, row by receiver."""
    return [dict(hears(topology, member, round, world, slot)) for member in range(world.size)]


def weights_sum_to_one(topology: Topology) -> str | None:
    """Each receiver's weights do (RECEIVER), or each sender's (SENDER), or both (balanced); all are positive."""
    if isinstance(topology.mixing(0, 0, World(4), 0), AtHub):
        return None
    for round, world, slot in cases(topology):
        rows = matrix(topology, round, world, slot)
        if any(not weight > 0 or not 0 <= sender < world.size for row in rows for sender, weight in row.items()):
            return f"{world}, round {round}: a weight is not positive, or of nobody"
        received = [sum(row.values()) for row in rows]
        sent = [sum(row.get(sender, 0.0) for row in rows) for sender in range(world.size)]
        if (topology.weighing is Weighing.RECEIVER or topology.balanced) and not all(isclose(s, 1) for s in received):
            return f"{world}, round {round}: receivers' weights sum to {received}"
        if (topology.weighing is Weighing.SENDER or topology.balanced) and not all(isclose(s, 1) for s in sent):
            return f"{world}, round {round}: senders' weights sum to {sent}"
    return None


def listeners_agree_with_mixing(topology: Topology) -> str | None:
    """The listeners of a member are those others whose mixing names it; none where everybody or a hub hears."""
    for round, world, slot in cases(topology):
        named = not isinstance(topology.mixing(0, round, world, slot), Everyone | AtHub)
        rows = matrix(topology, round, world, slot)
        for member in range(world.size):
            told = topology.listeners(member, round, world, slot)
            meant = [other for other in range(world.size) if named and other != member and member in rows[other]]
            if sorted(told) != meant:
                return f"{world}, round {round}: member {member} is heard by {meant}, not {told}"
    return None


def answers_twice_the_same(topology: Topology) -> str | None:
    """Pure: asked again, in another order, the answers are the same."""
    asked = list(cases(topology))
    first = [matrix(topology, *case) for case in asked]
    again = [matrix(topology, *case) for case in reversed(asked)]
    return None if first == again[::-1] else "the second answer differs from the first"


def fixed_means_fixed(topology: Topology) -> str | None:
    """Where `fixed`, who hears whom is the same in every round."""
    if not topology.fixed:
        return None
    for _, world, slot in cases(topology):
        seen = {str([sorted(row) for row in matrix(topology, round, world, slot)]) for round in range(6)}
        if len(seen) > 1:
            return f"{world}: who hears whom changes between rounds"
    return None


def draws_uniformly(topology: Topology) -> str | None:
    """Random partners are uniform over all members, oneself included: chi-square within 4 sigma of its mean."""
    if not isinstance(topology, RandomPeer):
        return None
    for size, seed, slot in ((2, 0, 0), (5, 1, 0), (5, 0, 1), (16, 0, 0), (16, 9, 2)):
        world, tally = World(size, seed), Counter[int]()
        for round, member in product(range(600), range(size)):
            tally.update((peer - member) % size for peer in topology.drawn(member, round, world, slot))
        expected = tally.total() / size
        surprise = sum((tally[place] - expected) ** 2 for place in range(size)) / expected
        if surprise > (size - 1) + 4 * sqrt(2 * (size - 1)):
            return f"{world}, slot {slot}: chi-square {surprise:.1f} over {size - 1}, counts {sorted(tally.items())}"
    return None


LAWS = (weights_sum_to_one, listeners_agree_with_mixing, answers_twice_the_same, fixed_means_fixed, draws_uniformly)


@dataclass(frozen=True, repr=False)
class Greedy(Cycle):
    """Counts itself twice."""

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return Neighbours(dict.fromkeys({member, *self.listeners(member, round, world, slot)}, 0.5))


@dataclass(frozen=True, repr=False)
class Lopsided(Exponential):
    """Keeps more than it may of what it sends, so no mass is kept."""

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return Neighbours({member: 0.75, (member - 1) % world.size: 0.5})


@dataclass(frozen=True, repr=False)
class Funnel(RandomPeer):
    """Calls itself balanced; what it hears sums to 1, what it is heard with does not."""

    balanced: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Backwards(Exponential):
    """Tells its words to the member before it, which is not the one that hears them."""

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return ((member - self._hop(round, world)) % world.size,)


@dataclass(frozen=True, repr=False)
class Crier(Complete):
    """Everybody hears it, and still it names listeners."""

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return ((member + 1) % world.size,)


@dataclass(frozen=True, repr=False)
class Moody(RandomPeer):
    """Draws anew whenever asked."""

    asked: ClassVar[count[int]] = count()

    def drawn(self, member: int, round: int, world: World, slot: int) -> list[int]:
        return [below(world.size, next(self.asked))]


@dataclass(frozen=True, repr=False)
class Restless(Exponential):
    """Calls itself fixed and changes partners."""

    fixed: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Shy(RandomPeer):
    """Never draws itself."""

    def drawn(self, member: int, round: int, world: World, slot: int) -> list[int]:
        return [(member + 1 + below(world.size - 1, world.seed, slot, round, member)) % world.size]


WRONG = (
    (weights_sum_to_one, Greedy()),
    (weights_sum_to_one, Lopsided()),
    (weights_sum_to_one, Funnel()),
    (listeners_agree_with_mixing, Backwards()),
    (listeners_agree_with_mixing, Crier()),
    (answers_twice_the_same, Moody()),
    (fixed_means_fixed, Restless()),
    (draws_uniformly, Shy()),
)


@pytest.mark.parametrize("topology", [*TOPOLOGIES, *HOSTED], ids=repr)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_holds(law: Law, topology: Topology) -> None:
    assert law(topology) is None


@pytest.mark.parametrize(("law", "wrong"), WRONG, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_rejects(law: Law, wrong: Topology) -> None:
    assert law(wrong) is not None


def test_every_law_rejects_something() -> None:
    assert {law for law, _ in WRONG} == set(LAWS)


def test_a_topology_that_fits_no_world_is_found_out() -> None:
    with pytest.raises(AssertionError, match="fits no world"):
        weights_sum_to_one(Graph(edges=((0, 40), (40, 0))))
