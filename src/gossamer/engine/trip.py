"""One vector on its way along one schedule, over torch.distributed point-to-point calls, in place.

The acts and their order are known beforehand; here they are performed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.parts.route import Schedule
from gossamer.parts.route.itinerary import Leg, itinerary
from gossamer.parts.route.script import Act, What, script

if TYPE_CHECKING:
    from gossamer.engine.executor import Executor

PIECE = 1 << 20  # bytes; 16 MB at 1 Gbit/s took 4 to 12 % less than in whole messages; pieces of 256 KB took more
LISTEN, SEND, TAKE, CLEAR, WRITE, KEEP = What  # an attribute of an enumeration costs as much as an act of its own


class Trip:
    """Performs one member's script: each piece goes as early as what it is made of allows."""

    def __init__(self, by: Executor, schedule: Schedule, vector: Tensor, tag: int, wire: torch.dtype) -> None:
        self._by, self._tag, self._vector = by, tag, vector
        self._schedule, self._wire = schedule, wire
        self._rounds = wire != vector.dtype  # else what travels lies in the vector itself

    def play(self) -> tuple[int, int]:
        """All acts; returns the bytes sent and heard."""
        by, vector, width = self._by, self._vector, self._wire.itemsize
        plan = script(
            self._schedule, by.member, by.size, vector.numel(), max(1, PIECE // width), self._rounds
        )  # fmt: skip
        self._boxes(plan.room)
        self._perform(plan.acts)
        self._round(plan.own)
        return plan.sent * width, plan.heard * width

    def _boxes(self, room: int) -> None:
        by, vector = self._by, self._vector
        self._inbox = by.place("inbox", self._wire, vector.device, room)
        self._outbox = by.place("outbox", self._wire, vector.device, vector.numel()) if self._rounds else vector

    def _perform(self, acts: tuple[Act, ...]) -> None:
        group, tag, wait, ranks = self._by.group, self._tag, self._by.wait, self._by.ranks
        vector, inbox, outbox = self._vector, self._inbox, self._outbox
        coming, leaving = deque[dist.Work](), deque[dist.Work]()
        for what, member, part, place, add in acts:
            if what is LISTEN:  # the process group's own calls: what `dist.irecv` checks each time is so by design
                there = vector[part] if place is None else inbox[place]
                coming.append(group.recv([there], member, tag))
            elif what is SEND:
                leaving.append(group.send([outbox[part]], member, tag))
            elif what is TAKE:
                wait(coming.popleft(), ranks[member])
                if place is not None:
                    self._land(part, place, add)
            elif what is CLEAR:
                wait(leaving.popleft(), ranks[member])
            elif what is WRITE:
                outbox[part].copy_(vector[part])
            else:
                vector[part].copy_(outbox[part])

    def _land(self, part: slice, place: slice, add: bool) -> None:
        here, news = self._vector[part], self._inbox[place]
        if not add:
            here.copy_(news)
        elif self._rounds:  # widened first: adding two types makes a new vector of one of them each time
            here.add_(self._by.place("widened", here.dtype, here.device, here.numel()).copy_(news))
        else:
            here.add_(news)

    def _round(self, own: tuple[slice, ...]) -> None:
        for part in own:
            self._vector[part].copy_(self._outbox[part].copy_(self._vector[part]))


class Grouped(Trip):
    """A trip whose messages of a wave are asked for at once and waited for together, whole."""

    def play(self) -> tuple[int, int]:
        """All waves; returns the bytes sent and heard."""
        plan = itinerary(self._schedule, self._by.member, self._by.size, self._vector.numel())
        self._sent = self._heard = 0
        self._boxes(plan.room)
        for wave in plan.waves:
            self._wave(wave)
        self._round(plan.own if self._rounds else ())
        return self._sent, self._heard

    def _wave(self, wave: tuple[Leg, ...]) -> None:
        calls = [call for leg in wave for call in self._calls(leg)]
        for work, call in zip(dist.batch_isend_irecv(calls), calls, strict=False):  # NCCL's one work stands for all
            self._by.wait(work, call.peer)
        for leg in wave:
            if leg.source is not None and (leg.add or self._rounds):
                self._land(leg.coming, _place(leg), leg.add)

    def _calls(self, leg: Leg) -> list[dist.P2POp]:
        group, tag, calls = self._by.group, self._tag, []
        if leg.to is not None:
            leaving = self._written(leg)
            calls.append(dist.P2POp(dist.isend, leaving, self._by.ranks[leg.to], group, tag))
            self._sent += leaving.nbytes
        if leg.source is not None:
            there = self._inbox[_place(leg)] if leg.add or self._rounds else self._vector[leg.coming]
            calls.append(dist.P2POp(dist.irecv, there, self._by.ranks[leg.source], group, tag))
            self._heard += there.nbytes
        return calls

    def _written(self, leg: Leg) -> Tensor:
        """What leaves, as it travels; where both sides add, the sender too goes on with what it sent."""
        leaving = self._outbox[leg.leaving]
        if self._rounds:
            leaving.copy_(self._vector[leg.leaving])
            if leg.keeps:
                self._vector[leg.leaving].copy_(leaving)
        return leaving


def _place(leg: Leg) -> slice:
    return slice(leg.lands, leg.lands + leg.coming.stop - leg.coming.start)
