"""Worker processes on this host: started, watched, stopped. They stand and fall together, unless they say that those
that are left go on. Knows not what they do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType

from gossamer.engine.launch.failure import MOMENT, Death, blamed, notes_in, only_secondary
from gossamer.engine.launch.start import environment, keeping, party, start, told
from gossamer.engine.launch.ties import FALLS, KEEPS, SURVIVES
from gossamer.engine.launch.vigil import Vigil, collected
from gossamer.parts.refusal import whole

GRACE = 2.0  # seconds between asking a worker to end and killing it
KEPT = 200  # lines of each worker's output
Hear = Callable[[int, str], None]  # rank, line


class Workers:
    """`size` processes, and as many `servers`, running one python command, joined through a store in a private folder.

    `command` is what would follow `python`: a script or `-m module`, with its arguments. What they print comes line by
    line to `hear(rank, line)`, called from `wait`; the last lines are kept in `lines`.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: int,
        env: Mapping[str, str] | None = None,
        path: Sequence[str] = (),
        hear: Hear | None = None,
        servers: int = 0,
    ) -> None:
        whole("workers", "size", size, 1, 1024)
        self.size, self.servers = size, servers
        self.lines = [deque[str](maxlen=KEPT) for _ in range(size + servers)]
        self._hear = hear
        self._said: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self._folder = tempfile.TemporaryDirectory(prefix="gossamer-", ignore_cleanup_errors=True)
        self._vigil = Vigil()
        self._deaths: list[Death] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        try:
            for rank in range(size + servers):
                self._start(rank, command, env or {}, path)
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        """The processes, by rank."""
        return [process.pid for process in self._processes]

    def wait(
        self, tick: Callable[[], None] | None = None, every: float = 0.1, lost: Callable[[Death], None] | None = None
    ) -> None:
        """Return when all have ended well, calling `tick` meanwhile; else stop all and raise the first real failure.

        Where workers said that those that are left go on, they do; `lost` is told of each that failed. Nobody goes on
        without a server.
        """
        following = time.monotonic()
        while len(self._deaths) < self.size + self.servers:
            new = self._vigil.look(max(0.0, following - time.monotonic()))
            self._deaths += new
            self._pass_on()
            failed = [death for death in new if death.code]
            if failed and (lost is None or not self._survive or any(death.rank >= self.size for death in failed)):
                self._fail()
            for death in failed:
                assert lost is not None
                lost(death)
            if time.monotonic() >= following:
                following = time.monotonic() + every
                if tick is not None:
                    tick()
        self.stop()

    @property
    def _survive(self) -> bool:
        """Whether some are left, or have ended well, and said that they go on."""
        fallen, folder = sum(1 for death in self._deaths if death.code), Path(self._folder.name)
        left = self.size - fallen
        return left > 0 and told(folder, SURVIVES) and not told(folder, FALLS)

    def stop(self) -> None:
        """End all that still run, the patient way first, and put everything away; once is enough."""
        self._end()
        for listener in self._listeners:
            listener.join(1.0)
        for process, listener in zip(self._processes, self._listeners, strict=False):
            if process.stdout is not None and not listener.is_alive():
                process.stdout.close()
        self._pass_on()
        self._vigil.close()
        self._folder.cleanup()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, rank: int, command: Sequence[str], env: Mapping[str, str], path: Sequence[str]) -> None:
        whole_env = {**environment(rank, self.size, Path(self._folder.name), path, self.servers), **env}
        process = start(command, whole_env, subprocess.DEVNULL, subprocess.STDOUT, apart=True)
        self._processes.append(process)
        self._vigil.watch(rank, process.pid, collected(process))
        listener = threading.Thread(target=self._listen, args=(rank, process), daemon=True)
        self._listeners.append(listener)
        listener.start()

    def _fail(self) -> None:
        """Stop all and raise the first real failure; it has a moment to show if so far others have only missed it."""
        until, folder = time.monotonic() + MOMENT, Path(self._folder.name)
        while only_secondary(self._deaths, notes_in(folder)) and time.monotonic() < until:
            self._deaths += self._vigil.look(until - time.monotonic())
        self._end()
        self._deaths += self._vigil.look(0.0)
        failure = blamed(self._deaths, notes_in(folder), self.named)
        self.stop()
        raise failure

    def named(self, rank: int) -> str:
        """A worker or a server in words, with the shards it kept."""
        kept = Path(self._folder.name) / f"{KEEPS}-{rank}"
        return keeping(party(rank, self.size), kept.read_text() if kept.exists() else "")

    def _end(self) -> None:
        _signal(self._processes, signal.SIGTERM)
        until = time.monotonic() + GRACE
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
        _signal(self._processes, signal.SIGKILL)
        for process in self._processes:
            process.wait()

    def _listen(self, rank: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._said.put((rank, line.rstrip("\n")))

    def _pass_on(self) -> None:
        with suppress(Empty):
            while True:
                rank, line = self._said.get_nowait()
                self.lines[rank].append(line)
                if self._hear is not None:
                    self._hear(rank, line)


def _signal(processes: Sequence[subprocess.Popen[str]], number: int) -> None:
    """To every process that still runs, and all that it started."""
    for process in processes:
        if process.returncode is None and process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
