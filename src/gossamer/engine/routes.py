"""Performs any schedule over torch.distributed point-to-point calls, in place: routes, and what they are made of.

Messages are cut into pieces, and a piece goes on as soon as it is there: adding overlaps hearing, and rounds overlap.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.lost import MemberLost
from gossamer.parts.route import AllGather, Broadcast, Operation, Reduce, ReduceScatter, Schedule, span
from gossamer.parts.route.itinerary import Leg, itinerary, meet, pieces

PIECE = 1 << 20  # bytes of a piece


@dataclass(frozen=True)
class Flight:
    """A piece under way: its other end, its elements, and where it lands or leaves from."""

    work: dist.Work
    rank: int
    part: slice
    add: bool = False


class Executor:
    """Performs schedules among the members of a process group, numbered as the group numbers them.

    What it needs beside the vector is kept: after the first time, a vector that is no longer takes no new memory.
    Messages of one pair pass each other in no way, so one thread at a time uses an executor and its group.
    """

    def __init__(self, group: dist.ProcessGroup, patience: float | None = None) -> None:
        self.group, self.ranks = group, dist.get_process_group_ranks(group)
        self.member, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._patience = None if patience is None else timedelta(seconds=patience)
        self._kept: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def run(self, schedule: Schedule, vector: Tensor, tag: int = 0, wire: torch.dtype | None = None) -> tuple[int, int]:
        """Play the schedule's moves on `vector` with all members; returns the bytes this member sent and heard.

        A route leaves the sum over all members, the same on all to the bit. Numbers travel as `wire`, the vector's own
        type unless told, and are rounded once a hop; 16-bit vectors are added up in 32 bits here.
        """
        schedule.fits(self.size)
        wire = vector.dtype if wire is None else wire
        if vector.is_floating_point() and vector.element_size() < 4:
            wide = self.place("sums", torch.float32, vector)
            moved = Trip(self, schedule, wide.copy_(vector), tag, wire).play()
            vector.copy_(wide)
            return moved
        return Trip(self, schedule, vector, tag, wire).play()

    def place(self, name: str, dtype: torch.dtype, like: Tensor, length: int | None = None) -> Tensor:
        """Memory of this name for as many numbers as `like` has, or `length`; it lies where it did the last time."""
        length, key = like.numel() if length is None else length, (name, dtype, like.device)
        if key not in self._kept or self._kept[key].numel() < length:
            self._kept[key] = torch.empty(length, dtype=dtype, device=like.device)
        return self._kept[key][:length]

    def wait(self, work: dist.Work, rank: int) -> None:
        """Wait for a message; whoever does not send or take it is named."""
        try:
            work.wait() if self._patience is None else work.wait(self._patience)
        except RuntimeError as error:
            why = str(error).splitlines()[0]
            raise MemberLost(f"member {rank} is gone or silent in the middle of a mix: {why}", [rank]) from error


class Trip:
    """One vector on its way along one schedule."""

    def __init__(self, by: Executor, schedule: Schedule, vector: Tensor, tag: int, wire: torch.dtype) -> None:
        self._by, self._tag, self._vector = by, tag, vector
        self._plan = itinerary(schedule, by.member, by.size, vector.numel())
        self._rounds = wire != vector.dtype
        self._inbox = by.place("inbox", wire, vector)
        self._outbox = by.place("outbox", wire, vector) if self._rounds else vector
        self._longest = max(1, PIECE // wire.itemsize)
        self._coming, self._leaving = deque[Flight](), deque[Flight]()
        self._sent = self._heard = 0

    def play(self) -> tuple[int, int]:
        """All legs; returns the bytes sent and heard."""
        for leg in self._plan.legs:
            if leg.keeps:  # what comes in this very round is added to what has left, so what came before goes first
                self._settle(leg.leaving)
            self._listen(leg)
            self._send(leg)
        self._settle(slice(0, self._vector.numel()))
        self._clear(slice(0, self._vector.numel()))
        if self._rounds:
            for part in self._plan.own:
                self._vector[part] = self._outbox[part].copy_(self._vector[part])
        return self._sent, self._heard

    def _listen(self, leg: Leg) -> None:
        """Be ready for all pieces that come; what still uses their places is waited for."""
        if leg.source is None:
            return
        self._settle(leg.coming)
        direct = not (leg.add or self._rounds)
        if direct:
            self._clear(leg.coming)
        there, rank = self._vector if direct else self._inbox, self._by.ranks[leg.source]
        for part in pieces(leg.coming, self._longest):
            work = dist.irecv(there[part], rank, self._by.group, self._tag)
            self._coming.append(Flight(_made(work), rank, part, leg.add))
            self._heard += there[part].nbytes

    def _send(self, leg: Leg) -> None:
        """Let go of every piece as soon as all that is to be added to it has been."""
        if leg.to is None:
            return
        rank = self._by.ranks[leg.to]
        for part in pieces(leg.leaving, self._longest):
            if not leg.keeps:
                self._settle(part)
            if self._rounds:
                self._clear(part)
                self._outbox[part].copy_(self._vector[part])
                if leg.keeps:
                    self._vector[part].copy_(self._outbox[part])
            work = dist.isend(self._outbox[part], rank, self._by.group, self._tag)
            self._leaving.append(Flight(_made(work), rank, part))
            self._sent += self._outbox[part].nbytes

    def _settle(self, place: slice) -> None:
        """Add or copy what comes, in its order, until nothing of this place is under way."""
        while any(meet(flight.part, place) for flight in self._coming):
            flight = self._coming.popleft()
            self._by.wait(flight.work, flight.rank)
            here, news = self._vector[flight.part], self._inbox[flight.part]
            if flight.add:
                if not self._rounds:
                    self._clear(flight.part)
                    here.add_(news)
                else:  # widened first: adding two types would make a new vector each time
                    here.add_(self._by.place("widened", here.dtype, here).copy_(news))
            elif self._rounds:
                here.copy_(news)

    def _clear(self, place: slice) -> None:
        """Wait until nothing of this place is still leaving."""
        while any(meet(flight.part, place) for flight in self._leaving):
            flight = self._leaving.popleft()
            self._by.wait(flight.work, flight.rank)


def run(schedule: Schedule, vector: Tensor, group: dist.ProcessGroup, tag: int) -> tuple[int, int]:
    """Play a schedule once; see `Executor.run`."""
    return Executor(group).run(schedule, vector, tag)


def reduce_scatter(vector: Tensor, group: dist.ProcessGroup, tag: int = 0) -> Tensor:
    """The sum over all members of this member's chunk of `vector`, in place; the other chunks are spoilt."""
    _operate(ReduceScatter(), vector, group, tag)
    member, size = dist.get_rank(group), dist.get_world_size(group)
    return vector[span((member, member + 1), size, vector.numel())]


def all_gather(vector: Tensor, group: dist.ProcessGroup, tag: int = 0) -> Tensor:
    """Every member's own chunk of `vector`, each in its place, in place."""
    return _operate(AllGather(), vector, group, tag)


def reduce(vector: Tensor, group: dist.ProcessGroup, root: int = 0, tag: int = 0) -> Tensor:
    """The sum over all members, in place at the root; elsewhere `vector` is spoilt."""
    return _operate(Reduce(root), vector, group, tag)


def broadcast(vector: Tensor, group: dist.ProcessGroup, root: int = 0, tag: int = 0) -> Tensor:
    """The root's vector, in place everywhere."""
    return _operate(Broadcast(root), vector, group, tag)


def _operate(operation: Operation, vector: Tensor, group: dist.ProcessGroup, tag: int) -> Tensor:
    run(operation, vector, group, tag)
    return vector


def _made(work: dist.Work | None) -> dist.Work:
    """A process that is no member of its own process group gets no work."""
    if work is None:
        raise RuntimeError("this process is not in the process group it performs a route on")
    return work
