"""How a member deals with one other at a time: partners it pulls from, tells or trades with, and hubs it pushes to.

Nobody else waits for a visit. What it moved is noted in the notes of the step it belongs to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from torch import Tensor

from gossamer.engine.counter import Counter
from gossamer.engine.lost import MemberLost
from gossamer.engine.service import Service
from gossamer.engine.turns import Turns
from gossamer.parts.codec import Wire
from gossamer.parts.topology import Into, Neighbours, Pair
from gossamer.records import Note
from gossamer.replica import Answer, Replica, conclude

PATIENCE = 120.0  # seconds a hub may take to answer before we say that it does not
OWNER = 0  # the member that hubs live with


class Partners(Protocol):
    """How one partner is dealt with, whatever lies between."""

    def pull(self, slot: int, step: int, weights: Mapping[int, float], note: Note) -> None:
        """Mix with partners as they are now."""

    def tell(self, slot: int, step: int, target: int, note: Note) -> None:
        """Lay oneself into an inbox, and take up one's own."""

    def trade(self, slot: int, step: int, partner: int, note: Note) -> None:
        """Both become the mean of the two."""


def deal(partners: Partners, replica: Replica, slot: int, step: int, note: Note) -> None:
    """Deal with whom the topology names for this round."""
    ex = replica.desks[slot].exchange
    match ex.topology.mixing(replica.member, ex.round(step), replica.world, slot):
        case Neighbours(weights):
            partners.pull(slot, step, weights, note)
        case Into(target):
            partners.tell(slot, step, target, note)
        case Pair(partner):
            partners.trade(slot, step, partner, note)
        case other:
            raise AssertionError(f"{other} is not met")


class Visits:
    """One member's visits; its own service holds the parameters still against others' meanwhile."""

    def __init__(self, replica: Replica, service: Service, counter: Counter, turns: Turns) -> None:
        self.replica, self.service, self.counter, self.turns = replica, service, counter, turns
        self._pushing: dict[int, deque[Generator[Wire, Answer, None]]] = {}

    def still(self) -> AbstractContextManager[object]:
        """Hold the parameters still against others while they change."""
        return self.service.lock

    def completed(self, steps: int) -> None:
        """This member has completed so many steps, as others will hear."""
        with self.service.lock:
            self.service.done = steps

    def told(self) -> Note:
        """What others made this member send and hear since the last time."""
        with self.service.lock:
            visits, self.service.visits = self.service.visits, Note()
        return visits

    def told_by(self, slot: int) -> Tensor:
        """The centre of a hub that lives with this member, as it is now."""
        with self.service.lock:
            return self.service.hubs[slot].centre.clone()

    def gather(self, slot: int) -> None:
        """This member goes where all meet: a hub that may leave it behind must not wait for it."""
        self.service.rest(slot, OWNER)

    def resume(self) -> None:
        """Parameters and memories are another run's; the hubs of this member, too."""

    def close(self) -> None:
        """Hear out the hubs, and serve the others until they are done, too."""
        self.hear_out()
        self.service.close()

    def meet(self, slot: int, step: int, note: Note) -> None:
        """Trade with the partner of this round, or with the hub, as it is right now."""
        ex = self.replica.desks[slot].exchange
        if ex.hub:
            self.push(slot, step, note)
            self.take_answer(slot, note)
            return
        try:
            deal(self, self.replica, slot, step, note)
        except MemberLost:  # who is gone is met by nobody, and nothing is heard, as in a rehearsal
            if not ex.survives:
                raise

    def push(self, slot: int, step: int, note: Note) -> None:
        """Tell a hub; its answer comes when it is due."""
        round = self.replica.desks[slot].round
        pushing = self.replica.push(slot, step)
        wire = next(pushing)
        self._pushing.setdefault(slot, deque()).append(pushing)
        note.send(slot, wire.body.nbytes)
        if self.replica.member == OWNER:
            self.service.push(slot, round, wire)
        else:
            self.counter.push(OWNER, slot, round, wire)

    def take_answer(self, slot: int, note: Note) -> None:
        """Take up what the hub says to the earliest push that it has not yet answered; waits."""
        self.turns.give_way()
        answer = self._answer(slot)
        note.hear(slot, answer.values.nbytes)
        note.aged(answer.staleness)
        note.dropped += answer.dropped
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

    def pull(self, slot: int, step: int, weights: Mapping[int, float], note: Note) -> None:
        """Partners show themselves when they are asked to."""
        like, shown = self.replica.shown(slot), {}
        for partner in weights:
            if partner != self.replica.member:
                shown[partner], done = self.counter.pull(partner, slot, like)
                note.aged(step - done)
                note.hear(slot, shown[partner].nbytes)
        with self.service.lock:
            self.replica.pull(slot, weights, shown)

    def tell(self, slot: int, step: int, target: int, note: Note) -> None:
        """The target keeps an inbox."""
        mine = target == self.replica.member
        try:
            if not mine:
                with self.service.lock:
                    told = self.replica.shown(slot).clone()
                self.counter.tell(target, slot, step, told)
                note.send(slot, told.nbytes)
        finally:  # whether anybody hears it or not
            with self.service.lock:
                self.replica.take_up(slot, 2 if mine else 1)

    def trade(self, slot: int, step: int, partner: int, note: Note) -> None:
        """The partner becomes the mean of what it is then and what this member was."""
        with self.service.lock:
            mine = self.replica.shown(slot).clone()
        theirs, done = self.counter.trade(partner, slot, mine)
        note.send(slot, mine.nbytes)
        note.hear(slot, theirs.nbytes)
        note.aged(step - done)
        with self.service.lock:
            self.replica.traded(slot, mine, theirs)

    def _answer(self, slot: int) -> Answer:
        if self.replica.member == OWNER:
            return self.service.answer(slot, PATIENCE)
        return self.counter.answer(OWNER, slot, self.replica.parameters)
