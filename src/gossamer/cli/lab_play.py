"""One command on every host of a lab: started together, ended together, and what their links carried meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gossamer.cli.lab_crossed import crossed
from gossamer.cli.lab_lines import Lines
from gossamer.cli.lab_screen import Row, put
from gossamer.lab import Host, Lab

GLANCE = 0.02  # seconds between looks at who has ended
GRACE = 5.0  # seconds between asking a host's command to end and killing it
PORT = "29500"  # nobody else can have it: the host is new


@dataclass(frozen=True)
class Request:
    """What is to be run, and where; `spare` bytes of a host are of no step."""

    command: Sequence[str]
    hosts: int
    rate: str | None
    workers: int | None
    keep_going: bool
    spare: int


def settings(lab: Lab, host: Host, workers: int | None, journal: Path) -> dict[str, str]:
    """What a host's command finds in its environment: what torchrun takes for its flags, and which host this is."""
    found = {
        "PET_NNODES": str(len(lab.hosts)),
        "PET_NODE_RANK": str(host.index),
        "PET_MASTER_ADDR": lab.hosts[0].address,
        "PET_MASTER_PORT": PORT,
        "PET_LOCAL_ADDR": host.address,  # every host has the machine's name, which is none of their addresses
        "GLOO_SOCKET_IFNAME": host.interface,
        "NCCL_SOCKET_IFNAME": host.interface,
        "GOSSAMER_HOST": str(host.index),
        "GOSSAMER_HOSTS": str(len(lab.hosts)),
        "GOSSAMER_JOURNAL": str(journal),
    }
    return found if workers is None else {**found, "PET_NPROC_PER_NODE": str(workers)}


def play(request: Request) -> int:
    """Run the command on every host; the code to leave with."""
    with _journals() as folder, Lab(request.hosts, request.rate) as lab:
        journals = [folder / f"host-{host.index}" for host in lab.hosts]
        began = time.monotonic()
        told = [settings(lab, host, request.workers, where) for host, where in zip(lab.hosts, journals, strict=True)]
        code = _run(lab, request, told)
        seconds = time.monotonic() - began
        recorded = [crossed(where) for where in journals]
        rows = [Row(*each) for each in zip(lab.hosts, lab.traffic(), recorded, strict=True)]
    agreed = put(rows, lab.bits, seconds, request.spare, judged=code == 0)
    return code if code or agreed else 1


def _run(lab: Lab, request: Request, told: Sequence[Mapping[str, str]]) -> int:
    """The code of the first host to fail, once all have ended."""
    pipe = subprocess.PIPE
    commands = [
        lab.start(index, request.command, env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
        for index, env in enumerate(told)
    ]
    with Lines(commands):
        try:
            return _watch(commands, request.keep_going)
        finally:
            _end(commands)


def _watch(commands: Sequence[subprocess.Popen[bytes]], keep_going: bool) -> int:
    """Wait for all, or for the first failure unless others are to go on; its code."""
    first, running = 0, list(commands)
    while running and (keep_going or not first):
        for command in [each for each in running if each.poll() is not None]:
            running.remove(command)
            first = first or _code(command.returncode)
        time.sleep(GLANCE if running else 0)
    return first


def _code(code: int) -> int:
    return 128 - code if code < 0 else code


def _end(commands: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask who still runs to end, and wait a little; who does not is killed when the lab closes."""
    for command in commands:
        if command.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGTERM)
    late = time.monotonic() + GRACE
    while time.monotonic() < late and any(command.poll() is None for command in commands):
        time.sleep(GLANCE)


@contextmanager
def _journals() -> Iterator[Path]:
    """The folder for journals, one inside for each host as each has a disk of its own; ours goes away with us."""
    if named := os.environ.get("GOSSAMER_JOURNAL"):
        yield Path(named).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="gossamer-lab-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
