"""The tree all-reduce: the reduction tree of FireCaffe (P2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.lines import logarithm
from gossamer.parts.route.load import Loads
from gossamer.parts.route.operations import Broadcast, Reduce
from gossamer.parts.route.schedule import Move, Route


@dataclass(frozen=True, repr=False)
class Tree(Route):
    """Reduce to member 0 up a binomial tree, then broadcast down it: few rounds, and whole vectors in each.

    The root sends most: a vector in every round of the way down.
    """

    def chunks(self, size: int) -> int:
        return 1

    def moves(self, member: int, size: int) -> Iterator[Move]:
        yield from Reduce().moves(member, size)
        yield from Broadcast().moves(member, size)

    def rounds(self, size: int) -> int:
        return 2 * logarithm(size)

    def sent(self, size: int, nbytes: float) -> float:
        return logarithm(size) * nbytes

    def loads(self, borders: Borders) -> Loads:
        return chain(Reduce().loads(borders), Broadcast().loads(borders))

    def passed(self, size: int, nbytes: float) -> float:
        return 2 * logarithm(size) * nbytes
