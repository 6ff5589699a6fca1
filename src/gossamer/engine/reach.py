"""Visits in memory that members share: only the visitor acts. It reads a partner's parameters where they lie, lays
itself into an inbox, becomes the mean of two, or plays a hub's part; nobody serves, and nobody else waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from gossamer.engine.centre import Centre, Plan
from gossamer.engine.pushes import Pushes
from gossamer.engine.shared import NoRoom
from gossamer.engine.shared.shelf import Shelf
from gossamer.engine.turns import Turns
from gossamer.engine.visits import deal
from gossamer.parts.merge import Adopt
from gossamer.parts.payload import Payload
from gossamer.parts.selection import Everything
from gossamer.parts.world import World
from gossamer.records import Note
from gossamer.replica import Hub, Layout, Replica, carried
from gossamer.replica.hub import Builder
from gossamer.replica.joined import State
from gossamer.strategy import AnyStrategy, Exchange, slots

SENT, HEARD = range(2)
LETTERS, AGE = range(2)  # of an inbox: how many lie there, and the age of the oldest
NAP = 0.0002  # seconds between two looks at who has left
OWNER = 0  # the member that lays hubs down, and keeps them with its own state


class Reach:
    """One member's visits. What moved is written down for the one that was visited, too."""

    name: str | None = None  # it is the fabric's own memory

    @classmethod
    def of(
        cls,
        store: Store,
        name: str,
        member: int,
        layout: Layout,
        world: World,
        strategy: AnyStrategy,
        optimizer: Builder,
    ) -> Reach | None:
        """All members call it alike; None where somebody else than the visitor would have to remember, or to encode."""
        exchanges = slots(strategy)
        visited = [(slot, ex) for slot, ex in enumerate(exchanges) if ex.hub or ex.meets]
        if any(ex.codec.lossy or not (ex.hub or _plain(ex)) for _, ex in visited):
            return None
        hubs = [(slot, ex, carried(ex, layout.tags)) for slot, ex in visited if ex.hub]
        plans = [Plan.of(slot, ex, chosen, layout.start, world, optimizer) for slot, ex, chosen in hubs]
        sure = [plan for plan in plans if plan is not None]
        return cls(store, name, member, layout, world, exchanges, sure) if len(sure) == len(plans) else None

    def __init__(
        self,
        store: Store,
        name: str,
        member: int,
        layout: Layout,
        world: World,
        exchanges: Sequence[Exchange],
        plans: Sequence[Plan],
    ) -> None:
        """Raises Unshared on all members, or on none."""
        size, width, one = world.size, len(exchanges), (layout.length, layout.start.dtype)
        told = [slot for slot, ex in enumerate(exchanges) if ex.meets and ex.topology.tells]
        counts = (2 * size * size * width, 2 * size * width, *(plan.words for plan in plans))
        kinds = [[one] * size for _ in told] + [plan.kinds for plan in plans]
        extra = [kind for each in kinds for kind in each]
        try:
            self.shelf = shelf = Shelf(store, name, member, size, layout.start, extra, sum(counts))
        except NoRoom as error:
            raise NoRoom(error.needed, error.available, _wanted(layout, size, plans)) from None
        words = np.split(shelf.words, list(accumulate(counts))[:-1])
        parts = iter(shelf.shared)
        held = [[next(parts) for _ in each] for each in kinds]
        locks = accumulate((plan.locks for plan in plans), initial=size * (1 + width))
        self._moved = words[0].reshape(2, size, size, width)  # sent and heard: by whom, with whom, by slot
        self._boxes = words[1].reshape(width, size, 2)
        self._inboxes = dict(zip(told, held, strict=False))
        self.centres = {
            plan.slot: Centre(plan, shelf, lock, held[len(told) + number], words[2 + number])
            for number, (plan, lock) in enumerate(zip(plans, locks, strict=False))
        }
        # a hub lies in memory, so nobody takes it along; who waits for all, or at a gate, goes no further without one
        self.survives = all(ex.hub or ex.survives for ex in exchanges)
        self.missed: Callable[[int, int], None] = lambda member, step: None  # told once of who died, and in which step
        self.member, self._missed = member, set[int]()
        self._noted = self._moved[:, member].sum(axis=1)
        for plan in plans if member == OWNER else ():
            self.centres[plan.slot].begin(plan.start)
        store.set(f"{name}/laid {member}", "")
        for other in range(size):  # nobody visits before everything is there
            store.get(f"{name}/laid {other}")

    def join(self, replica: Replica, turns: Turns) -> None:
        """The replica whose parameters lie here."""
        self.replica = replica
        self.pushes = Pushes(replica, self.shelf, turns, self.centres, self.still)
        self._trades = any(desk.exchange.topology.trades for desk in replica.desks)

    def told_by(self, slot: int, *, first: bool) -> Tensor:
        """A hub's centre as it is now, which every member can tell: the first does, others have zeros."""
        centre = self.centres[slot].now().centre
        return centre.clone() if first else torch.zeros_like(centre)

    @property
    def hubs(self) -> dict[int, Hub]:
        """The hubs as they are now, which one member keeps for all."""
        return self._kept(first=self.member == OWNER)

    def _kept(self, *, first: bool) -> dict[int, Hub]:
        return {slot: centre.now() for slot, centre in self.centres.items()} if first else {}

    @property
    def bounds(self) -> dict[int, list[tuple[int, int]]]:
        """The stretches of hubs whose states are this member's to keep."""
        return {slot: [hub.chosen.bounds] for slot, hub in self.hubs.items()}

    def states(self, *, first: bool) -> dict[int, list[State]]:
        """Their states, in the same order, as far as this member speaks for them."""
        return {slot: [hub.state()] for slot, hub in sorted(self._kept(first=first).items())}

    @contextmanager
    def still(self) -> Iterator[None]:
        """While this member's own parameters change."""
        with self.shelf.locked(self.member) if self._trades else nullcontext(), self.shelf.writing():
            yield

    def completed(self, steps: int) -> None:
        """This member has completed so many steps, as others see; between two of them it looks who still runs."""
        self.shelf.completed(steps)
        self.pushes.forget()
        self.shelf.siblings.look()
        for member in self.shelf.siblings.gone:
            self._lost(member)

    def gone(self, member: int) -> bool:
        """Whether a member has died or left."""
        return self.shelf.left(member) or self.shelf.siblings.ended(member)

    def told(self) -> Note:
        """What others made this member send and hear since the last time."""
        note, now = Note(), self._moved[:, self.member].sum(axis=1)
        for slot, (sent, heard) in enumerate((now - self._noted).T.tolist()):
            note.send(slot, sent)
            note.hear(slot, heard)
        self._noted = now
        for slot in self._inboxes:
            note.aged(int(self._boxes[slot, self.member, AGE]))
            self._boxes[slot, self.member, AGE] = 0
        return note

    def gather(self, slot: int) -> None:
        """Nobody is left behind: no round waits for a quorum here."""

    def close(self) -> None:
        """This member visits nobody any more; what it has can still be read. If others change it, it waits for them."""
        self.shelf.leave()
        waits = self._trades or (self.member == OWNER and bool(self.centres))
        others = [member for member in range(self.shelf.size) if waits and member != self.member]
        while not all(self.shelf.left(member) or self.shelf.lost(member) for member in others):
            time.sleep(NAP)

    def end(self) -> None:
        """Memory goes with whoever still looks at it."""

    def rest(self, note: Note) -> None:
        """Everything was answered; what lies in the inbox is taken to be kept."""
        for slot in self._inboxes:
            self._open(slot)

    def resume(self, states: Mapping[int, Sequence[State]]) -> None:
        """Parameters and memories are another run's: what the hubs are, their teller tells."""
        for slot, hub in self.hubs.items():
            hub.resume(states[slot][0])
        for centre in self.centres.values() if self.member == OWNER else ():
            centre.tell()

    def meet(self, slot: int, step: int, note: Note) -> None:
        """Deal with the partner of this round, or with the hub, as it is right now."""
        if self.replica.desks[slot].exchange.hub:
            self.push(slot, step, note)
            self.take_answer(slot, note)
        else:
            deal(self, self.replica, slot, step, note)

    def push(self, slot: int, step: int, note: Note) -> None:
        """Play a hub's part for what this member tells it."""
        self.pushes.push(slot, step, note)

    def take_answer(self, slot: int, note: Note) -> None:
        """Take up what the hub says, if it was not."""
        self.pushes.take_answer(slot, note)

    def pull(self, slot: int, step: int, weights: Mapping[int, float], note: Note) -> None:
        """Mix with partners where they lie; a read during which one of them changed is torn, and counted."""
        partners = [partner for partner in weights if partner != self.member]
        if any(self._lost(partner) for partner in partners):
            return
        shown = {partner: self._shown(slot, partner) for partner in partners}
        before = [self.shelf.version(partner) for partner in partners]
        desk = self.replica.desks[slot]
        with self.still():
            if len(partners) == len(weights) - 1 == 1 and desk.adopts and desk.chosen.span is not None:
                mine = self._shown(slot, self.member)
                torch.lerp(mine, shown[partners[0]], weights[partners[0]], out=mine)
            else:
                self.replica.pull(slot, weights, shown)
        after = [self.shelf.version(partner) for partner in partners]
        note.torn += sum(old != new or old % 2 for old, new in zip(before, after, strict=True))
        for partner in partners:
            note.aged(step - self.shelf.steps(partner))
            note.hear(slot, shown[partner].nbytes)
            self._moved[SENT, partner, self.member, slot] += shown[partner].nbytes

    def tell(self, slot: int, step: int, target: int, note: Note) -> None:
        """Lay oneself into the target's inbox where it lies, then take up one's own."""
        mine = target == self.member
        if not mine and not self._lost(target):
            shown, box = self._shown(slot, self.member), self._boxes[slot, target]
            with self.shelf.locked(self._inbox_lock(slot, target)):
                inbox, letters = self._inboxes[slot][target][: shown.numel()], int(box[LETTERS])
                box[LETTERS] = 0  # what is laid in partly, by who dies here, counts for nothing
                inbox.add_(shown) if letters else inbox.copy_(shown)
                box[LETTERS] = letters + 1
                box[AGE] = max(int(box[AGE]), self.shelf.steps(target) - step)
            note.send(slot, shown.nbytes)
            self._moved[HEARD, target, self.member, slot] += shown.nbytes
        self._open(slot)
        with self.still():
            self.replica.take_up(slot, 2 if mine else 1)

    def _open(self, slot: int) -> None:
        """Take what lies in this member's inbox to its desk."""
        desk, box = self.replica.desks[slot], self._boxes[slot, self.member]
        if not box[LETTERS]:
            return
        with self.shelf.locked(self._inbox_lock(slot, self.member)):
            told = self._inboxes[slot][self.member][: desk.chosen.count]
            desk.inbox = told.clone() if desk.inbox is None else desk.inbox.add_(told)
            desk.letters += int(box[LETTERS])
            box[LETTERS] = 0

    def trade(self, slot: int, step: int, partner: int, note: Note) -> None:
        """Both become the mean of the two, in one move; two locks are always taken in the same order."""
        if self._lost(partner):
            return
        shelf, (first, second) = self.shelf, sorted((self.member, partner))
        with shelf.locked(first), shelf.locked(second), shelf.writing(), shelf.writing(partner):
            mine, theirs = self._shown(slot, self.member), self._shown(slot, partner)
            torch.lerp(mine, theirs, 0.5, out=mine)
            theirs.copy_(mine)
        note.aged(step - shelf.steps(partner))
        note.send(slot, mine.nbytes)
        note.hear(slot, theirs.nbytes)
        for way in (SENT, HEARD):
            self._moved[way, partner, self.member, slot] += mine.nbytes

    def _shown(self, slot: int, member: int) -> Tensor:
        return self.replica.desks[slot].chosen.take(self.shelf.replicas[member])

    def _inbox_lock(self, slot: int, member: int) -> int:
        return self.shelf.size * (1 + slot) + member

    def _lost(self, member: int) -> bool:
        """Whether a partner has died: it is met by nobody, and nothing is heard, as in a rehearsal."""
        if not self.shelf.lost(member):
            return False
        if member not in self._missed:
            self._missed.add(member)
            self.missed(member, self.shelf.steps(member))
        return True


def _wanted(layout: Layout, size: int, plans: Sequence[Plan]) -> str:
    """What the memory is for, in bytes: the replicas, and each hub with what its optimizer remembers."""
    hubs = [sum(count * dtype.itemsize for count, dtype in plan.kinds) for plan in plans]
    told = [f"{size} replicas of {layout.start.nbytes:,}"]
    told += [f"a hub's centre and what its optimizer remembers, {nbytes:,}" for nbytes in hubs]
    return "; ".join(told)


def _plain(ex: Exchange) -> bool:
    """Whether parameters are met as they are; who is traded with takes what it hears, just so."""
    lying = ex.payload is Payload.PARAMETERS and not ex.carries_mass
    return lying and (not ex.topology.trades or (isinstance(ex.merge, Adopt) and ex.where == Everything()))
