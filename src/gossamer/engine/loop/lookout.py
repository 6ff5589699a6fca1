"""A thread that looks, while a member waits, for whoever does not come, and says who it is and what it is doing.

It costs nothing while exchanges are quick: once a second it reads how long the member has been waiting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.engine.loop.silence import Silence
from gossamer.engine.watch import Patience, report

if TYPE_CHECKING:
    from gossamer.engine.loop.session import Session

EVERY = 1.0  # seconds between two looks
LONG = 2.0  # seconds of waiting after which others are told, for fabrics that do not show it


@dataclass(frozen=True)
class Wait:
    """What a member waits in, since when, and the number it has come to, by which others know that they wait alike."""

    where: str
    called: str
    since: float
    reached: int
    step: int


class Aside:
    """What a member waits for beside its steps: averages, for which all ask alike."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.reached = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """One of them is under way."""
        self.reached += 1
        self.since = time.perf_counter()
        try:
            yield
        finally:
            self.since = None


aside = Aside()


class Lookout:
    """Reports after max(10 s, 5 usual steps) of waiting, then at doubling times; the lowest that waits speaks."""

    def __init__(self, session: Session, silence: Silence | None) -> None:
        self._session, self._over = session, threading.Event()
        # a store that one thread waits at answers no other: so a connection of its own
        self._store = session.place.store.clone()  # type: ignore[attr-defined]
        self._patience: dict[str, Patience] = {}
        self._told: set[tuple[str, int]] = set()
        self._silence = silence
        self._thread = threading.Thread(target=self._look, name="gossamer-lookout", daemon=True)
        self._thread.start()
        if silence is not None:
            silence.waits, silence.usual = lambda: any(True for _ in self._waits()), self._usual
            silence.say, silence.survives = session.say, session.survives

    def rest(self) -> None:
        """Nobody waits any more; others may still be served, to whom this host shows that it is alive."""
        self._over.set()
        if self._silence is not None:
            self._silence.rest()

    def close(self) -> None:
        """Nobody is served any more."""
        self._over.set()
        if self._silence is not None:
            self._silence.close()

    def _look(self) -> None:
        with suppress(RuntimeError):  # the store is gone: so is the run
            while not self._over.wait(EVERY):
                waits = {wait.where: wait for wait in self._waits()}
                for where in self._patience.keys() - waits.keys():
                    self._patience[where].calm()
                for wait in waits.values():
                    self._tell(wait, time.perf_counter() - wait.since)

    def _waits(self) -> Iterator[Wait]:
        """What this member waits in just now."""
        courses = self._session.courses
        for number, course in enumerate(courses):
            if (since := course.waiting) is not None:
                yield Wait(str(number), course.called, since, course.step, course.step)
        if (since := aside.since) is not None:
            yield Wait("aside", "the average of all members", since, aside.reached, courses[0].step)

    def _tell(self, wait: Wait, waited: float) -> None:
        """A member has been waiting: let the others know, and when it is time, say who is missing."""
        place = self._session.place
        if waited > LONG and (wait.where, wait.reached) not in self._told:
            self._told.add((wait.where, wait.reached))
            self._store.set(f"waiting/{wait.where}/{place.member}", str(wait.reached))
        patience = self._patience.setdefault(wait.where, Patience(self._usual))
        if not patience.due(waited + EVERY):
            return
        absent = self._session.fabric.absent() or self._unheard(wait)
        present = [member for member in range(place.size) if member not in absent]
        if absent and place.member == present[0]:
            self._session.say(report(self._store, absent, place.member, wait.called, wait.step, waited))

    def _usual(self) -> float:
        """Seconds between two steps, lately, of the optimizer that steps least often."""
        return max(course.usual for course in self._session.courses)

    def _unheard(self, wait: Wait) -> list[int]:
        """Members that do not wait alike, as far as the store knows."""
        place, found = self._session.place, []
        for member in range(place.size):
            key = f"waiting/{wait.where}/{member}"
            told = self._store.get(key) if self._store.check([key]) else b""
            if member != place.member and told != str(wait.reached).encode():
                found.append(member)
        return found
