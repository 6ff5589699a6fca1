"""Whether the other hosts are alive: each one's members count up a word in the store, and look at the others' words.

All of it in a thread and over a connection of its own: where a link is down only that thread waits. Knows no exchange.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress

from torch.distributed.distributed_c10d import Store

from gossamer.engine.launch.ties import beat_of
from gossamer.engine.loop.place import Place, raw
from gossamer.engine.post import answer, question
from gossamer.engine.watch import shown

EVERY = 1.0  # seconds between two beats
VOICES = 2  # members of a host that speak for it: one may be busy where no other thread runs


class Pulse:
    """One member's view of the other hosts."""

    def __init__(self, place: Place) -> None:
        self._place, self._over = place, threading.Event()
        self._store: Store = place.store.clone()  # type: ignore[attr-defined]
        self._main = threading.get_ident()
        self._answered = time.monotonic()
        self._words: list[str] = []
        self._beats: dict[str, bytes] = {}
        self._since = dict.fromkeys(range(len(place.hosts)), self._answered)
        self._left: set[int] = set()  # hosts without which the others go on
        self._questions = 0
        threading.Thread(target=self._keep, name="gossamer-pulse", daemon=True).start()

    def close(self) -> None:
        """Nobody is looked for any more."""
        self._over.set()

    def begin_anew(self) -> None:
        """Count everybody's silence from now on."""
        self._answered = time.monotonic()
        self._since = dict.fromkeys(self._since, self._answered)

    def silent(self, limit: float) -> str | None:
        """The hosts that have not been heard of for so many seconds, in words; None if all have."""
        now, place = time.monotonic(), self._place
        if place.host and now - self._answered >= limit:  # the store is with the first host: nothing else is known
            return f"{self._told(0, now - self._answered)} (it holds the store; or this host's own link is down)"
        gone = self._gone(limit)
        if not gone:
            return None
        own = " (or this host's own link is down)" if len(gone) == len(place.hosts) - 1 > 1 else ""
        return "; ".join(self._told(host, now - self._since[host]) for host in gone) + own

    def leave_out(self, limit: float) -> bool:
        """Look no more for hosts that have not been heard of for so long; False if the store is with one of them."""
        gone = self._gone(limit)
        if 0 in gone or (self._place.host and time.monotonic() - self._answered >= limit):
            return False
        self._left.update(gone)
        return True

    def _gone(self, limit: float) -> list[int]:
        now, out = time.monotonic(), {self._place.host, *self._left}
        return [host for host, since in self._since.items() if host not in out and now - since >= limit]

    def _told(self, host: int, seconds: float) -> str:
        members = self._place.hosts[host]
        whose = f"its {len(members)} workers {', '.join(map(str, members))} have"
        whose = f"its worker {members[0]} has" if len(members) == 1 else whose
        return f"{self._place.whereabouts(host)}: {whose} not been heard of for {seconds:.0f} s"

    def _keep(self) -> None:
        place = self._place
        speaks = place.hosts[place.host].index(place.member) < VOICES
        with suppress(RuntimeError):  # the store is gone: its host is not heard of from now on
            self._words = self._whose()
            while True:
                if speaks:
                    self._store.add(self._beat(place.host), 1)
                self._look()
                self._answer()
                self._answered = time.monotonic()
                if self._over.wait(EVERY):
                    return

    def _whose(self) -> list[str]:
        """Where life shows, host by host: its members' word, and its launcher's if that is ours."""
        hosts = range(len(self._place.hosts))
        theirs = [beat_of(host) for host in hosts]
        return [*map(self._beat, hosts), *(theirs if raw(self._store).check(theirs) else [])]

    def _look(self) -> None:
        members, launchers = self._words[: len(self._since)], self._words[len(self._since) :]
        found = self._store.multi_get(members) + (raw(self._store).multi_get(launchers) if launchers else [])
        for place, (key, word) in enumerate(zip(self._words, found, strict=True)):
            if self._beats.get(key) != word:
                self._beats[key], self._since[place % len(self._since)] = word, time.monotonic()

    def _answer(self) -> None:
        """Write down what the main thread is doing, if a member of another host has asked for it."""
        number = self._store.add(question(self._place.member), 0)
        if number > self._questions:
            self._questions = number
            self._store.set(answer(self._place.member, number), shown(sys._current_frames().get(self._main)))

    def _beat(self, host: int) -> str:
        """Where a host's members count, from the moment at which they tell their places."""
        return f"pulse/{self._place.hosts[host][0]}"
