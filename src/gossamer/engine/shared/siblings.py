"""Which members of this host still run, at the price of a system call. Knows nothing of what they do."""

from __future__ import annotations

import os
import select
import weakref

from gossamer.engine.shared.memory import Store


class Siblings:
    """One member's eye on the others: the kernel tells when a process ends, whoever its parent is."""

    def __init__(self, store: Store, name: str, member: int, size: int) -> None:
        """All members call it alike, while all run."""
        store.set(f"{name}/pid {member}", str(os.getpid()))
        self._eyes, self._poll = dict[int, int](), select.poll()
        for other in range(size):
            if other != member:
                eye = os.pidfd_open(int(store.get(f"{name}/pid {other}")))
                self._eyes[eye] = other
                self._poll.register(eye, select.POLLIN)
                weakref.finalize(self, os.close, eye)
        self._ended = set[int]()

    def ended(self, member: int) -> bool:
        """Whether a member's process has ended."""
        return member in self._ended or member in self.look()

    def look(self) -> set[int]:
        """The members whose processes have ended since the last look."""
        new = {self._eyes[eye] for eye, _ in self._poll.poll(0)}
        for eye, member in self._eyes.items():
            if member in new:
                self._poll.unregister(eye)
        self._ended |= new
        return new
