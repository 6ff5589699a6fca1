"""How far each member has come where all go together before the first step; who stays behind is named.

Knows no exchange.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from torch.distributed.distributed_c10d import Store

from gossamer.engine.watch import Patience, away, doing, named

EVERY = 1.0  # seconds between two looks
PREPARE = "prepare"


class Roll:
    """One member's way, place after place; all go the same way, and may wait for each other anywhere."""

    def __init__(self, store: Store, name: str, member: int, size: int) -> None:
        # a store that one thread waits at answers no other: so a connection of its own
        self._told, self._store = store, store.clone()  # type: ignore[attr-defined]
        self._name, self._member, self._size = name, member, size
        self._place, self._where, self._since = 0, PREPARE, time.monotonic()
        self._patience, self._over = Patience(lambda: 0.0), threading.Event()
        self.come(PREPARE)
        threading.Thread(target=self._call, name="gossamer-roll", daemon=True).start()

    def come(self, where: str) -> None:
        """This member has come to the next place."""
        self._place, self._where, self._since = self._place + 1, where, time.monotonic()
        self._patience.calm()
        self._told.set(f"{self._name}/{self._member}", str(self._place))

    def close(self) -> None:
        """It is there."""
        self._over.set()

    def _call(self) -> None:
        with suppress(RuntimeError):  # the store is gone: so is the run
            while not self._over.wait(EVERY):
                waited = time.monotonic() - self._since
                if self._patience.due(waited + EVERY):
                    self._say(waited)

    def _say(self, waited: float) -> None:
        """Name those that are behind, or else those that do not answer, or else all. The lowest in front speaks."""
        place, where, everybody = self._place, self._where, range(self._size)
        late = [other for other in everybody if self._reached(other) < place]
        lower = [other for other in range(self._member) if other not in late]
        if len(away(self._store, lower)) < len(lower):  # one of them will
            return
        said = f"member {self._member} has waited {waited:.0f} s"
        if late:
            lines = [f"{said}: {named(late)} not come to {where}", *([] if place == 1 else doing(self._store, late))]
        else:
            stuck = list(away(self._store, [other for other in everybody if other != self._member]))
            lines = [f"{said} at {where}, where all have come", *doing(self._store, stuck or list(everybody))]
        if self._place == place and not self._over.is_set():
            print("gossamer: " + "\n".join(lines), file=sys.stderr, flush=True)

    def _reached(self, member: int) -> int:
        key = f"{self._name}/{member}"
        return int(self._store.get(key)) if self._store.check([key]) else 0


@contextmanager
def calling(store: Store, name: str, member: int, size: int) -> Iterator[Callable[[str], None]]:
    """While inside, say after 10 s at one place who has not come there, and again at times; gives `come(where)`."""
    if size == 1:
        yield lambda where: None
        return
    roll = Roll(store, name, member, size)
    try:
        yield roll.come
    finally:
        roll.close()
