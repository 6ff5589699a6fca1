"""A schedule is pure data: in a round a member sends at most one range of chunks and receives at most one.

A route is a schedule that all-reduces. Knows no values and no network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import repeat
from typing import ClassVar, NamedTuple

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.load import Loads, walked
from gossamer.parts.value import Value


class Hop(NamedTuple):
    """One message: the member at its other end, and the half-open range of chunks in it."""

    member: int
    chunks: tuple[int, int]


class Move(NamedTuple):
    """One member's part in one round: what it sends, what it receives, and whether that is added or copied."""

    send: Hop | None = None
    receive: Hop | None = None
    add: bool = False


IDLE = Move()
OWN = 0.1  # of a start-up, for which the sender itself is busy: the next message waits for it


class Schedule(ABC, Value):
    """Rounds of moves for any number of members, with their counts in closed form and what comes of them.

    Counts are of a vector of `nbytes` cut into equal chunks.
    """

    @abstractmethod
    def chunks(self, size: int) -> int:
        """How many chunks the vector is cut into; chunk c of n elements is [c n // chunks, (c+1) n // chunks)."""

    @abstractmethod
    def moves(self, member: int, size: int) -> Iterator[Move]:
        """This member's rounds, one after the other, for `size` members; as many for each."""

    @abstractmethod
    def claim(self, member: int, size: int) -> Mapping[int, frozenset[int]]:
        """By chunk, whose contributions this member ends with; a chunk that is left out may hold anything."""

    @abstractmethod
    def rounds(self, size: int) -> int:
        """How many rounds there are."""

    def starts(self, size: int) -> int:
        """How many waves there are: start-ups that pass one after the other. Rounds, unless some leave at once."""
        return self.rounds(size)

    def delays(self, size: int) -> float:
        """The time that start-ups take, in lengths of one: those of a wave overlap but for what is the sender's own."""
        return self.starts(size) + OWN * (self.rounds(size) - self.starts(size))

    def waves(self, size: int) -> Iterator[int]:
        """The rounds, in order, by how many leave at once: in a wave nobody sends on what comes in the same wave."""
        return repeat(1, self.rounds(size))

    @abstractmethod
    def sent(self, size: int, nbytes: float) -> float:
        """Bytes a member sends; where members differ, the one that sends most."""

    @abstractmethod
    def total(self, size: int, nbytes: float) -> float:
        """Bytes all members send together."""

    def passed(self, size: int, nbytes: float) -> float:
        """Bytes that pass one after the other: the longest message of each round, summed over the rounds."""
        return self.sent(size, nbytes)

    def fits(self, size: int) -> None:
        """Refuse a number of members the schedule cannot serve; most serve any."""
        return

    def loads(self, borders: Borders) -> Loads:
        """The loads of all waves on hosts with these borders. Any schedule may be walked; routes say theirs at once."""
        return walked(self, borders)

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        """Elements this member sends and receives of a vector of `length`, which chunks need not divide."""
        count, sent, received = self.chunks(size), 0, 0
        for send, receive, _ in self.moves(member, size):
            sent += _elements(send, count, length)
            received += _elements(receive, count, length)
        return sent, received


class Route(Schedule):
    """How an all-reduce travels: everybody ends with every contribution to every chunk."""

    native: ClassVar[bool] = False  # the backend's own collective performs it
    shards: ClassVar[bool] = False  # where memory is shared, each member steps its share of the parameters for all

    def claim(self, member: int, size: int) -> Mapping[int, frozenset[int]]:
        return dict.fromkeys(range(self.chunks(size)), frozenset(range(size)))

    def total(self, size: int, nbytes: float) -> float:
        """Every number has to come together from all members and to go out to all: 2n(p-1) for most routes."""
        return 2.0 * nbytes * (size - 1)

    def added(self, size: int, nbytes: float) -> float:
        """Of the bytes passed, those that are added to others where they come in: half, unless said otherwise."""
        return self.passed(size, nbytes) / 2

    def suited(self, nbytes: float) -> Route:
        """The route a wire of so many bytes takes; most are the same for all. Whoever uses a route asks this first."""
        return self


class Mirrored(Route):
    """An all-reduce in two halves: sums come together on the way in, and the same way backwards hands them out."""

    @abstractmethod
    def inward(self, member: int, size: int) -> Iterator[Move]:
        """The first half, after which every chunk is complete somewhere."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        way = list(self.inward(member, size))
        yield from way
        yield from mirrored(way)


def mirrored(way: Iterable[Move]) -> Iterator[Move]:
    """The way backwards, sending what was received and copying: a reduction played so is a broadcast."""
    return (Move(move.receive, move.send) for move in reversed([*way]))


def span(chunks: tuple[int, int], count: int, length: int) -> slice:
    """The elements of a vector of `length` that a range of chunks covers."""
    return slice(chunks[0] * length // count, chunks[1] * length // count)


def extent(chunks: tuple[int, int], count: int, length: int) -> int:
    """How many elements that is."""
    return chunks[1] * length // count - chunks[0] * length // count


def _elements(hop: Hop | None, count: int, length: int) -> int:
    return 0 if hop is None else extent(hop.chunks, count, length)


@lru_cache(maxsize=2**16)
def leaving(schedule: Schedule, member: int, size: int, length: int, far: frozenset[int]) -> int:
    """Elements this member sends to those that are far."""
    count, sends = schedule.chunks(size), (move.send for move in schedule.moves(member, size)) if far else ()
    return sum(_elements(send, count, length) for send in sends if send is not None and send.member in far)


@lru_cache(maxsize=2**16)
def counted(schedule: Schedule, member: int, size: int, length: int) -> tuple[int, int]:
    """Elements this member sends and receives for the chunk lengths at hand, worked out once."""
    return schedule.tally(member, size, length)
