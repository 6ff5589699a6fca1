"""Recursive halving and doubling, and the fold-in that makes a power of two of any number of members (P1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.lines import halve, logarithm
from gossamer.parts.route.load import Loads, mirrored_loads
from gossamer.parts.route.schedule import IDLE, Hop, Mirrored, Move, Route, mirrored


def power(size: int) -> int:
    """The largest power of two that is not above `size`."""
    return 1 << (size.bit_length() - 1)


@lru_cache
def active(size: int) -> tuple[int, ...]:
    """Who goes on after the fold-in: the even ones of the first 2r members, r = size - power(size), and all the rest.

    600 members leave 88 idle (P1 prints 86, and "the last r" for the rest).
    """
    left_over = size - power(size)
    return (*range(0, 2 * left_over, 2), *range(2 * left_over, size))


def place(member: int, size: int) -> int | None:
    """The member's place among the active ones; None if it is idle."""
    left_over = size - power(size)
    if member >= 2 * left_over:
        return member - left_over
    return None if member % 2 else member // 2


def fold(member: int, size: int, chunks: tuple[int, int]) -> Iterator[Move]:
    """Among the first 2r members each even one absorbs its odd neighbour's whole vector; no round if r is 0."""
    left_over = size - power(size)
    if not left_over:
        return
    if member >= 2 * left_over:
        yield IDLE
    elif member % 2:
        yield Move(send=Hop(member - 1, chunks))
    else:
        yield Move(receive=Hop(member + 1, chunks), add=True)


def folded(borders: Borders, chunks: int) -> Loads:
    """The loads of the fold-in of so many chunks, and of the sending out."""
    left_over = borders.size - power(borders.size)
    if left_over:
        yield from mirrored_loads([(borders.first(2 * left_over).climbed(1, 2).load(chunks, add=True), 1)])


def remaining(borders: Borders) -> Borders:
    """The hosts of the active members alone."""
    left_over = borders.size - power(borders.size)
    return Borders.among(at - min(at // 2, left_over) for at in borders.at)


@dataclass(frozen=True, repr=False)
class HalvingDoubling(Mirrored):
    """Reduce-scatter by vector halving and distance doubling, all-gather by its mirror image (P1).

    A number that is no power of two folds in first and sends out last, n bytes each; of the members that do, those
    that absorb send most.
    """

    def chunks(self, size: int) -> int:
        return power(size)

    def inward(self, member: int, size: int) -> Iterator[Move]:
        yield from fold(member, size, (0, power(size)))
        mine = place(member, size)
        if mine is None:
            yield from [IDLE] * logarithm(power(size))
        else:
            yield from halve(active(size), mine)

    def rounds(self, size: int) -> int:
        return 2 * logarithm(power(size)) + 2 * _folds(size)

    def sent(self, size: int, nbytes: float) -> float:
        return 2.0 * nbytes * (power(size) - 1) / power(size) + nbytes * _folds(size)

    def passed(self, size: int, nbytes: float) -> float:
        return self.sent(size, nbytes) + nbytes * _folds(size)

    def loads(self, borders: Borders) -> Loads:
        line = remaining(borders)
        distances = [1 << t for t in range(logarithm(line.size))]
        halves = ((line.swapped(d).load(line.size // (2 * d), add=True), 1) for d in distances)
        return chain(folded(borders, line.size), mirrored_loads(halves))


@dataclass(frozen=True, repr=False)
class Doubling(Route):
    """Whole vectors swapped with the partner 1, 2, 4 ... away: fewest rounds, for short messages (P1, draft).

    A number that is no power of two folds in first and sends out last, as in HalvingDoubling.
    """

    def chunks(self, size: int) -> int:
        return 1

    def moves(self, member: int, size: int) -> Iterator[Move]:
        everything, mine = (0, 1), place(member, size)
        folding = list(fold(member, size, everything))
        yield from folding
        for t in range(logarithm(power(size))):
            if mine is None:
                yield IDLE
            else:
                partner = Hop(active(size)[mine ^ 1 << t], everything)
                yield Move(partner, partner, add=True)
        yield from mirrored(folding)

    def rounds(self, size: int) -> int:
        return logarithm(power(size)) + 2 * _folds(size)

    def sent(self, size: int, nbytes: float) -> float:
        return nbytes * (logarithm(power(size)) + _folds(size))

    def total(self, size: int, nbytes: float) -> float:
        return nbytes * (power(size) * logarithm(power(size)) + 2 * (size - power(size)))

    def passed(self, size: int, nbytes: float) -> float:
        return nbytes * (logarithm(power(size)) + 2 * _folds(size))

    def added(self, size: int, nbytes: float) -> float:
        return nbytes * (logarithm(power(size)) + _folds(size))

    def loads(self, borders: Borders) -> Loads:
        line = remaining(borders)
        swaps = ((line.swapped(1 << t).load(1, add=True), 1) for t in range(logarithm(line.size)))
        return chain(folded(borders, 1), swaps)


def _folds(size: int) -> int:
    """1 where there is a fold-in, else 0."""
    return int(power(size) != size)
