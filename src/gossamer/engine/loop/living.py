"""Who is there where all meet beside their steps (an average, an evaluation): where the others go on without a member
that died, those that are left meet by themselves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gossamer.engine.fabrics.fabric import Key, Pending
from gossamer.engine.fabrics.few import Few
from gossamer.engine.fabrics.shared import Shared
from gossamer.engine.loop.lookout import aside
from gossamer.engine.lost import MemberLost
from gossamer.parts.codec import Mean
from gossamer.parts.route import Route

if TYPE_CHECKING:
    from gossamer.engine.loop.session import Session

NAP, LONGEST = 0.001, 0.02  # seconds between two looks at who has come


class Means(Protocol):
    """What carries the means of those that have met."""

    sent: Counter[int]
    heard: Counter[int]
    size: int

    def everyone(self, key: Key, wire: Mean, route: Route) -> Pending:
        """Begin a mean of all wires."""


@dataclass(frozen=True)
class Meeting:
    """The members that are there, in order, and what carries their means."""

    present: Sequence[int]
    fabric: Means


class Living:
    """One member's view of who is left; all that are ask alike."""

    def __init__(self, session: Session) -> None:
        self._session, self._number = session, 0  # how often all said something
        self._lanes: dict[tuple[int, ...], Means] = {}
        self._last: Few | None = None

    def meet(self) -> Meeting:
        """Wait until everybody has come that still lives."""
        session, everybody = self._session, range(self._session.size)
        if not session.survives or session.size == 1:
            return Meeting(everybody, session.fabric)
        number, present = self._number, list(self.say("here"))
        return Meeting(present, self._among(tuple(present), number))

    def all_have(self, met: Meeting, mine: bool) -> bool:
        """Whether all that met have what they met for, as this one has or has not: all that are left find the same."""
        if not self._session.survives or self._session.size == 1:
            return mine
        found = self.say("has" if mine else "has not")
        return [found.get(member) for member in met.present] == ["has"] * len(met.present)

    def share(self, met: Meeting, word: str) -> list[str]:
        """Tell all that met a word, and hear everybody's, in the order of members."""
        found = self.say(word)
        if gone := [member for member in met.present if member not in found]:
            raise MemberLost(f"rank {gone[0]} is gone, too", gone)
        return list(found.values())

    def say(self, word: str) -> dict[int, str]:
        """What all say that are here. Whoever is dead says no more, so all that are left find the same."""
        store, place, number = self._session.place.store, self._session.place, self._number
        self._number += 1
        carrier = self._session.courses[0].strands[0].carrier
        assert carrier is not None
        store.set(f"here/{number}/{place.member}", word)
        with aside.waiting():
            for other in [other for other in range(place.size) if other != place.member]:
                nap = NAP
                while not store.check([f"here/{number}/{other}"]):
                    if carrier.gone(other):
                        break
                    time.sleep(nap)
                    nap = min(2.0 * nap, LONGEST)
        came = [other for other in range(place.size) if store.check([f"here/{number}/{other}"])]
        return {member: store.get(f"here/{number}/{member}").decode() for member in came}

    def end(self) -> None:
        """Nobody meets any more."""
        if self._last is not None:
            self._last.end()

    def _among(self, present: tuple[int, ...], number: int) -> Means:
        """What carries the means of a meeting: the memory they share; else connections that end with the next one."""
        place, fabric = self._session.place, self._session.fabric
        if isinstance(fabric, Shared):
            if len(present) == place.size:
                return fabric
            if present not in self._lanes:
                self._lanes[present] = Shared(fabric.beyond, place.store, f"memory of {present}", present)
            return self._lanes[present]
        self.end()
        self._last = Few(place.store, f"meeting/{number}", place.member, present)
        return self._last
