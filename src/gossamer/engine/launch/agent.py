"""Torch's agent for the workers of one host, at our own meeting: it hears what other launchers say, and may go on.

Where the strategy survives a loss, those that are left are left alone. What a failure means is told elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from torch.distributed.launcher.api import LaunchConfig

from gossamer.engine.launch import slate
from gossamer.engine.launch.failure import ended, notes_in
from gossamer.engine.launch.meeting import Meeting
from gossamer.engine.launch.servers import Servers
from gossamer.engine.launch.ties import Ties

LOOK = 0.5  # seconds


class Elsewhere(Exception):
    """Workers here end for what happened on another host."""


class Handler(RendezvousHandler):
    """Our meeting, as torch's agent asks for it; a later attempt gets a store of its own."""

    def __init__(self, run: str, address: str, first: Meeting, again: Callable[[], Meeting]) -> None:
        self._run, self._address, self._next, self._again = run, address, first, again
        self._kept: list[Meeting] = []

    def next_rendezvous(self) -> RendezvousInfo:
        """Where the workers of this attempt meet."""
        meeting = self._again() if self._kept else self._next
        self._kept.append(meeting)
        where = RendezvousStoreInfo(self._address, meeting.port)
        return RendezvousInfo(meeting.store, meeting.number, len(meeting.hosts), where)

    @property
    def where(self) -> tuple[str, int]:
        """Where the workers of the last attempt meet."""
        return self._address, self._kept[-1].port

    @property
    def use_agent_store(self) -> bool:
        """The store lives in the launcher: no worker takes it along when it dies."""
        return True

    def get_backend(self) -> str:
        return "gossamer"

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        """Nobody joins later."""

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._run

    def shutdown(self) -> bool:
        return True


class Agent(LocalElasticAgent):
    """Starts and watches the workers of this host."""

    def __init__(
        self,
        config: LaunchConfig,
        command: list[Any],
        handler: Handler,
        ties: Ties,
        folder: Path,
        servers: Servers,
    ) -> None:
        alike = {each.name for each in fields(WorkerSpec)} & {each.name for each in fields(LaunchConfig)}
        spec = WorkerSpec(
            local_world_size=config.nproc_per_node,
            entrypoint=command[0],
            args=tuple(command[1:]),
            rdzv_handler=handler,
            **{name: getattr(config, name) for name in alike},
        )
        given = ("logs_specs", "start_method", "log_line_prefix_template", "shutdown_timeout")
        super().__init__(spec, **{name: getattr(config, name) for name in given if hasattr(config, name)})
        self._ties, self._folder, self._fallen = ties, folder, dict[int, ProcessFailure]()
        self._servers, self._handler = servers, handler

    def perform(self) -> None:
        """Run all to their end; raises the failures of workers here, or `Elsewhere`."""
        result = self.run()
        if result.is_failed() or self.nobody_left:
            raise ChildFailedError(str(self._worker_group.spec.entrypoint), result.failures or self._fallen)

    def _start_workers(self, worker_group: Any) -> dict[int, Any]:
        spec = worker_group.spec
        self._servers.start(*self._handler.where, attempt=spec.max_restarts - self._remaining_restarts)
        started: dict[int, Any] = super()._start_workers(worker_group)
        return started

    def _monitor_workers(self, worker_group: Any) -> RunResult:
        self._look_elsewhere()
        if (fallen := self._servers.fallen()) is not None:
            rank, pid, code = fallen
            raise ChildFailedError("a server", {rank: ProcessFailure(0, pid, code, os.devnull)})
        if self._ties.survives:
            return self._survivors(worker_group)
        result: RunResult = super()._monitor_workers(worker_group)
        return result

    def _survivors(self, worker_group: Any) -> RunResult:
        """How those are that are left; a death is told once, and is none of the others' end."""
        context: Any = self._pcontext
        codes = {local: handler.proc.poll() for local, handler in context.subprocess_handlers.items()}
        for local, code in codes.items():
            rank = worker_group.workers[local].global_rank
            if code and rank not in self._fallen:
                files, pid = context.error_files, context.subprocess_handlers[local].proc.pid
                self._fallen[rank] = ProcessFailure(local, pid, code, files[local])
                self._tell(rank, code, pid)
        if None in codes.values():
            return RunResult(WorkerState.HEALTHY)
        if 0 in codes.values() or len(self._ties.meeting.hosts) > 1:  # those of other hosts may go on
            return RunResult(WorkerState.SUCCEEDED, {each.global_rank: None for each in worker_group.workers})
        return RunResult(WorkerState.FAILED, failures=self._fallen)

    def _tell(self, rank: int, code: int, pid: int) -> None:
        """Who is gone, how, and in which step."""
        host, note = self._ties.meeting.named(self._ties.meeting.number), notes_in(self._folder).get(pid)
        step = slate.read(self._folder, rank)
        when = "" if step is None else f" in step {step}"
        print(f"gossamer: rank {rank} on {host} {ended(code)}{when}; the others go on", file=sys.stderr, flush=True)
        if note is not None and (why := note.traceback or note.message):  # nobody else shows it
            print(why.rstrip("\n"), file=sys.stderr, flush=True)

    def _exit_barrier(self) -> None:
        """Stay until all hosts are done: the store lives here, or is needed to hear that another failed."""
        while not self._ties.done(LOOK):
            self._look_elsewhere()

    @property
    def nobody_left(self) -> bool:
        """Whether none of the workers here has ended well, though the others could go on."""
        return len(self._fallen) == len(self._worker_group.workers)

    def _look_elsewhere(self) -> None:
        if self._ties.cause is not None:
            raise Elsewhere
        if (lost := self._ties.lost()) is not None:
            if not self._ties.let_go():
                raise Elsewhere(lost)
            print(f"gossamer: {lost}; the others go on", file=sys.stderr, flush=True)
