"""Schedules played on numbers by plain numpy: what all hold in the end, and what left whom, counted as it left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy

from gossamer.parts.refusal import Refused
from gossamer.parts.route import Hop, Move, Schedule, span
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.load import Load, Loads, walked


@dataclass
class Trip:
    """Elements by member and round that were sent, received and added, and the vectors before and after."""

    start: numpy.ndarray
    held: numpy.ndarray
    sent: list[list[int]] = field(default_factory=list)  # by round, by member
    received: list[list[int]] = field(default_factory=list)
    added: list[list[int]] = field(default_factory=list)
    pairs: list[dict[tuple[int, int], int]] = field(default_factory=list)  # by round, elements from whom to whom

    def each(self, counts: list[list[int]]) -> list[int]:
        """Of such counts, the sum of every member."""
        return [sum(column) for column in zip(*counts, strict=True)] or [0] * len(self.start)


def worlds(schedule: Schedule, largest: int = 33) -> Iterator[int]:
    """The worlds from 1 on that the schedule serves; one that serves none is wrong in itself."""
    serving = [size for size in range(1, largest + 1) if serves(schedule, size)]
    assert serving, f"{schedule!r} serves no world"
    yield from serving


def serves(schedule: Schedule, size: int) -> bool:
    """Whether the schedule serves so many members."""
    try:
        schedule.fits(size)
    except Refused:
        return False
    return True


def played(schedule: Schedule, size: int, length: int) -> Trip:
    """The moves, round by round, on small whole numbers that add up exactly."""
    start = numpy.random.default_rng(size).integers(-99, 99, (size, length)).astype(float)
    trip, count = Trip(start, start.copy()), schedule.chunks(size)

    def part(member: int, hop: Hop | None) -> numpy.ndarray:
        return trip.held[member, :0] if hop is None else trip.held[member, span(hop.chunks, count, length)]

    for moves in zip(*(list(schedule.moves(member, size)) for member in range(size)), strict=True):
        under_way = [part(member, move.send).copy() for member, move in enumerate(moves)]
        trip.sent.append([len(body) for body in under_way])
        coming = [None if move.receive is None else under_way[move.receive.member] for move in moves]
        trip.received.append([0 if body is None else len(body) for body in coming])
        trip.added.append([got if move.add else 0 for got, move in zip(trip.received[-1], moves, strict=True)])
        trip.pairs.append({(m, move.send.member): trip.sent[-1][m] for m, move in enumerate(moves) if move.send})
        for member, (move, body) in enumerate(zip(moves, coming, strict=True)):
            if body is not None:
                target = part(member, move.receive)
                target[:] = target + body if move.add else body
    return trip


class Remembered:
    """A schedule's moves for one number of members, made once and walked as often as one likes."""

    def __init__(self, schedule: Schedule, size: int) -> None:
        self.waves = schedule.waves
        self._plans = [list(schedule.moves(member, size)) for member in range(size)]

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return iter(self._plans[member])


def misjudged(schedule: Schedule, borders: list[Borders]) -> Borders | None:
    """Of these hosts, all of one number of members, the first on which loads are said that are not those walked."""
    way = Remembered(schedule, borders[0].size)
    wrong = (at for at in borders if summed(schedule.loads(at)) != summed(walked(way, at)))  # type: ignore[arg-type]
    return next(wrong, None)


def summed(loads: Loads) -> Counter[Load]:
    """How many waves have which load."""
    found = Counter[Load]()
    for load, times in loads:
        found[load] += times
    return +found
