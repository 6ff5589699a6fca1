"""A thread that looks, while a member waits, for whoever does not come, and says who it is and what it is doing.

It costs nothing while exchanges are quick: once a second it reads how long the member has been waiting.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from gossamer.engine.watch import Patience, report

if TYPE_CHECKING:
    from gossamer.engine.loop.course import Course
    from gossamer.engine.loop.session import Session

EVERY = 1.0  # seconds between two looks
LONG = 2.0  # seconds of waiting after which others are told, for fabrics that do not show it


class Lookout:
    """Reports after max(10 s, 5 usual steps) of waiting, then at doubling times; the lowest that waits speaks."""

    def __init__(self, session: Session) -> None:
        self._session, self._over = session, threading.Event()
        self._patience = [Patience(lambda course=course: course.usual) for course in session.courses]  # type: ignore[misc]
        self._told: set[tuple[int, int]] = set()
        self._thread = threading.Thread(target=self._look, name="gossamer-lookout", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody waits any more."""
        self._over.set()

    def _look(self) -> None:
        while not self._over.wait(EVERY):
            for number, course in enumerate(self._session.courses):
                since = course.waiting
                if since is None:
                    self._patience[number].calm()
                else:
                    self._waits(number, course, time.perf_counter() - since)

    def _waits(self, number: int, course: Course, waited: float) -> None:
        """A member has been waiting: tell the others, and when it is time, say who is missing."""
        place, step = self._session.place, course.step
        if waited > LONG and (number, step) not in self._told:
            self._told.add((number, step))
            place.store.set(f"waiting/{number}/{place.member}", str(step))
        if not self._patience[number].due(waited + EVERY):
            return
        absent = course.fabric.absent() or self._unheard(number, step)
        present = [member for member in range(place.size) if member not in absent]
        if absent and place.member == present[0]:
            self._session.say(report(place.store, absent, place.member, course.called, step, waited))

    def _unheard(self, number: int, step: int) -> list[int]:
        """Members that do not wait in this step, as far as the store knows."""
        place, found = self._session.place, []
        for member in range(place.size):
            key = f"waiting/{number}/{member}"
            if member != place.member and not (place.store.check([key]) and place.store.get(key) == str(step).encode()):
                found.append(member)
        return found
