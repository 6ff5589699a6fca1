"""The servers of one host under `gossamer run`: processes that run the workers' command and keep hubs for all.

Server k is on host k mod hosts. Torch's launcher knows nothing of them.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from gossamer.engine.launch.meeting import Meeting
from gossamer.engine.launch.start import server_variables

GRACE = 2.0  # seconds in which a server whose members are done may end by itself, and after which it is killed


class Servers:
    """Started when the workers are, and ended with them."""

    def __init__(self, command: Sequence[Any], count: int, meeting: Meeting) -> None:
        self._command, self._count, self._meeting = [str(word) for word in command], count, meeting
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(GRACE if error is None else 0.0)

    def start(self, address: str, port: int, attempt: int) -> None:
        """Start those of this host, for workers that meet there; those of an attempt before are ended."""
        self.stop(0.0)
        number, hosts = self._meeting.number, self._meeting.hosts
        size = sum(host.workers for host in hosts)
        for server in range(number, self._count, len(hosts)):
            env = {
                **os.environ,
                "MASTER_ADDR": address, "MASTER_PORT": str(port), "RANK": str(size + server), "WORLD_SIZE": str(size),
                "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(hosts[number].workers), "GROUP_RANK": str(number),
                "TORCHELASTIC_RESTART_COUNT": str(attempt), **server_variables(size + server, size, self._count),
            }  # fmt: skip
            self._running[size + server] = subprocess.Popen(self._command, env=env, stdin=subprocess.DEVNULL)

    def fallen(self) -> tuple[int, int, int] | None:
        """Rank, process and code of one that failed."""
        for rank, process in self._running.items():
            if process.poll():
                return rank, process.pid, process.returncode
        return None

    def stop(self, grace: float) -> None:
        """End all, those that do not end by themselves within the grace by force."""
        until = time.monotonic() + grace
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()
        self._running.clear()
