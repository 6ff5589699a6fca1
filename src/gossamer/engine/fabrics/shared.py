"""The fabric of one host: means are taken where the members' numbers lie, in memory they share. Knows no strategy.

What is heard sender by sender, messages of some members and named routes still travel over torch.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import torch
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from gossamer.engine import broken
from gossamer.engine.fabrics.fabric import Board, Fabric, Key, Pending, Rows
from gossamer.engine.lost import MemberLost
from gossamer.engine.shared import Into, Lane, kernel, sums
from gossamer.engine.shared.compiled import SMALL
from gossamer.engine.watch import ended, named
from gossamer.parts.codec import Heard, Mean, Wire
from gossamer.parts.route import Route
from gossamer.parts.topology import Common

PATIENCE = 1800.0  # seconds after which nobody is waited for any longer; who is missing is said long before
ALARM = 3.0  # seconds of waiting between two looks at whether the missing still run


@dataclass(eq=False)
class Under:
    """A mix of one bucket under way: summed here as soon as everybody's numbers are there."""

    lane: Lane
    bucket: int
    into: Into
    weights: Sequence[float] | None = None
    summed: bool = False

    def sum(self) -> None:
        """Sum my share, waiting for the others if need be."""
        if not self.summed:
            self.lane.reduce(self.bucket, self.into, self.weights)
            self.lane.done(self.bucket)
            self.summed = True

    def settle(self) -> None:
        """Wait until the whole result is there."""
        self.sum()
        self.lane.settle(self.bucket)


@dataclass
class Spare:
    """A lane that wires which lie elsewhere are copied into; its result is one that all members read."""

    lane: Lane
    busy: bool = False


class Shared:
    """One member's hold on the host's memory; `beyond` carries what memory does not."""

    looks, local, ordered = True, True, False

    def __init__(self, beyond: Fabric, store: Store, name: str, members: Sequence[int] = ()) -> None:
        """`members` are those that share memory, all if none are named."""
        self.name = f"shared memory ({kernel.in_use()} kernel)"
        self.member, self.size, self.beyond = beyond.member, beyond.size, beyond
        self.members = tuple(members) or tuple(range(self.size))
        self.sent: Counter[int] = beyond.sent
        self.heard: Counter[int] = beyond.heard
        self.crossed: Counter[int] = beyond.crossed
        self._store, self._name, self._lanes = store, name, count()
        self._opened: list[Lane] = []
        self._places: dict[tuple[int, int], tuple[Lane, int]] = {}
        self._spares: dict[tuple[int, int, int | None, int, torch.dtype], list[Spare]] = {}
        self._under: list[Under] = []
        self._missing = (0.0, 0.0)  # when somebody was first missed in the wait under way, and last

    def lane(
        self,
        length: int,
        dtype: torch.dtype,
        cuts: Sequence[int] = (),
        shared: bool = False,
        shares: Sequence[Sequence[tuple[int, int]]] | None = None,
        small: int = SMALL,
    ) -> Lane:
        """A new lane; all members ask for the same ones in the same order."""
        name = f"{self._name}/lane/{next(self._lanes)}"
        place, size = self.members.index(self.member), len(self.members)
        lane = Lane.open(self._store, name, place, size, length, dtype, cuts, shared, shares, small, self._gone)
        lane.alarm, lane.missing = ALARM, self._missed
        self._opened.append(lane)
        return lane

    def lend(self, like: Tensor, cuts: Sequence[int]) -> Tensor:
        """This member's slot of a lane: what lies there is mixed where it lies."""
        return self.lend_lane(self.lane(like.numel(), like.dtype, cuts), like.numel(), cuts)

    def lend_lane(self, lane: Lane, length: int, cuts: Sequence[int]) -> Tensor:
        """Remember the buckets of a lane, so that wires that lie there are known by their place."""
        edges = [0, *cuts, length]
        for bucket, (start, stop) in enumerate(pairwise(edges)):
            self._places[lane.mine[start:].data_ptr(), stop - start] = (lane, bucket)
        lane.mine.zero_()
        return lane.mine

    def place_of(self, there: Tensor) -> tuple[Lane, int] | None:
        """The lane and bucket that lie there, if it is one bucket of a lane."""
        return self._places.get((there.data_ptr(), there.numel()))

    def knows(self, there: Tensor) -> bool:
        """Whether it is one bucket of a lane."""
        return self.place_of(there) is not None

    def load(self, there: Tensor, sources: Sequence[Tensor], scale: float) -> int:
        """Copied and looked at; in one pass, where the memory is one bucket of a lane."""
        place = self.place_of(there)
        return sums.load(there, sources, scale) if place is None else place[0].load(place[1], sources, scale)

    def everyone(self, key: Key, wire: Wire, route: Route) -> Pending:
        """Begin a mix of all members' wires."""
        if not isinstance(wire, Mean) or not route.suited(wire.body.nbytes).native or not wire.body.is_cpu:
            return self.beyond.everyone(key, wire, route)
        place = self.place_of(wire.body)
        return self._in_place(key, wire.body, *place) if place else self._copied(key, wire.body)

    def neighbours(self, key: Key, wire: Wire, weights: Mapping[int, float], listeners: tuple[int, ...]) -> Pending:
        """Over torch, but for a mix of all that share this memory, and of nobody else."""
        body = wire.body
        within = isinstance(weights, Common) and weights.among == self.members and isinstance(wire, Mean)
        if not within or not body.is_cpu or not body.numel():
            return self.beyond.neighbours(key, wire, weights, listeners)
        if len(weights) == 1:
            return self._read(key, body, *weights.items())
        if body.element_size() < 4:  # short numbers are added up in 32 bits, and stay so
            return self.beyond.neighbours(key, wire, weights, listeners)
        place, shares = self.place_of(body), [weights.get(member, 0.0) for member in self.members]
        return self._in_place(key, body, *place, shares) if place else self._copied(key, body, shares)

    def board(self, width: int) -> Board:
        """Numbers in shared memory, on two sides: nobody is two mixes ahead of one who still reads."""
        rows = [slot.numpy().reshape(2, width) for slot in self.lane(2 * width, torch.int64).slots]
        turn = count()

        def tell(row: Sequence[int]) -> Callable[[], Rows]:
            side = next(turn) % 2
            rows[self.member][side, :] = row
            return lambda: [each[side].tolist() for each in rows]

        return tell

    def absent(self) -> list[int]:
        """Those whose words are behind mine."""
        return next(([self.members[each] for each in who] for lane in list(self._opened) if (who := lane.behind())), [])

    def close(self) -> None:
        """Nothing more will be asked for."""
        self.beyond.close()

    def end(self) -> None:
        """Memory goes with whoever still looks at it."""
        self.beyond.end()

    def _gone(self, place: int) -> bool:
        return ended(self._store, self.members[place])

    def _missed(self, who: list[int], bucket: int, phase: str) -> None:
        """Somebody is late: nobody waits for a process that has ended, and for none that does not come at all."""
        who = [self.members[each] for each in who]
        now = time.monotonic()
        if now > self._missing[1] + 2.0 * ALARM:  # the last wait was another one
            self._missing = (now, now)
        self._missing = (self._missing[0], now)
        if gone := [member for member in who if ended(self._store, member)]:
            broken.tell(self._store, self.member, gone[0])
            raise MemberLost(f"{named(gone)} ended, and this member waits for numbers that will not come", gone)
        if now - self._missing[0] > PATIENCE:
            raise MemberLost(f"{named(who)} not come within {PATIENCE / 60:.0f} minutes", who)

    def _in_place(
        self, key: Key, body: Tensor, lane: Lane, bucket: int, weights: Sequence[float] | None = None
    ) -> Pending:
        under = self._begin(key, body, Under(lane, bucket, Into.EVERY, weights))

        def wait() -> Heard:
            self._end(key, under, body)
            return Heard(whole=body)

        return Pending(wait)

    def _copied(self, key: Key, body: Tensor, weights: Sequence[float] | None = None) -> Pending:
        spare = self.spare(key, body, shared=True)
        spare.lane.mine.copy_(body)
        under = self._begin(key, body, Under(spare.lane, 0, Into.ONCE, weights))

        def wait() -> Heard:
            self._end(key, under, body)
            spare.busy = False
            assert spare.lane.whole is not None
            whole = spare.lane.whole if key.bucket is not None else spare.lane.whole.clone()
            return Heard(whole=whole.to(torch.promote_types(whole.dtype, torch.float32)))

        return Pending(wait)

    def _read(self, key: Key, body: Tensor, heard: tuple[int, float]) -> Pending:
        """All hear one member, and nothing is summed: it lays its numbers down, and the others read them there."""
        sender, weight = heard
        mine, spare = sender == self.member, self.spare(key, body, shared=False, small=0)
        if mine:
            spare.lane.mine.copy_(body)
        spare.lane.announce(0)
        self.sent[key.slot] += body.nbytes * (len(self.members) - 1) if mine else 0

        def wait() -> Heard:
            spare.lane.gather(0)
            there = body if mine else spare.lane.slots[self.members.index(sender)]
            whole = there.to(torch.promote_types(there.dtype, torch.float32)) * weight
            spare.lane.done(0)
            spare.lane.settle(0)
            spare.busy = False
            self.heard[key.slot] += 0 if mine else body.nbytes
            return Heard(whole=whole)

        return Pending(wait)

    def spare(self, key: Key, body: Tensor, *, shared: bool, small: int = SMALL) -> Spare:
        """A lane of the right size that is not under way."""
        place = (key.slot, key.turn, key.bucket, body.numel(), body.dtype)
        spares = self._spares.setdefault(place, [])
        found = next((spare for spare in spares if not spare.busy), None)
        if found is None:
            found = Spare(self.lane(body.numel(), body.dtype, shared=shared, small=small))
            spares.append(found)
        found.busy = True
        return found

    def _begin(self, key: Key, body: Tensor, under: Under) -> Under:
        """Announce, and sum what has become complete meanwhile; nobody waits here."""
        under.lane.announce(under.bucket)
        self.sent[key.slot] += leaving(under.lane, under.bucket, body)
        for other in self._under:
            if not other.summed and other.lane.ready(other.bucket):
                other.sum()
        self._under.append(under)
        return under

    def _end(self, key: Key, under: Under, body: Tensor) -> None:
        under.settle()
        self._under.remove(under)
        self.heard[key.slot] += leaving(under.lane, under.bucket, body)


def leaving(lane: Lane, bucket: int, body: Tensor) -> int:
    """Bytes that the others take from this member: its numbers of their shares, and its share for each of them."""
    start, stop = lane.shares[bucket][lane.member]
    return (body.numel() - (stop - start) + (lane.size - 1) * (stop - start)) * body.element_size()
