"""Who is there where all meet beside their steps (an average, an evaluation): where the others go on without a member
that died, those that are left meet by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from gossamer.engine.fabrics import Fabric
from gossamer.engine.fabrics.shared import Shared
from gossamer.engine.loop.lookout import aside
from gossamer.engine.reach import Reach

if TYPE_CHECKING:
    from gossamer.engine.loop.session import Session

NAP, LONGEST = 0.001, 0.02  # seconds between two looks at who has come


@dataclass(frozen=True)
class Meeting:
    """The members that are there, in order, and what carries their mixes."""

    present: Sequence[int]
    fabric: Fabric


class Living:
    """One member's view of who is left; all that are ask alike."""

    def __init__(self, session: Session) -> None:
        self._session, self._meetings = session, count()
        self._fabrics: dict[tuple[int, ...], Fabric] = {}

    def meet(self) -> Meeting:
        """Wait until everybody has come that still lives."""
        session, everybody = self._session, range(self._session.size)
        reach = session.courses[0].strands[0].carrier
        if not session.survives or not isinstance(reach, Reach):
            return Meeting(everybody, session.fabric)
        present = self._come(reach, next(self._meetings))
        return Meeting(present, session.fabric if len(present) == session.size else self._among(tuple(present)))

    def _come(self, reach: Reach, number: int) -> list[int]:
        """Those who said that they are here. Whoever is dead says no more, so all that are left find the same."""
        store, place = self._session.place.store, self._session.place
        store.set(f"here/{number}/{place.member}", "")
        shelf = reach.shelf
        with aside.waiting():
            for other in range(place.size):
                nap = NAP
                while not store.check([f"here/{number}/{other}"]):
                    if shelf.left(other) or shelf.siblings.ended(other):
                        break
                    time.sleep(nap)
                    nap = min(2.0 * nap, LONGEST)
        return [other for other in range(place.size) if store.check([f"here/{number}/{other}"])]

    def _among(self, present: tuple[int, ...]) -> Fabric:
        if present not in self._fabrics:
            place, fabric = self._session.place, self._session.fabric
            assert isinstance(fabric, Shared)
            self._fabrics[present] = Shared(fabric.beyond, place.store, f"memory of {present}", present)
        return self._fabrics[present]
