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
        self._eyes = dict[int, int]()
        for other in range(size):
            if other != member:
                self._eyes[other] = eye = os.pidfd_open(int(store.get(f"{name}/pid {other}")))
                weakref.finalize(self, os.close, eye)
        self._ended = set[int]()

    def ended(self, member: int) -> bool:
        """Whether a member's process has ended."""
        if member in self._ended:
            return True
        if member not in self._eyes:
            return False
        poll = select.poll()
        poll.register(self._eyes[member], select.POLLIN)
        if poll.poll(0):
            self._ended.add(member)
        return member in self._ended
