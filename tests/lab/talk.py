"""Hosts of a lab that talk: one hears messages, another times them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.lab import Lab

TALK = [sys.executable, "-S", str(Path(__file__).with_name("caller.py"))]


@contextmanager
def listening(lab: Lab, host: int, port: int = 5000) -> Iterator[str]:
    """The address of a host that hears messages."""
    address = lab.hosts[host].address
    with lab.start(host, [*TALK, "serve", address, str(port)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        yield address
        server.kill()


def seconds(lab: Lab, host: int, address: str, count: int, times: int) -> float:
    """How long a message of so many bytes takes from a host to an address."""
    command = [*TALK, "send", address, str(count), str(times)]
    with lab.start(host, command, stdout=subprocess.PIPE, text=True) as client:
        return float(client.communicate(timeout=200)[0])
