"""A thread that ends this member, while it waits, when another host has not been heard of for too long.

It asks no store: where a link is down, whoever does waits for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from gossamer.engine.loop.place import Place
from gossamer.engine.loop.pulse import Pulse
from gossamer.engine.lost import MemberLost
from gossamer.engine.watch import lasting

EVERY = 1.0  # seconds between two looks


class Silence:
    """From when all members are about to open a session; until it is open, all wait for all, and no step is usual."""

    def __init__(self, place: Place) -> None:
        self._place, self._pulse, self._over = place, Pulse(place), threading.Event()
        self.waits: Callable[[], bool] = lambda: True
        self.usual: Callable[[], float] = lambda: 0.0  # seconds of a step
        self.say: Callable[[str], None] = lambda what: print(f"gossamer: {what}", file=sys.stderr, flush=True)
        self.survives = False
        threading.Thread(target=self._listen, name="gossamer-hosts", daemon=True).start()

    def rest(self) -> None:
        """Nobody waits any more; others may still be served, to whom this host shows that it is alive."""
        self._over.set()

    def close(self) -> None:
        """Nobody is served any more."""
        self._over.set()
        self._pulse.close()

    def _listen(self) -> None:
        """While this member waits, end it if a host is silent for as long as a wait may last; beats come in between.

        Where others are done without, nobody waits for long: those that have lost the store's host end all the same.
        """
        seen = time.monotonic()
        while not self._over.wait(EVERY):
            now, before = time.monotonic(), seen
            seen = now
            if now - before > 2.0 * EVERY + 1.0:  # this process stood still: whoever was silent, it was not listening
                self._pulse.begin_anew()
                continue
            limit = lasting(self.usual()) - 2.0 * EVERY
            if (self.survives or self.waits()) and (who := self._pulse.silent(limit)) is not None:
                self._go_on(who) if self.survives and self._pulse.leave_out(limit) else self._miss(who)

    def _go_on(self, who: str) -> None:
        """A host is gone, and the others can do without it: say so once on each of them."""
        if self._speaks:
            self.say(f"{who}; the others go on")

    def _miss(self, who: str) -> None:
        """A host is gone: say so once on each of the others, and end; whatever waits cannot be woken otherwise."""
        if self._speaks:
            self.say(who)
        else:
            time.sleep(EVERY)  # when one ends, all on its host do
        error = MemberLost(who)
        error.secondary, error.last = False, True  # the cause itself, as far as it can be known here
        if threading.excepthook is not threading.__excepthook__:  # our launcher's shim notes it
            threading.excepthook(threading.ExceptHookArgs((MemberLost, error, None, None)))
        os._exit(1)

    @property
    def _speaks(self) -> bool:
        """Whether this member is the first of its host."""
        return self._place.member == self._place.hosts[self._place.host][0]
