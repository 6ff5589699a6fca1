"""One member's moves along a schedule as elements of its vector: what a performer goes through. Knows no values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from typing import NamedTuple

from gossamer.parts.route.schedule import Hop, Move, Schedule, span

SHORT = 1 << 16  # elements; of a vector no longer than this all that comes has a place of its own in the inbox


class Leg(NamedTuple):
    """One round in elements: what leaves, to whom; what comes, from whom, to be added or copied. Nobody is None.

    `keeps`: what leaves is added to in the same round, on both sides, so both must add the same numbers.
    `lands`: where in an inbox it may lie until it is added, beside what came before it.
    """

    to: int | None
    leaving: slice
    source: int | None
    coming: slice
    add: bool
    keeps: bool
    lands: int


@dataclass(frozen=True)
class Itinerary:
    """The legs of one member by waves, those without a message left out; how long an inbox they need; and which
    elements end as a sum it made itself.

    Everybody else was sent that sum, as a wire rounds it; so who made it rounds it too, and all end alike.
    """

    waves: tuple[tuple[Leg, ...], ...]
    room: int
    own: tuple[slice, ...]

    @property
    def legs(self) -> tuple[Leg, ...]:
        """All legs, one after the other."""
        return tuple(leg for wave in self.waves for leg in wave)


@lru_cache(maxsize=2**8)
def itinerary(schedule: Schedule, member: int, size: int, length: int) -> Itinerary:
    """This member's legs for a vector of `length`."""
    count, moves, ways = schedule.chunks(size), schedule.moves(member, size), list[tuple[Move, ...]]()
    made = [True] * count  # by chunk, whether it was not copied from somebody
    for together in schedule.waves(size):
        ways.append(tuple(islice(moves, together)))
        for _, receive, add in ways[-1]:
            for chunk in range(*receive.chunks) if receive is not None else ():
                made[chunk] = add
    rough = [[leg for move in wave if (leg := _leg(move, count, length)) is not None] for wave in ways]
    sums = [sum(_long(leg.coming) for leg in wave) for wave in rough]
    room = sum(sums) if length <= SHORT else max([length, *sums])
    waves = tuple(tuple(wave) for wave in _landed([wave for wave in rough if wave], room))
    return Itinerary(waves, room, tuple(_runs(made, length)))


def meet(one: slice, other: slice) -> bool:
    """Whether two ranges of elements have any in common."""
    return bool(max(one.start, other.start) < min(one.stop, other.stop))


def pieces(whole: slice, longest: int) -> Iterator[slice]:
    """The range in pieces of at most so many elements, as both ends of a message cut it."""
    for low in range(whole.start, whole.stop, longest):
        yield slice(low, min(low + longest, whole.stop))


def _leg(move: Move, count: int, length: int) -> Leg | None:
    """A move in elements; None if nothing travels."""
    to, leaving = _part(move.send, count, length)
    source, coming = _part(move.receive, count, length)
    if to is None and source is None:
        return None
    return Leg(to, leaving, source, coming, move.add, move.add and meet(leaving, coming), 0)


def _landed(waves: Sequence[Sequence[Leg]], room: int) -> Iterator[list[Leg]]:
    """The legs with their places in the inbox: one after the other, all of a wave beside each other."""
    lands = 0
    for wave in waves:
        lands = 0 if lands + sum(_long(leg.coming) for leg in wave) > room else lands
        placed = []
        for leg in wave:
            placed.append(leg._replace(lands=lands))
            lands += _long(leg.coming)
        yield placed


def _long(part: slice) -> int:
    return int(part.stop - part.start)


def _part(hop: Hop | None, count: int, length: int) -> tuple[int | None, slice]:
    """The other end and the elements of a message; one of no length does not travel."""
    if hop is None:
        return None, slice(0, 0)
    part = span(hop.chunks, count, length)
    return (hop.member, part) if part.stop > part.start else (None, slice(0, 0))


def _runs(made: Sequence[bool], length: int) -> Iterator[slice]:
    """Chunks next to each other that were made here, as elements."""
    for ours, run in groupby(range(len(made)), key=made.__getitem__):
        chunks = list(run)
        part = span((chunks[0], chunks[-1] + 1), len(made), length)
        if ours and part.stop > part.start:
            yield part
