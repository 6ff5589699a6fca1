"""A route is a schedule, pure data: in a round a member sends at most one range of chunks and receives one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from gossamer.parts.value import Value


@dataclass(frozen=True, slots=True)
class Move:
    """One member's part in one round; chunks are half-open ranges, and `add` tells add from copy."""

    to: int
    send: tuple[int, int]
    source: int
    receive: tuple[int, int]
    add: bool


class Route(ABC, Value):
    """How an all-reduce travels. `moves` is the schedule; `rounds` and `sent` are its counts in closed form."""

    native: ClassVar[bool] = False  # the backend's own collective performs it

    @abstractmethod
    def chunks(self, size: int) -> int:
        """How many chunks the vector is cut into; chunk c of n elements is [c n // chunks, (c+1) n // chunks)."""

    @abstractmethod
    def moves(self, member: int, size: int) -> Iterator[Move]:
        """This member's rounds, one after the other, for `size` members."""

    @abstractmethod
    def rounds(self, size: int) -> int:
        """How many rounds there are."""

    @abstractmethod
    def sent(self, size: int, nbytes: float) -> float:
        """Bytes one member sends for a vector of `nbytes`, chunks being equal."""

    @abstractmethod
    def fits(self, size: int) -> None:
        """Refuse a number of members the route cannot serve."""


def span(chunks: tuple[int, int], count: int, length: int) -> slice:
    """The elements of a vector of `length` that a range of chunks covers."""
    return slice(chunks[0] * length // count, chunks[1] * length // count)


@lru_cache(maxsize=2**16)
def counted(route: Route, member: int, size: int, length: int) -> tuple[int, int]:
    """Elements this member sends and receives, counted move by move for the chunk lengths at hand."""
    count, sent, received = route.chunks(size), 0, 0
    for move in route.moves(member, size):
        out, into = span(move.send, count, length), span(move.receive, count, length)
        sent += out.stop - out.start
        received += into.stop - into.start
    return sent, received
