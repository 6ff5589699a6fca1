"""Who hears whom in a round, for all members at once: arrays that whoever times a round works with. Knows no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gossamer.parts.topology import Neighbours, Topology
from gossamer.parts.topology.mixing import Common
from gossamer.parts.world import World

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]


FEW = 8  # partners: who hears more of them may be one of a group in which all hear all


@dataclass(frozen=True)
class Hearing:
    """Messages of a round, one a column: `source` and `target`.

    `groups`: members that all hear each other instead, a row each; those of one size together.
    """

    source: Array
    target: Array
    groups: tuple[Array, ...]


class Hearings:
    """The hearings of a topology, found once where all rounds are alike."""

    def __init__(self, topology: Topology, world: World, slot: int) -> None:
        self._topology, self._world, self._slot = topology, world, slot
        self._known: dict[int, Hearing] = {}

    def round(self, number: int) -> Hearing:
        """What is said and heard in a round."""
        key = 0 if self._topology.fixed else number
        if key not in self._known:
            if len(self._known) > 64:
                self._known.clear()
            self._known[key] = self._look(number)
        return self._known[key]

    def _look(self, round: int) -> Hearing:
        import numpy

        source, target, groups = list[int](), list[int](), set[tuple[int, ...]]()
        large = dict[tuple[int, ...], list[int]]()

        def hear(member: int, others: Iterable[int]) -> None:
            for other in others:
                if other != member:
                    source.append(other)
                    target.append(member)

        for member in range(self._world.size):
            weights = self._weights(member, round)
            if isinstance(weights, Common) and len(weights) == len(weights.among):
                groups.add(weights.among)
            elif len(weights) > FEW:
                large.setdefault(tuple(weights), []).append(member)
            else:
                hear(member, weights)
        for heard, members in large.items():
            if sorted(heard) == members:  # all of them hear all of them
                groups.add(heard)
            else:
                for member in members:
                    hear(member, heard)
        alike: dict[int, list[tuple[int, ...]]] = {}
        for group in sorted(groups):
            alike.setdefault(len(group), []).append(group)
        return Hearing(
            numpy.array(source, int), numpy.array(target, int), tuple(numpy.array(some, int) for some in alike.values())
        )

    def _weights(self, member: int, round: int) -> Mapping[int, float]:
        mixing = self._topology.mixing(member, round, self._world, self._slot)
        assert isinstance(mixing, Neighbours), mixing
        return mixing.weights
