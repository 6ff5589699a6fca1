"""The words of a lane that members wait by: in plain Python, for lanes without compiled loops. Knows no numbers.

Every member owns two growing words per bucket, `announced` and `done`. Every call returns FINISHED, NOT_YET after a
short while of waiting (so that signals are heard), or OUT_OF_TURN.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import time
from typing import Any

import numpy as np

from gossamer.engine.shared.places import Places

FINISHED, NOT_YET, OUT_OF_TURN = 0, 1, -1
IDLE, ANNOUNCED, DONE = range(3)
SLICE = 0.2  # seconds after which a wait comes back
_WAIT, _WAKE, _ALL = 0, 1, 2**31 - 1
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}.get(platform.machine())
_LIBC = ctypes.CDLL(None)
Words32 = np.ndarray[Any, np.dtype[np.uint32]]


class PlainWords:
    """Words without compiled code: nothing here adds atomically, so each waits on the words of the others in turn."""

    def __init__(self, memory: ctypes.Array[ctypes.c_char], address: int, places: Places, member: int) -> None:
        self.table = owned(memory, places)
        self.rounds = np.zeros(places.buckets, np.uint32)
        self.progress = np.zeros(places.buckets, np.int32)
        self._address, self._places, self._member = address + places.words, places, member
        self._fence = threading.Lock()

    def announce(self, bucket: int) -> int:
        if self.progress[bucket] != IDLE:
            return OUT_OF_TURN
        self.progress[bucket] = ANNOUNCED
        self.rounds[bucket] += np.uint32(1)
        return self._tell(0, bucket)

    def ready(self, bucket: int) -> int:
        return int(self.progress[bucket] != IDLE and not self._behind(0, bucket))

    def gather(self, bucket: int) -> int:
        return self._all(0, bucket) if self.progress[bucket] == ANNOUNCED else OUT_OF_TURN

    def done(self, bucket: int) -> int:
        if self.progress[bucket] != ANNOUNCED:
            return OUT_OF_TURN
        self.progress[bucket] = DONE
        return self._tell(1, bucket)

    def settle(self, bucket: int) -> int:
        if self.progress[bucket] != DONE:
            return OUT_OF_TURN
        code = self._all(1, bucket)
        if code == FINISHED:
            self.progress[bucket] = IDLE
        return code

    def _tell(self, which: int, bucket: int) -> int:
        """Set my word, after everything I wrote, and wake whoever sleeps on it."""
        with self._fence:  # locking and unlocking orders memory on machines that need it
            pass
        self.table[self._member, which, bucket] = self.rounds[bucket]
        self._futex(self._member, which, bucket, _WAKE, _ALL, None)
        return FINISHED

    def _behind(self, which: int, bucket: int) -> list[int]:
        return behind(self.table[:, which, bucket], int(self.rounds[bucket]))

    def _all(self, which: int, bucket: int) -> int:
        """Sleep on the first word that is behind, until none is."""
        until = time.monotonic() + SLICE
        while missing := self._behind(which, bucket):
            left = until - time.monotonic()
            if left <= 0:
                return NOT_YET
            seen = int(self.table[missing[0], which, bucket])
            if behind(np.array([seen], np.uint32), int(self.rounds[bucket])):
                self._futex(missing[0], which, bucket, _WAIT, seen, left)
        with self._fence:
            pass
        return FINISHED

    def _futex(self, member: int, which: int, bucket: int, what: int, value: int, seconds: float | None) -> None:
        """The system call, which Python has no name for; elsewhere a short sleep does."""
        if _FUTEX is None:
            time.sleep(0.0 if seconds is None else min(seconds, 1e-4))
            return
        until = None if seconds is None else ctypes.byref((ctypes.c_long * 2)(0, int(seconds * 1e9)))
        at = self._address + member * self._places.apart + 4 * (which * self._places.buckets + bucket)
        _LIBC.syscall(ctypes.c_long(_FUTEX), ctypes.c_void_p(at), what, ctypes.c_uint32(value), until, None, 0)


def owned(memory: ctypes.Array[ctypes.c_char], places: Places) -> Words32:
    """The members' own words, by (member, announced or done, bucket)."""
    count = places.size * places.apart // 4
    flat: Words32 = np.frombuffer(memoryview(memory), np.uint32, count, places.words).reshape(
        places.size, places.apart // 4
    )
    return flat[:, : 2 * places.buckets].reshape(places.size, 2, places.buckets)


def behind(words: Words32, goal: int) -> list[int]:
    """The members whose word has not reached the goal; right after a wrap, too."""
    return np.flatnonzero((words - np.uint32(goal)).astype(np.int32) < 0).tolist()
