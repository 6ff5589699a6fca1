"""One member's moves along a schedule as elements of its vector: what a performer goes through. Knows no values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from gossamer.parts.route.schedule import Hop, Schedule, span


class Leg(NamedTuple):
    """One round in elements: what leaves, to whom; what comes, from whom, to be added or copied. Nobody is None.

    `keeps`: what leaves is added to in the same round, on both sides, so both must add the same numbers.
    `lands`: where in an inbox as long as the vector it may lie until it is added, beside what came before it.
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
    """The legs of one member, those without a message left out, and which elements end as a sum it made itself.

    Everybody else was sent that sum, as a wire rounds it; so who made it rounds it too, and all end alike.
    """

    legs: tuple[Leg, ...]
    own: tuple[slice, ...]


@lru_cache(maxsize=2**8)
def itinerary(schedule: Schedule, member: int, size: int, length: int) -> Itinerary:
    """This member's legs for a vector of `length`."""
    count, lands = schedule.chunks(size), 0
    legs, made = list[Leg](), [True] * count  # by chunk, whether it was not copied from somebody
    for send, receive, add in schedule.moves(member, size):
        to, leaving = _part(send, count, length)
        source, coming = _part(receive, count, length)
        if to is not None or source is not None:
            lands = 0 if lands + coming.stop - coming.start > length else lands
            legs.append(Leg(to, leaving, source, coming, add, add and meet(leaving, coming), lands))
            lands += coming.stop - coming.start
        for chunk in range(*receive.chunks) if receive is not None else ():
            made[chunk] = add
    return Itinerary(tuple(legs), tuple(_runs(made, length)))


def meet(one: slice, other: slice) -> bool:
    """Whether two ranges of elements have any in common."""
    return bool(max(one.start, other.start) < min(one.stop, other.stop))


def pieces(whole: slice, longest: int) -> Iterator[slice]:
    """The range in pieces of at most so many elements, as both ends of a message cut it."""
    for low in range(whole.start, whole.stop, longest):
        yield slice(low, min(low + longest, whole.stop))


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
