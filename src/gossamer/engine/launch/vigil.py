"""Noticing at once that a process has ended, in the order in which they did. Ends nobody itself."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from gossamer.engine.launch.failure import Death

UNKNOWN = 1 << 16  # the code of a process that another has collected before we could look
Code = Callable[[], int | None]  # asks how a process ended, None while it goes on


class Vigil:
    """Processes by rank, each watched through a descriptor that tells when it ends; where there is none they are asked.

    What is seen in one look has one time: nobody knows which was first.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._asked: list[tuple[int, int, Code]] = []  # where there are no such descriptors

    def watch(self, rank: int, pid: int, code: Code) -> None:
        """Watch a process from now on."""
        try:
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (rank, pid, code))
        except (AttributeError, OSError):
            self._asked.append((rank, pid, code))

    def look(self, seconds: float) -> list[Death]:
        """Those that ended since the last look, waiting up to so many seconds for the first."""
        if self._asked:
            time.sleep(min(seconds, 0.02))
            seconds = 0.0
        keys = [key for key, _ in self._selector.select(seconds)]
        now, seen = time.time(), []
        for key in keys:
            self._selector.unregister(key.fd)
            os.close(key.fd)
            seen.append(key.data)
        ended = [(entry, code) for entry in (*seen, *self._asked) if (code := entry[2]()) is not None]
        gone = {entry[1] for entry, _ in ended}
        self._asked = [entry for entry in self._asked if entry[1] not in gone]
        return [Death(rank, pid, code, now) for (rank, pid, _), code in ended]

    def close(self) -> None:
        """Watch nobody any more; once is enough."""
        for key in list((self._selector.get_map() or {}).values()):
            self._selector.unregister(key.fd)
            os.close(key.fd)
        self._selector.close()


def bury(pid: int, code: int) -> None:
    """Kill what a failed process that is not collected yet has left behind in its session."""
    if code not in (0, UNKNOWN):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def collected(process: subprocess.Popen[str]) -> Code:
    """How a process of our own ended, and whatever it started in its session with it."""
    ended = unreaped(process.pid) if hasattr(os, "waitid") else process.poll

    def code() -> int | None:
        if process.returncode is None and (end := ended()) is not None:
            bury(process.pid, end)
        return process.poll()

    return code


def unreaped(pid: int) -> Code:
    """How a child ended, left for another to collect; UNKNOWN if that has happened, None while it goes on."""

    def code() -> int | None:
        try:
            end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return UNKNOWN
        if end is None:
            return None
        return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status

    return code
