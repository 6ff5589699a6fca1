"""The routes of an all-reduce: the backend's own, the ring, and the 2D-torus of paper 5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

from gossamer.parts.refusal import Refused, whole
from gossamer.parts.route.schedule import Move, Route


class Backend(Route):
    """Hands the mix to the backend's own collective. A backend keeps its schedule to itself; the ring stands in for it
    wherever rounds, bytes or prices are asked for."""

    native: ClassVar[bool] = True

    def chunks(self, size: int) -> int:
        return Ring().chunks(size)

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return Ring().moves(member, size)

    def rounds(self, size: int) -> int:
        return Ring().rounds(size)

    def sent(self, size: int, nbytes: float) -> float:
        return Ring().sent(size, nbytes)

    def fits(self, size: int) -> None:
        pass


@dataclass(frozen=True, repr=False)
class Native(Backend):
    """The backend's own all-reduce, by name."""


@dataclass(frozen=True, repr=False)
class Auto(Backend):
    """Whatever the fabric does best; today the backend's own all-reduce."""


@dataclass(frozen=True, repr=False)
class Ring(Route):
    """n-1 rounds of reduce-scatter and n-1 of all-gather, always to the right-hand neighbour (P1)."""

    def chunks(self, size: int) -> int:
        return size

    def moves(self, member: int, size: int) -> Iterator[Move]:
        line = range(size)
        yield from _scatter(line, member, 0, 1)
        yield from _gather(line, member, 0, 1)

    def rounds(self, size: int) -> int:
        return 2 * (size - 1)

    def sent(self, size: int, nbytes: float) -> float:
        return 2.0 * nbytes * (size - 1) / size

    def fits(self, size: int) -> None:
        pass


@dataclass(frozen=True, repr=False)
class Torus(Route):
    """Reduce-scatter along rows of `x`, all-reduce of 1/x along columns, all-gather along rows (P5).

    Without `x` the grid is the factor pair nearest a square, x >= y; a prime gives x = n, which is a ring.
    """

    x: int | None = None

    def __post_init__(self) -> None:
        if self.x is not None:
            whole("Torus", "x", self.x, 1, 2**20)

    def grid(self, size: int) -> tuple[int, int]:
        """Columns and rows of the grid for `size` members."""
        if self.x is not None:
            return self.x, size // self.x
        y = next(y for y in range(isqrt(size), 0, -1) if size % y == 0)
        return size // y, y

    def chunks(self, size: int) -> int:
        return size

    def moves(self, member: int, size: int) -> Iterator[Move]:
        x, y = self.grid(size)
        row = range(member // x * x, member // x * x + x)
        column = range(member % x, size, x)
        mine = (member % x + 1) % x  # the coarse chunk a row's reduce-scatter leaves here
        yield from _scatter(row, member % x, 0, y)
        yield from _scatter(column, member // x, mine * y, 1)
        yield from _gather(column, member // x, mine * y, 1)
        yield from _gather(row, member % x, 0, y)

    def rounds(self, size: int) -> int:
        x, y = self.grid(size)
        return 2 * (x - 1) + 2 * (y - 1)

    def sent(self, size: int, nbytes: float) -> float:
        x, y = self.grid(size)
        return 2.0 * nbytes * (x - 1) / x + 2.0 * (nbytes / x) * (y - 1) / y

    def fits(self, size: int) -> None:
        if self.x is not None and size % self.x:
            x, _ = Torus().grid(size)
            raise Refused(f"Torus: {size} members do not fill rows of {self.x}", f"Torus(x={x})")


def _scatter(line: range, place: int, first: int, width: int) -> Iterator[Move]:
    """Reduce-scatter along `line`: round j sends chunk place-j on and adds chunk place-j-1 (P1, indices put right)."""
    count = len(line)
    for j in range(count - 1):
        yield _move(line, place, ((place - j) % count, (place - j - 1) % count), first, width, add=True)


def _gather(line: range, place: int, first: int, width: int) -> Iterator[Move]:
    """All-gather along `line`: round j sends chunk place-j+1 on and takes chunk place-j."""
    count = len(line)
    for j in range(count - 1):
        yield _move(line, place, ((place - j + 1) % count, (place - j) % count), first, width, add=False)


def _move(line: range, place: int, chunks: tuple[int, int], first: int, width: int, *, add: bool) -> Move:
    count = len(line)
    send, receive = ((first + c * width, first + (c + 1) * width) for c in chunks)
    return Move(line[(place + 1) % count], send, line[(place - 1) % count], receive, add)
