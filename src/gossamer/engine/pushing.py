"""How a member pushes to hubs whose shards others keep, one with itself maybe: each is told of its stretch alone.

What a push moved is noted in the notes of the step it belongs to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from gossamer.engine.counter import Counter
from gossamer.engine.lost import MemberLost
from gossamer.engine.service import Service
from gossamer.engine.shards import Shard, Shards
from gossamer.engine.turns import Turns
from gossamer.parts.codec import Wire
from gossamer.records import Note
from gossamer.replica import Answer, Replica, conclude

PATIENCE = 1800.0  # seconds a hub may take to answer before we say that it does not: one member may be very late


class Pushing:
    """One member's pushes; its own service holds the parameters still while they become what hubs say."""

    def __init__(
        self,
        replica: Replica,
        service: Service,
        counter: Counter,
        turns: Turns,
        shards: Shards,
        settings: Callable[[], bytes],
    ) -> None:
        self.replica, self.service, self.counter, self.turns, self.shards = replica, service, counter, turns, shards
        self._settings, self._told = settings, dict[int, bytes]()  # of this member's optimizer; what servers know of it
        self._served = frozenset(service.lines.servers)
        self._pushing: dict[int, deque[Generator[Wire, Answer, None]]] = {}
        self._room: dict[int, Tensor] = {}

    def push(self, slot: int, step: int, note: Note) -> None:
        """Tell every shard of a hub; answers come when they are due."""
        desk, member = self.replica.desks[slot], self.replica.member
        rounds = [desk.round(shard.number) for shard in self.shards[slot]]
        pushing = self.replica.push(slot, step)
        wire = _sound(next(pushing), self.shards[slot])
        self._pushing.setdefault(slot, deque()).append(pushing)
        note.send(slot, wire.body.nbytes)
        # others first: what goes to them is on its way while this member steps its own
        self._tell_rates(slot)
        for shard, round in sorted(zip(self.shards[slot], rounds, strict=True), key=lambda to: to[0].owner == member):
            part = _part(wire, shard)
            with _naming(shard):
                if shard.owner == member:
                    self.service.push(slot, round, part)
                else:
                    self.counter.push(shard.owner, slot, round, part)
                    if self.service.lines.far(shard.owner):
                        note.cross(slot, part.body.nbytes)

    def take_answer(self, slot: int, note: Note) -> None:
        """Take up what the hub says to the earliest push that it has not yet answered; waits."""
        self.turns.give_way()
        answer = self._answer(slot)
        note.hear(slot, answer.values.nbytes)
        note.aged(answer.staleness)
        note.dropped += answer.dropped
        ex = self.replica.desks[slot].exchange
        note.spoilt |= answer.spoilt and ex.updates_at_hub and not ex.synchrony.delay
        with self.service.lock:
            conclude(self._pushing[slot].popleft(), answer)

    def rest(self, note: Note) -> None:
        """Take up all answers that are still to come."""
        for slot, pushes in sorted(self._pushing.items()):
            while pushes:
                self.take_answer(slot, note)

    def hear_out(self) -> None:
        """Hear all answers that are still to come, of which nothing is made any more."""
        for slot, pushes in self._pushing.items():
            for _ in pushes:
                self._answer(slot)

    def gather(self, slot: int) -> None:
        """This member goes where all meet: a hub that may leave it behind must not wait for it."""
        for shard in self.shards[slot]:
            self.service.rest(slot, shard.owner)

    def told_by(self, slot: int, *, first: bool) -> Tensor:
        """The part of a hub's centre that this member keeps, as it is now, and zeros for the rest; the first speaks for
        servers."""
        whole = torch.zeros_like(self.replica.desks[slot].chosen.take(self.replica.parameters))
        for shard in self.shards[slot]:
            start, stop = shard.part.bounds
            if shard.owner == self.replica.member:
                with self.service.lock:
                    whole[start:stop] = self.service.hubs[slot].centre
            elif first and shard.owner in self._served:
                with _naming(shard):
                    whole[start:stop] = self.counter.show(shard.owner, slot, whole)
        return whole

    def _tell_rates(self, slot: int) -> None:
        """Servers step with the settings that this member's optimizer has now; they are told when those change."""
        if not self._served or not self.replica.desks[slot].exchange.updates_at_hub:
            return
        now = self._settings()
        for shard in self.shards[slot]:
            if self._told.get(shard.owner) != now:
                self._told[shard.owner] = now
                self.counter.rates(shard.owner, now)

    def _answer(self, slot: int) -> Answer:
        """What all shards say, as one: it is as late, as much dropped and as spoilt as that of any of them."""
        answers = [self._answer_of(shard) for shard in self.shards[slot]]
        self.replica.desks[slot].versions = [answer.version for answer in answers]
        if len(answers) == 1:
            return answers[0]
        values = self._whole(slot, [answer.values for answer in answers])
        late, dropped = max(answer.staleness for answer in answers), any(answer.dropped for answer in answers)
        return Answer(values, answers[0].version, late, dropped, any(answer.spoilt for answer in answers))

    def _answer_of(self, shard: Shard) -> Answer:
        with _naming(shard):
            if shard.owner == self.replica.member:
                return self.service.answer(shard.slot, PATIENCE)
            return self.counter.answer(shard.owner, shard.slot, self.replica.parameters)

    def _whole(self, slot: int, parts: Sequence[Tensor]) -> Tensor:
        """Side by side, where the last ones were."""
        if slot not in self._room:
            self._room[slot] = parts[0].new_empty(self.shards[slot][-1].part.bounds[1])
        torch.cat(list(parts), out=self._room[slot])
        return self._room[slot]


def _sound(wire: Wire, shards: Sequence[Shard]) -> Wire:
    """A wire that holds what is no number is none at all: a shard that is told of the rest of it would apply that."""
    if len(shards) == 1 or bool(torch.isfinite(wire.body.sum(dtype=torch.float64))):
        return wire
    return replace(wire, body=torch.full_like(wire.body, torch.nan))


def _part(wire: Wire, shard: Shard) -> Wire:
    """The stretch of a wire that a shard is told of."""
    if shard.count == 1:
        return wire
    start, stop = shard.part.bounds
    return replace(wire, body=wire.body[start:stop])


@contextmanager
def _naming(shard: Shard) -> Iterator[None]:
    """Whoever is lost meanwhile took a shard along."""
    try:
        yield
    except MemberLost as lost:
        raise MemberLost(f"{lost}; it kept {shard}, and nobody else has it", lost.members) from None
