"""One member's way as acts, each as early as what it is made of allows: what to listen for, what to let go of, and what
has to be waited for before. Messages are cut into pieces that go on by themselves. Knows no values and no network."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from gossamer.parts.route.itinerary import SHORT, Leg, itinerary, meet, pieces
from gossamer.parts.route.schedule import Schedule


class What(IntEnum):
    """Kinds of acts; the first two never wait."""

    LISTEN = 0  # be ready for a piece
    SEND = 1  # let go of a piece
    TAKE = 2  # wait for the oldest piece that was listened for and is not taken; add or copy it to where it belongs
    CLEAR = 3  # wait until the oldest piece that is leaving has left
    WRITE = 4  # lay a piece into the outbox as it travels
    KEEP = 5  # go on with what lies in the outbox


class Act(NamedTuple):
    """One act: the member at the other end, its elements of the vector, and their place in the inbox, if they lie there
    for a while."""

    what: What
    member: int
    part: slice
    place: slice | None = None
    add: bool = False


@dataclass(frozen=True)
class Script:
    """All acts of one member, in their order; how long an inbox they need; what it has to round in the end; and how
    many elements leave and come."""

    acts: tuple[Act, ...]
    room: int
    own: tuple[slice, ...]
    sent: int
    heard: int


@lru_cache(maxsize=2**8)
def script(schedule: Schedule, member: int, size: int, length: int, longest: int, rounds: bool) -> Script:
    """The acts for a vector of `length` in pieces of at most `longest` elements.

    `rounds`: wires are shorter than the numbers of the vector, so what travels lies in an outbox and an inbox; else in
    the vector itself, but for what is added. A short vector hears all in its inbox, so that it can listen before what
    leaves has left: a copy costs less there than a sender that finds nobody listening.
    """
    plan = itinerary(schedule, member, size, length)
    acts = tuple(_Writer(rounds, boxed=rounds or length <= SHORT).written(plan.waves, length, longest))
    sent, heard = (sum(a.part.stop - a.part.start for a in acts if a.what is what) for what in (What.SEND, What.LISTEN))
    return Script(acts, plan.room, plan.own if rounds else (), sent, heard)


class _Writer:
    """Writes acts down, and remembers what would be under way when they are performed."""

    def __init__(self, rounds: bool, boxed: bool) -> None:
        self._rounds, self._boxed, self._acts = rounds, boxed, list[Act]()
        self._coming, self._leaving = deque[Act](), deque[Act]()
        self._laid = list[slice]()  # what lies in the outbox as it is in the vector

    def written(self, waves: Sequence[Sequence[Leg]], length: int, longest: int) -> list[Act]:
        """Piece by piece, of all legs of a wave: listening comes first, so that no sender finds nobody there."""
        for wave in waves:
            ways = [_cut(leg, longest) for leg in wave]
            for together in zip_longest(*ways):
                here = [(leg, *parts) for leg, parts in zip(wave, together, strict=True) if parts is not None]
                for leg, leaving, coming in here:
                    if leg.keeps and leaving is not None:  # what came before goes first into what leaves
                        self._settle(leaving)
                    if coming is not None:
                        self._listen(leg, coming)
                for leg, leaving, _ in here:
                    if leaving is not None:
                        self._send(leg, leaving)
        everything = slice(0, length)
        self._settle(everything)
        self._clear(everything)
        return self._acts

    def _listen(self, leg: Leg, part: slice) -> None:
        """What still uses the place of what comes is waited for."""
        assert leg.source is not None
        place: slice | None = None
        if leg.add or self._boxed:
            by = leg.lands - leg.coming.start
            place = slice(part.start + by, part.stop + by)
            while any(act.place is not None and meet(act.place, place) for act in self._coming):
                self._take()
        else:
            self._settle(part)
            self._clear(part)
        self._coming.append(self._act(Act(What.LISTEN, leg.source, part, place, leg.add)))

    def _send(self, leg: Leg, part: slice) -> None:
        """Let go of a piece as soon as all that is to be added to it has been."""
        assert leg.to is not None
        if not leg.keeps:
            self._settle(part)
        if self._rounds and part not in self._laid:
            self._clear(part)
            self._act(Act(What.WRITE, leg.to, part))
            self._laid = [other for other in self._laid if not meet(other, part)] + [part]
        if self._rounds and leg.keeps:  # both sides add the same numbers
            self._act(Act(What.KEEP, leg.to, part))
        self._leaving.append(self._act(Act(What.SEND, leg.to, part)))

    def _settle(self, part: slice) -> None:
        """Take what comes, in its order, until nothing for this part of the vector is under way."""
        while any(meet(act.part, part) for act in self._coming):
            self._take()

    def _clear(self, part: slice) -> None:
        """Wait until nothing of this part is still leaving."""
        while any(meet(act.part, part) for act in self._leaving):
            self._act(self._leaving.popleft()._replace(what=What.CLEAR))

    def _take(self) -> None:
        act = self._coming.popleft()
        if not self._rounds:  # what leaves lies where this goes
            self._clear(act.part)
        self._laid = [other for other in self._laid if not meet(other, act.part)]
        self._act(act._replace(what=What.TAKE))

    def _act(self, act: Act) -> Act:
        self._acts.append(act)
        return act


def _cut(leg: Leg, longest: int) -> Iterator[tuple[slice | None, slice | None]]:
    """What leaves and what comes, piece by piece."""
    return zip_longest(pieces(leg.leaving, longest), pieces(leg.coming, longest))
