"""`gossamer run`: a script on many workers by torch's elastic launcher, its workers started through our own shim."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.run import config_from_args

from gossamer.engine.launch.failure import Death, blamed, notes_in
from gossamer.engine.launch.flags import read
from gossamer.engine.launch.guard import Guard
from gossamer.engine.launch.start import LOOPBACK, SHIM
from gossamer.engine.launch.worker import NOTES, PARENT
from gossamer.parts.refusal import Refused

GRACE = 2  # seconds between asking a worker to end and killing it, unless --shutdown-timeout says otherwise


class Stopped(Exception):
    """The launcher was asked to end, by this signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


def launch(words: Sequence[str]) -> None:
    """Run the command line to its end; raises what was refused, the first real failure of a worker, or `Stopped`."""
    asked = read(words)
    with tempfile.TemporaryDirectory(prefix="gossamer-", ignore_cleanup_errors=True) as folder, _quiet(), _signals():
        _prepare(asked, folder)
        config, command = _told(asked)
        with Guard(Path(folder), asked.shutdown_timeout) as guard:
            try:
                elastic_launch(config, command[0])(*command[1:])
            except ChildFailedError as error:
                deaths = [_death(guard, rank, failure) for rank, failure in error.failures.items()]
                failure = blamed(deaths, notes_in(Path(folder)))
            except SignalException as error:
                raise Stopped(error.sigval) from None
            except (ValueError, RuntimeError, AssertionError, TimeoutError) as error:
                if guard.anybody:
                    raise
                raise Refused(f"run: no worker could be started: {error}") from None
            else:
                return
        raise failure


def _prepare(asked: Namespace, folder: str) -> None:
    """Set what torch's launcher and our workers find: settings left open, and the environment."""
    if asked.standalone:
        asked.rdzv_backend, asked.rdzv_endpoint, asked.rdzv_id = "c10d", "localhost:0", Path(folder).name
        asked.local_addr = asked.local_addr or "127.0.0.1"
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)
    asked.master_port = asked.master_port or 29500
    asked.log_dir = asked.log_dir or folder
    asked.run_path = False  # a script is a script: all start through the shim
    if getattr(asked, "shutdown_timeout", None) is None:
        asked.shutdown_timeout = GRACE
    if asked.workers > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.update({NOTES: folder, PARENT: str(os.getpid())})
    journal = None if asked.journal is None else str(Path(asked.journal).absolute())
    for name, value in (("STRATEGY", asked.strategy), ("FABRIC", asked.fabric), ("JOURNAL", journal)):
        if value is not None:
            os.environ[f"GOSSAMER_{name}"] = value


def _told(asked: Namespace) -> tuple[LaunchConfig, list[Any]]:
    """Torch's configuration, and the command of a worker, through the shim."""
    try:
        config, entry, words = config_from_args(asked)
    except (AssertionError, ValueError, RuntimeError, OSError) as error:
        raise Refused(f"run: {error}") from None
    if asked.no_python:
        return config, [sys.executable, "-u", SHIM, "--exec", entry, *words]
    return config, [entry, "-u", SHIM, *words[1:]]  # the first is torchrun's own -u


def _death(guard: Guard, rank: int, failure: Any) -> Death:
    seen = guard.deaths.get(failure.pid)
    return Death(rank, failure.pid, failure.exitcode, float(failure.timestamp) if seen is None else seen.time)


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch's launcher says nothing of its own, unless LOGLEVEL asks for it: a worker's traceback is to be last."""
    before = logging.root.manager.disable
    if "LOGLEVEL" not in os.environ:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _signals() -> Iterator[None]:
    """Being asked to end is an exception, also before torch has set its own handlers."""

    def ask(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
