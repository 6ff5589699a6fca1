"""`gossamer run`: a script on many workers by torch's elastic launcher, its workers started through our own shim."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.run import config_from_args

from gossamer.engine.freed import large_pages
from gossamer.engine.launch.failure import WorkerFailed, blamed, notes_in
from gossamer.engine.launch.flags import read
from gossamer.engine.launch.guard import Guard
from gossamer.engine.launch.interface import address_of, interface_of, lead_out, own_only, towards
from gossamer.engine.launch.start import LOOPBACK, SHIM
from gossamer.engine.launch.together import Stopped, asked_to, deaths, together
from gossamer.engine.launch.worker import ALOUD, NOTES, PARENT
from gossamer.engine.messages.secret import lent
from gossamer.engine.messages.secret import read as read_key
from gossamer.parts.refusal import Refused

GRACE = 2  # seconds between asking a worker to end and killing it, unless --shutdown-timeout says otherwise


def launch(words: Sequence[str]) -> None:
    """Run the command line to its end; raises what was refused, the first real failure of a worker, or `Stopped`."""
    asked = read(words)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-", ignore_cleanup_errors=True))
        stack.enter_context(_quiet())
        stack.enter_context(_stoppable())
        _key(asked, stack)
        _prepare(asked, folder)
        config, command = _told(asked)
        with Guard(Path(folder), asked.shutdown_timeout) as guard:
            play = together if asked.ours else _play
            failure = play(asked, config, command, guard, Path(folder))
        if failure is not None:
            raise failure


def _play(asked: Namespace, config: LaunchConfig, command: list[Any], guard: Guard, folder: Path) -> Exception | None:
    """Hand over to torch's launcher, where hosts come and go; what went wrong, if anything did."""
    try:
        elastic_launch(config, command[0])(*command[1:])
    except ChildFailedError as error:
        return blamed(deaths(guard, error), notes_in(folder))
    except SignalException as error:
        return asked_to(error.sigval)
    except (ValueError, RuntimeError, AssertionError, TimeoutError) as error:
        if not guard.anybody:
            return Refused(f"run: no worker could be started: {error.__cause__ or error}")
        if not isinstance(error, RendezvousError):
            raise
        return _apart(guard, folder)
    return None


def _prepare(asked: Namespace, folder: str) -> None:
    """Set what torch's launcher and our workers find: settings left open, and the environment."""
    asked.address = "127.0.0.1"
    if asked.standalone:
        asked.rdzv_backend, asked.rdzv_endpoint, asked.rdzv_id = "c10d", "localhost:0", Path(folder).name
        asked.local_addr = asked.local_addr or "127.0.0.1"
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)
    asked.master_port = asked.master_port or 29500
    asked.log_dir = asked.log_dir or folder
    asked.run_path = False  # a script is a script: all start through the shim
    if getattr(asked, "shutdown_timeout", None) is None:
        asked.shutdown_timeout = GRACE
    if asked.hosts > 1:
        _face(asked)
    if asked.workers > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.update({NOTES: folder, PARENT: str(os.getpid()), **large_pages(os.environ)})
    if asked.redirects != "0" or asked.tee != "0":
        os.environ[ALOUD] = "1"
    journal = None if asked.journal is None else str(Path(asked.journal).absolute())
    servers = str(asked.servers) if asked.servers else None
    given = ("STRATEGY", asked.strategy), ("FABRIC", asked.fabric), ("JOURNAL", journal), ("SERVERS", servers)
    for name, value in given:
        if value is not None:
            os.environ[f"GOSSAMER_{name}"] = value


def _face(asked: Namespace) -> None:
    """Let workers meet on the interface that leads to the other hosts; say which it is, unless it was chosen before."""
    address = address_of(asked.interface) if asked.interface else towards(asked.where[0])
    if own_only(asked.where[0]):
        asked.where = lead_out(asked.where, address if asked.interface else None)
    name = asked.interface or (interface_of(address) if address else None)
    asked.address = address or ""
    if address:
        os.environ["GOSSAMER_ADDRESS"] = address
    if asked.interface or ("GLOO_SOCKET_IFNAME" not in os.environ and name):
        os.environ["GLOO_SOCKET_IFNAME"] = str(name)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", str(name))
        print(f"gossamer: network interface {name}, address {address}", file=sys.stderr, flush=True)


def _key(asked: Namespace, stack: ExitStack) -> None:
    """The run's key: the user's, or on one host one that ends with this launcher; workers are told where it lies."""
    path = asked.key_file
    if path is None and asked.hosts == 1:
        path, _ = stack.enter_context(lent())
    asked.key = None if path is None else read_key(path)
    if path is not None:
        os.environ["GOSSAMER_KEY_FILE"] = str(Path(path).absolute())


def _told(asked: Namespace) -> tuple[LaunchConfig, list[Any]]:
    """Torch's configuration, and the command of a worker, through the shim."""
    try:
        config, entry, words = config_from_args(asked)
    except (AssertionError, ValueError, RuntimeError, OSError) as error:
        raise Refused(f"run: {error}") from None
    if asked.no_python:
        return config, [sys.executable, SHIM, "--exec", entry, *words]
    return config, [entry, SHIM, *words[1:]]  # the first is torchrun's -u, under which the lines of workers mix


def _apart(guard: Guard, folder: Path) -> Exception:
    """Why a run ends that has lost its rendezvous: what workers here have noted, else it lies with another host."""
    notes = notes_in(folder)
    if any(pid in notes for pid in guard.deaths):
        return blamed(guard.deaths.values(), notes)
    return Stopped("the launcher of another host has ended, and all workers here were stopped", 1)


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
def _stoppable() -> Iterator[None]:
    """Being asked to end is an exception, also before torch sets its handlers; whatever follows, it is the reason."""

    def ask(number: int, frame: FrameType | None) -> None:
        raise asked_to(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    came, heard = os.pipe()
    for end in (came, heard):
        os.set_blocking(end, False)
    usual = signal.set_wakeup_fd(heard, warn_on_full_buffer=False)  # the number of every signal, whoever handles it
    try:
        yield
    except (WorkerFailed, Stopped):
        raise
    except Exception:
        with suppress(BlockingIOError):
            raise asked_to(os.read(came, 1)[0]) from None
        raise
    finally:
        signal.set_wakeup_fd(usual)
        for number, handler in before.items():
            signal.signal(number, handler)
        for end in (came, heard):
            os.close(end)
