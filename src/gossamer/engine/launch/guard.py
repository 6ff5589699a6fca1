"""Beside torch's launcher: who of its workers ended when, and nobody outlives a failure long. Collects no process."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gossamer.engine.launch.failure import Death
from gossamer.engine.launch.vigil import UNKNOWN, Vigil, bury, unreaped

GLANCE = 0.05  # seconds between looks for workers that have signed in


class Guard:
    """A thread that watches the workers that sign in: torch would wait 30 s for one that does not end."""

    def __init__(self, folder: Path, grace: float) -> None:
        self.deaths: dict[int, Death] = {}
        self._folder, self._grace = folder, grace
        self._attempts: dict[int, str] = {}  # of every process that signed in
        self._ends: dict[str, float] = {}  # when all of an attempt are to be gone
        self._vigil, self._over = Vigil(), threading.Event()
        self.spares: Callable[[], bool] = lambda: False  # whether the others go on when one has failed
        self._thread = threading.Thread(target=self._keep, name="guard", daemon=True)

    @property
    def anybody(self) -> bool:
        """Whether any worker has signed in."""
        return bool(self._attempts)

    def __enter__(self) -> Guard:
        if sys.platform == "linux":  # elsewhere a child's end cannot be seen without collecting it
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._admit()
        self._vigil.close()
        self._kill(set(self._attempts))

    def _keep(self) -> None:
        while not self._over.is_set():
            self._admit()
            for death in self._vigil.look(GLANCE):
                self.deaths[death.pid] = death
                bury(death.pid, death.code)
                if death.code not in (0, UNKNOWN) and not self.spares():
                    self._ends.setdefault(self._attempts[death.pid], time.monotonic() + self._grace)
            late = {attempt for attempt, end in self._ends.items() if time.monotonic() >= end}
            self._kill({pid for pid, attempt in self._attempts.items() if attempt in late})

    def _admit(self) -> None:
        """Watch the processes that have signed in since the last time."""
        for path in self._folder.glob("started-*[0-9]"):
            _, attempt, rank, pid = path.name.split("-")
            if int(pid) not in self._attempts:
                self._attempts[int(pid)] = attempt
                self._vigil.watch(int(rank), int(pid), unreaped(int(pid)))

    def _kill(self, pids: set[int]) -> None:
        """Kill those that still run, and what they started; one that has ended is not ours to name any more."""
        for pid in pids - self.deaths.keys():
            if unreaped(pid)() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
