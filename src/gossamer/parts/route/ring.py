"""The ring all-reduce (P1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.lines import circled
from gossamer.parts.route.load import Loads
from gossamer.parts.route.operations import AllGather, ReduceScatter
from gossamer.parts.route.schedule import Move, Route


@dataclass(frozen=True, repr=False)
class Ring(Route):
    """n-1 rounds of reduce-scatter and n-1 of all-gather, always to the right-hand neighbour (P1)."""

    def chunks(self, size: int) -> int:
        return size

    def moves(self, member: int, size: int) -> Iterator[Move]:
        yield from ReduceScatter().moves(member, size)
        yield from AllGather().moves(member, size)

    def rounds(self, size: int) -> int:
        return 2 * (size - 1)

    def sent(self, size: int, nbytes: float) -> float:
        return 2.0 * nbytes * (size - 1) / size

    def loads(self, borders: Borders) -> Loads:
        return chain(ReduceScatter().loads(borders), AllGather().loads(borders))

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        return circled(member, size, (0, size), size, length)
