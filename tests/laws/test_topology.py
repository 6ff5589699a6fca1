"""Every topology keeps its promises: weights that sum to 1, listeners that agree with mixing, pure answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import isclose, sqrt
from typing import ClassVar

import pytest

from gossamer.parts.chance import below
from gossamer.parts.refusal import Refused
from gossamer.parts.topology import (
    AtHub,
    Complete,
    Cycle,
    Exponential,
    Mixing,
    Neighbours,
    RandomPeer,
    Topology,
    Weighing,
    hears,
)
from gossamer.parts.world import World
from tests.laws.specimens import TOPOLOGIES

ROUNDS = (0, 1, 2, 5, 1000)


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
        named = isinstance(topology.mixing(0, round, world, slot), Neighbours)
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


def impatient_or_met(topology: Topology) -> str | None:
    """A member that waits for others (patient) hears all it waits for: its own row names itself."""
    if not topology.patient or isinstance(topology.mixing(0, 0, World(4), 0), AtHub):
        return None
    for round, world, slot in cases(topology):
        if any(member not in row for member, row in enumerate(matrix(topology, round, world, slot))):
            return f"{world}, round {round}: a member does not hear itself"
    return None


def draws_uniformly(topology: Topology) -> str | None:
    """Random partners are uniform over all members, oneself included: chi-square within 4 sigma of its mean."""
    if not isinstance(topology, RandomPeer):
        return None
    for size in (2, 5, 16):
        for seed, slot in ((0, 0), (1, 0), (0, 1)):
            drawn = [topology.drawn(member, r, World(size, seed), slot) for r in range(400) for member in range(size)]
            tally = Counter(peer - member % size for member, peers in enumerate(drawn) for peer in peers)
            tally = Counter({shift: 0 for shift in range(size)}) + Counter(
                {shift % size: 0 for shift in tally}
            )  # shifts around the circle from the one who draws
            for member, peers in enumerate(drawn):
                tally.update((peer - member) % size for peer in peers)
            expected = sum(tally.values()) / size
            chi = sum((tally[shift] - expected) ** 2 / expected for shift in range(size))
            if chi > (size - 1) + 4 * sqrt(2 * (size - 1)):
                return f"{size} members, seed {seed}, slot {slot}: chi-square {chi:.1f} over {size - 1}"
    return None
