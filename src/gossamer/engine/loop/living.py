"""Who is there where all meet beside their steps (an average, an evaluation): where the others go on without a member
that died, those that are left meet by themselves.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Protocol

from gossamer.engine.fabrics.fabric import Key, Pending
from gossamer.engine.fabrics.few import Few
from gossamer.engine.fabrics.shared import Shared
from gossamer.engine.loop.lookout import aside
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
        self._session, self._meetings = session, count()
        self._fabrics: dict[tuple[int, ...], Means] = {}

    def meet(self) -> Meeting:
        """Wait until everybody has come that still lives."""
        session, everybody = self._session, range(self._session.size)
        if not session.survives or session.size == 1:
            return Meeting(everybody, session.fabric)
        present = list(self._come("here"))
        return Meeting(present, session.fabric if len(present) == session.size else self._among(tuple(present)))

    def all_have(self, met: Meeting, mine: bool) -> bool:
        """Whether all that met have what they met for, as this one has or has not: all that are left find the same."""
        if not self._session.survives or self._session.size == 1:
            return mine
        found = self._come("has" if mine else "has not")
        return [found.get(member) for member in met.present] == ["has"] * len(met.present)

    def _come(self, word: str) -> dict[int, str]:
        """What all say that are here. Whoever is dead says no more, so all that are left find the same."""
        store, place, number = self._session.place.store, self._session.place, next(self._meetings)
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

    def _among(self, present: tuple[int, ...]) -> Means:
        if present not in self._fabrics:
            place, fabric = self._session.place, self._session.fabric
            if isinstance(fabric, Shared):
                self._fabrics[present] = Shared(fabric.beyond, place.store, f"memory of {present}", present)
            else:
                self._fabrics[present] = Few(place.groups, present)
        return self._fabrics[present]
