"""Which members of this host still run, at the price of a system call. Knows nothing of what they do."""

from __future__ import annotations

import os
import select
import weakref
from pathlib import Path

from gossamer.engine.shared.memory import Store


class Siblings:
    """One member's eye on the others: the kernel tells when a process ends, whoever its parent is."""

    def __init__(self, store: Store, name: str, member: int, size: int) -> None:
        """All members call it alike, while all run."""
        store.set(f"{name}/pid {member}", str(os.getpid()))
        self._eyes, self._poll = dict[int, int](), select.poll()
        self._asked = dict[int, int]()  # by member: processes of which the kernel does not tell
        self._ended = set[int]()
        for other in range(size):
            if other != member:
                self._watch(other, int(store.get(f"{name}/pid {other}")))

    def ended(self, member: int) -> bool:
        """Whether a member's process has ended."""
        return member in self._ended or member in self.look()

    @property
    def gone(self) -> set[int]:
        """All members whose processes were seen to have ended."""
        return set(self._ended)

    def look(self) -> set[int]:
        """The members whose processes have ended since the last look."""
        new = {self._eyes[eye] for eye, _ in self._poll.poll(0)} | {m for m, pid in self._asked.items() if _gone(pid)}
        for eye in [eye for eye, member in self._eyes.items() if member in new]:
            self._poll.unregister(eye)
            del self._eyes[eye]
        for member in new & self._asked.keys():
            del self._asked[member]
        self._ended |= new
        return new

    def _watch(self, member: int, pid: int) -> None:
        try:
            eye = os.pidfd_open(pid)
        except ProcessLookupError:
            self._ended.add(member)
        except (AttributeError, OSError):  # an old kernel, or one that does not let us
            self._asked[member] = pid
        else:
            self._eyes[eye] = member
            self._poll.register(eye, select.POLLIN)
            weakref.finalize(self, os.close, eye)


def _gone(pid: int) -> bool:
    """Whether a process has ended, collected by its parent or not."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError as error:
        return isinstance(error, FileNotFoundError | ProcessLookupError)
    return told.rpartition(")")[2].split()[0] in "ZX"
