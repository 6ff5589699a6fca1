"""One vector on its way along one schedule, over torch.distributed point-to-point calls, in place.

Messages are cut into pieces, and a piece goes on as soon as it is there: adding overlaps hearing, and rounds overlap.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.parts.route import Schedule
from gossamer.parts.route.itinerary import Leg, itinerary, meet, pieces

if TYPE_CHECKING:
    from gossamer.engine.executor import Executor

PIECE = 1 << 20  # bytes; 16 MB at 1 Gbit/s took 4 to 12 % less than in whole messages; pieces of 256 KB took more


@dataclass(frozen=True)
class Flight:
    """A piece under way: its other end, its elements of the vector, and where it lies meanwhile, unless there."""

    work: dist.Work
    rank: int
    part: slice
    place: slice | None = None
    add: bool = False


class Trip:
    """Performs the legs of one member's itinerary, each piece as early as what it is made of allows."""

    def __init__(self, by: Executor, schedule: Schedule, vector: Tensor, tag: int, wire: torch.dtype) -> None:
        self._by, self._tag, self._vector = by, tag, vector
        self._plan = itinerary(schedule, by.member, by.size, vector.numel())
        self._rounds = wire != vector.dtype  # else what travels lies in the vector itself
        place, length = vector.device, vector.numel()
        self._inbox = by.place("inbox", wire, place, length)
        self._outbox = by.place("outbox", wire, place, length) if self._rounds else vector
        self._longest = max(1, PIECE // wire.itemsize)
        self._coming, self._leaving = deque[Flight](), deque[Flight]()
        self._sent = self._heard = 0

    def play(self) -> tuple[int, int]:
        """All legs; returns the bytes sent and heard."""
        for leg in self._plan.legs:
            self._leg(leg)
        everything = slice(0, self._vector.numel())
        self._settle(everything)
        self._clear(everything)
        if self._rounds:
            for part in self._plan.own:
                self._vector[part].copy_(self._outbox[part].copy_(self._vector[part]))
        return self._sent, self._heard

    def _leg(self, leg: Leg) -> None:
        if leg.keeps:  # what comes in this very round is added to what has left, so what came before goes first
            self._settle(leg.leaving)
        if leg.source is not None:
            self._listen(leg, self._by.ranks[leg.source])
        if leg.to is not None:
            self._send(leg, self._by.ranks[leg.to])

    def _listen(self, leg: Leg, rank: int) -> None:
        """Be ready for all pieces that come; what still uses their places is waited for."""
        direct = not (leg.add or self._rounds)
        if direct:
            self._settle(leg.coming)
            self._clear(leg.coming)
        for part in pieces(leg.coming, self._longest):
            place = None if direct else _moved(part, leg.lands - leg.coming.start)
            if place is not None:
                self._free(place)
            there = self._vector[part] if place is None else self._inbox[place]
            work = _made(dist.irecv(there, rank, self._by.group, self._tag))
            self._coming.append(Flight(work, rank, part, place, leg.add))
            self._heard += there.nbytes

    def _send(self, leg: Leg, rank: int) -> None:
        """Let go of every piece as soon as all that is to be added to it has been."""
        for part in pieces(leg.leaving, self._longest):
            if not leg.keeps:
                self._settle(part)
            leaving = self._written(part, leg.keeps)
            self._leaving.append(Flight(_made(dist.isend(leaving, rank, self._by.group, self._tag)), rank, part))
            self._sent += leaving.nbytes

    def _written(self, part: slice, keeps: bool) -> Tensor:
        """A part of the vector as it travels; where both sides add, the sender too goes on with what it sent."""
        if self._rounds:
            self._clear(part)
            self._outbox[part].copy_(self._vector[part])
            if keeps:
                self._vector[part].copy_(self._outbox[part])
        return self._outbox[part]

    def _settle(self, part: slice) -> None:
        """Take what comes, in its order, until nothing for this part of the vector is under way."""
        while any(meet(flight.part, part) for flight in self._coming):
            self._take()

    def _free(self, place: slice) -> None:
        """Take what comes, in its order, until nothing lies or will lie in this place of the inbox."""
        while any(flight.place is not None and meet(flight.place, place) for flight in self._coming):
            self._take()

    def _clear(self, part: slice) -> None:
        """Wait until nothing of this part is still leaving."""
        while any(meet(flight.part, part) for flight in self._leaving):
            flight = self._leaving.popleft()
            self._by.wait(flight.work, flight.rank)

    def _take(self) -> None:
        """The next piece is there, and added or copied to where it belongs."""
        flight = self._coming.popleft()
        self._by.wait(flight.work, flight.rank)
        if not self._rounds:
            self._clear(flight.part)
        if flight.place is not None:
            self._land(flight.part, flight.place, flight.add)

    def _land(self, part: slice, place: slice, add: bool) -> None:
        here, news = self._vector[part], self._inbox[place]
        if not add:
            here.copy_(news)
        elif self._rounds:  # widened first: adding two types makes a new vector of one of them each time
            here.add_(self._by.place("widened", here.dtype, here.device, here.numel()).copy_(news))
        else:
            here.add_(news)


class Grouped(Trip):
    """A trip whose messages of a round are asked for at once and waited for together, whole."""

    def _leg(self, leg: Leg) -> None:
        group, tag, direct, calls = self._by.group, self._tag, not (leg.add or self._rounds), []
        place = _moved(leg.coming, leg.lands - leg.coming.start)
        there = self._vector[leg.coming] if direct else self._inbox[place]
        if leg.to is not None:
            leaving = self._written(leg.leaving, leg.keeps)
            calls.append(dist.P2POp(dist.isend, leaving, self._by.ranks[leg.to], group, tag))
            self._sent += leaving.nbytes
        if leg.source is not None:
            calls.append(dist.P2POp(dist.irecv, there, self._by.ranks[leg.source], group, tag))
            self._heard += there.nbytes
        for work, call in zip(dist.batch_isend_irecv(calls), calls, strict=False):  # NCCL's one work stands for all
            self._by.wait(work, call.peer)
        if leg.source is not None and not direct:
            self._land(leg.coming, place, leg.add)


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


def _made(work: dist.Work | None) -> dist.Work:
    """A process that is no member of its own process group gets no work."""
    if work is None:
        raise RuntimeError("this process is not in the process group it performs a route on")
    return work
