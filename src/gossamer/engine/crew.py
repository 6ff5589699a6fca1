"""A crew of worker processes on this host: started once, given one job after the other, ended together."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType

import msgspec
import torch
from safetensors.torch import load_file
from torch import Tensor

from gossamer.engine.job import Job
from gossamer.engine.launch.failure import MOMENT, Death, first, notes_in, only_secondary
from gossamer.engine.launch.start import environment, start
from gossamer.parts.refusal import Refused, whole
from gossamer.records import Event, Record, StepRecord, read

_jobs = count()


class CrewFailed(RuntimeError):
    """A worker died; carries what it last said."""


class Result:
    """What a job left behind: the replicas, the hubs' centres, and every member's records."""

    def __init__(self, folder: Path, size: int) -> None:
        members = [load_file(folder / f"member-{rank}.safetensors") for rank in range(size)]
        self.replicas: Tensor = torch.stack([member["parameters"] for member in members])
        self.members: list[dict[str, Tensor]] = members
        self.records: list[Record] = [
            record for rank in range(size) for record in read(folder / f"journal-{rank}.jsonl")
        ]

    @property
    def sent(self) -> int:
        """Bytes all members sent, as they recorded them."""
        return sum(sum(record.sent.values()) for record in self.records if isinstance(record, StepRecord | Event))

    @property
    def steps(self) -> list[StepRecord]:
        """The step records of all members."""
        return [record for record in self.records if isinstance(record, StepRecord)]


class Crew:
    """`size` worker processes joined in one world on loopback, through a store in a private folder.

    Gloo itself listens on loopback, without a key: whoever can reach this host's loopback could connect.
    """

    def __init__(self, size: int, path: Sequence[str] = ()) -> None:
        whole("crew", "size", size, 1, 1024)
        self.size = size
        self._folder = tempfile.TemporaryDirectory(prefix="gossamer-")
        self._said: Queue[tuple[int, str | None]] = Queue()
        self._errors = [deque[str](maxlen=60) for _ in range(size)]
        self._listeners: list[threading.Thread] = []
        self._workers = [self._start(rank, path) for rank in range(size)]
        self._await("ready", 120.0)

    def run(self, timeout: float = 300.0, **fields: object) -> Result:
        """Run one job, given by the fields of `Job` but for its name and folder."""
        name = f"job-{os.getpid()}-{next(_jobs)}"
        folder = Path(self._folder.name) / name
        folder.mkdir()
        job = msgspec.convert({"name": name, "folder": str(folder), **fields}, Job)
        line = msgspec.json.encode(job).decode() + "\n"
        for rank, worker in enumerate(self._workers):
            assert worker.stdin is not None
            try:
                worker.stdin.write(line)
                worker.stdin.flush()
            except OSError:
                raise CrewFailed(f"worker {rank} has ended; start a new crew:\n{self._last(rank)}") from None
        self._await("done", timeout)
        return Result(folder, self.size)

    def close(self) -> None:
        """End all workers, the patient way first."""
        for worker in self._workers:
            with suppress(OSError):  # what a dead worker has not read goes nowhere
                if worker.stdin is not None:
                    worker.stdin.close()
        for worker in self._workers:
            try:
                worker.wait(10.0)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        for listener in self._listeners:
            listener.join()
        for worker in self._workers:
            for pipe in (worker.stdout, worker.stderr):
                if pipe is not None:
                    pipe.close()
        self._folder.cleanup()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._kill()
        self.close()

    def _start(self, rank: int, path: Sequence[str]) -> subprocess.Popen[str]:
        env = environment(rank, self.size, Path(self._folder.name), path)
        worker = start(["-m", "gossamer.engine.worker"], env, subprocess.PIPE, subprocess.PIPE)
        for listen in (self._listen, self._overhear):
            listener = threading.Thread(target=listen, args=(rank, worker), daemon=True)
            listener.start()
            self._listeners.append(listener)
        return worker

    def _listen(self, rank: int, worker: subprocess.Popen[str]) -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            self._said.put((rank, line.rstrip("\n")))
        self._said.put((rank, None))

    def _overhear(self, rank: int, worker: subprocess.Popen[str]) -> None:
        assert worker.stderr is not None
        for line in worker.stderr:
            self._errors[rank].append(line)

    def _await(self, word: str, timeout: float) -> None:
        """Wait for the word of every worker, `timeout` seconds in all; the first that dies ends the crew, with its last
        words."""
        waiting, refused, deadline = set(range(self.size)), "", time.monotonic() + timeout
        while waiting:
            try:
                rank, line = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                self._kill()
                raise CrewFailed(f"workers {sorted(waiting)} did not say {word!r} within {timeout:.0f} s") from None
            if line is None:
                self._workers[rank].wait()
                rank = self._culprit(rank)
                self._kill()
                raise CrewFailed(f"worker {rank} ended with code {self._workers[rank].returncode}:\n{self._last(rank)}")
            if line != word and not line.startswith("refused "):
                self._errors[rank].append(line + "\n")
                continue
            waiting.discard(rank)
            refused = line.removeprefix("refused ") if line.startswith("refused ") else refused
        if refused:
            raise Refused(refused)

    def _culprit(self, heard: int) -> int:
        """Who failed of its own; one that only misses it may be heard of earlier."""
        until, folder = time.monotonic() + MOMENT, Path(self._folder.name)
        while True:
            codes = [(rank, worker.pid, worker.poll()) for rank, worker in enumerate(self._workers)]
            deaths, notes = [Death(rank, pid, code, 0.0) for rank, pid, code in codes if code], notes_in(folder)
            if not only_secondary(deaths, notes) or time.monotonic() > until:
                return first(deaths, notes).rank if deaths else heard
            time.sleep(0.01)

    def _last(self, rank: int) -> str:
        """What a worker said last: its traceback, if it left one."""
        note = notes_in(Path(self._folder.name)).get(self._workers[rank].pid)
        return "".join([*self._errors[rank], note.traceback if note is not None else ""])

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()
