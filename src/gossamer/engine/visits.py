"""How a member deals with one other at a time: partners it pulls from, tells or trades with, beside hubs it pushes to.

Nobody else waits for a visit. What it moved is noted in the notes of the step it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from gossamer.engine.counter import Counter
from gossamer.engine.lost import MemberLost
from gossamer.engine.pushing import Pushing
from gossamer.engine.service import Service
from gossamer.engine.upkeep import Upkeep
from gossamer.parts.topology import Into, Neighbours, Pair
from gossamer.records import Note
from gossamer.replica import Replica
from gossamer.replica.joined import State


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

    def __init__(self, replica: Replica, service: Service, counter: Counter, pushing: Pushing, upkeep: Upkeep) -> None:
        self.replica, self.service, self.counter = replica, service, counter
        self.pushing, self.upkeep = pushing, upkeep
        self.push, self.take_answer, self.rest = pushing.push, pushing.take_answer, pushing.rest
        self.told_by, self.gather = pushing.told_by, pushing.gather

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

    @property
    def kept(self) -> str:
        """The shards of hubs that this member keeps, in words."""
        mine = [shard for each in self.pushing.shards.values() for shard in each if shard.owner == self.replica.member]
        return ", ".join(map(str, mine))

    @property
    def bounds(self) -> dict[int, list[tuple[int, int]]]:
        """The stretches of hubs whose states are this member's to keep."""
        return self.upkeep.bounds

    def states(self, *, first: bool) -> dict[int, list[State]]:
        """Their states, in the same order, as far as this member speaks for them."""
        return self.upkeep.states(first=first)

    def resume(self, states: Mapping[int, Sequence[State]]) -> None:
        """Parameters and memories are another run's; what it kept of hubs, too."""
        self.upkeep.go_on(states)

    def close(self) -> None:
        """Hear out the hubs, and serve the others until they are done, too."""
        self.pushing.hear_out()
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
                self._sent(target, slot, told.nbytes, note)
        finally:  # whether anybody hears it or not
            with self.service.lock:
                self.replica.take_up(slot, 2 if mine else 1)

    def trade(self, slot: int, step: int, partner: int, note: Note) -> None:
        """The partner becomes the mean of what it is then and what this member was."""
        with self.service.lock:
            mine = self.replica.shown(slot).clone()
        theirs, done = self.counter.trade(partner, slot, mine)
        self._sent(partner, slot, mine.nbytes, note)
        note.hear(slot, theirs.nbytes)
        note.aged(step - done)
        with self.service.lock:
            self.replica.traded(slot, mine, theirs)

    def _sent(self, member: int, slot: int, nbytes: int, note: Note) -> None:
        note.send(slot, nbytes)
        if self.service.lines.far(member):
            note.cross(slot, nbytes)
