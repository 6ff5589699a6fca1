"""A lab: hosts that exist while it is open, with commands running on them. Knows what no command does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from gossamer.lab import guard
from gossamer.lab.meter import SPARE, WITHIN, compare
from gossamer.lab.rate import bits_per_second
from gossamer.lab.tools import needed
from gossamer.lab.wiring import MOST, Host, Traffic, host, switch, traffic, wire
from gossamer.parts.refusal import whole

_labs = count()


class Lab:
    """So many hosts on one machine, each link held to `rate` in both directions; None leaves links as fast as they are.

    Hosts share the machine's processes, files and /dev/shm: only their networks are apart. When the lab is left, or its
    process ends in whatever way, so does everything that runs on its hosts, and nothing of them remains.
    """

    def __init__(self, hosts: int, rate: str | None = None) -> None:
        whole("lab", "hosts", hosts, 1, MOST)
        self.bits = None if rate is None else bits_per_second(rate)
        pid = os.getpid()
        self._prefix = f"{guard.PREFIX}-{pid}-{guard.started(pid)}-{next(_labs)}"
        self.hosts: tuple[Host, ...] = tuple(host(self._prefix, index) for index in range(hosts))
        self._commands: list[subprocess.Popen[Any]] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self._handler: Any = None

    def __enter__(self) -> Lab:
        needed()
        guard.remove(guard.orphans())
        self._guard = _guarded(self._prefix)
        self._handler = _asked_to_end()
        try:
            wire(self._prefix, self.hosts, self.bits)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what runs on the hosts and remove them; may be called twice."""
        guard.remove(guard.namespaces(self._prefix))
        for command in self._commands:
            command.kill()  # one that was not yet inside
            command.wait()
        self._commands.clear()
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
            self._handler = None

    def start(
        self, index: int, command: Sequence[str], env: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[Any]:
        """Run a command on a host, in a process group of its own; `env` is added to this process's environment.

        Whatever else `subprocess.Popen` takes is handed on. The process found is the command's own.
        """
        given = None if env is None else {**os.environ, **env}
        if not popen.get("start_new_session"):
            popen.setdefault("process_group", 0)
        started: subprocess.Popen[Any] = subprocess.Popen([*_into(self.hosts[index]), *command], env=given, **popen)
        self._commands.append(started)
        return started

    def traffic(self) -> list[Traffic]:
        """Bytes that have left and reached each host since the lab was opened, as the links counted them."""
        return traffic(self._prefix, self.hosts)

    def cut(self, index: int) -> None:
        """Let a host's link carry nothing any more."""
        switch(self._prefix, self.hosts[index], False)

    def mend(self, index: int) -> None:
        """Let a host's link carry again."""
        switch(self._prefix, self.hosts[index], True)

    @contextmanager
    def metered(self, predicted: Sequence[float], within: float = WITHIN, spare: float = SPARE) -> Iterator[None]:
        """Fail with a table unless each host sends as many bytes as predicted; what is raised inside goes first."""
        before = self.traffic()
        yield
        sent = [(now - then).sent for now, then in zip(self.traffic(), before, strict=True)]
        compare(predicted, sent, within, spare)


def _into(host: Host) -> list[str]:
    """What a command follows to run on a host, under the host's name; each of these becomes the next."""
    named = 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"'
    return ["ip", "netns", "exec", host.name, "unshare", "--uts", "sh", "-c", named, host.hostname]


def _guarded(prefix: str) -> subprocess.Popen[bytes]:
    """Somebody who cleans up if this process cannot, out of reach of what ends its process group."""
    words = [sys.executable, "-I", "-S", str(Path(guard.__file__)), str(os.getpid()), prefix]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, cwd="/")


def _asked_to_end() -> Any:
    """Make SIGTERM an exception, so that the lab is left; not where somebody handles it, nor beside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return None

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with suppress(ValueError):
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            return signal.signal(signal.SIGTERM, leave)
    return None
