"""Where a member stands to be asked what it is doing: a signal makes it write its Python stack for its siblings.

Knows nothing of exchanges. Costs a member nothing while nobody asks.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec
from torch.distributed.distributed_c10d import Store

ASK = getattr(signal, "SIGRTMIN", 0) + 3
FILE = "gossamer-stack"


class Place(msgspec.Struct, frozen=True):
    """Where a member writes its stack when asked: a process, told from a later one of the same number by its start."""

    pid: int
    start: str
    host: str
    fd: int


class Post:
    """A member's post: on a signal, its stack is written into a file without a name, which ends with the process.

    The handler is C and runs in the main thread whatever that does: sleeping, waiting, or in a long operation. It only
    walks that thread's own frames: those of others may move under its hand. Whoever waits in the kernel may be woken
    with EINTR and has to look again, as Python does by itself. It stays when a post is left: a late question must not
    end the process, as a signal without a handler would.
    """

    def __init__(self, store: Store, member: int) -> None:
        self._store, self._key = store, key(member)
        try:
            start, here, file = stat(os.getpid())[0], host(), _file()
        except (OSError, AttributeError) as error:  # no /proc that can be read, or another system
            store.set(self._key, f"cannot be asked: {error}")
            return
        place = Place(os.getpid(), start, here, file)
        store.set(self._key, msgspec.json.encode(place).decode())

    def close(self) -> None:
        """Leave: nobody finds this member any more."""
        with suppress(RuntimeError):  # the store may be gone by now
            self._store.set(self._key, "has left")


@cache
def _file() -> int:
    """The one file of this process, for all its posts, and the handler that writes to it."""
    file = os.memfd_create(FILE)
    faulthandler.register(ASK, file=file, all_threads=False, chain=False)
    return file


def place_of(store: Store, member: int, timeout: float) -> Place | str:
    """What a member told of itself. The store may live in just the process that is stuck, so it is not waited for."""
    found: list[Place | str] = []
    looking = threading.Thread(target=lambda: found.append(_look(store, member)), daemon=True)
    looking.start()
    looking.join(timeout)
    return found[0] if found else f"cannot be found: the store did not answer within {timeout:g} s"


def _look(store: Store, member: int) -> Place | str:
    try:
        if not store.check([key(member)]):
            return "has not arrived yet"
        told = store.get(key(member))
        return msgspec.json.decode(told, type=Place) if told.startswith(b"{") else told.decode()
    except (RuntimeError, msgspec.DecodeError) as error:
        return f"cannot be found: {str(error).splitlines()[0]}"


def stat(pid: int) -> tuple[str, str]:
    """When a process started, in ticks since the host did, and its state by the kernel's letter."""
    # the name, in parentheses, may hold anything; what follows the last one does not
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return fields[19], fields[0]


def host() -> str:
    """Where process numbers mean the same: one host for the launcher, one start of one kernel, one namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{os.environ.get('GROUP_RANK', '0')}/{boot}{os.readlink('/proc/self/ns/pid')}"


def key(member: int) -> str:
    """Where a member tells its place."""
    return f"gossamer/post/{member}"


def question(member: int) -> str:
    """Where questions to a member from other hosts are counted."""
    return f"gossamer/asked/{member}"


def answer(member: int, number: int) -> str:
    """Where a member answers one of them."""
    return f"gossamer/answered/{member}/{number}"
