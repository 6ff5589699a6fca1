"""Links keep the rate that was asked for, for short messages and long ones, measured with real sockets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gossamer.lab import Lab, bits_per_second, missing
from gossamer.lab.rate import ETHERNET, mtu
from gossamer.parts.refusal import Refused

TALK = [sys.executable, "-S", str(Path(__file__).with_name("talk.py"))]
HEADERS = 52  # bytes of TCP and IP in a packet, time stamps included
CLOSE = 0.05
TRIES = 6  # on a busy machine some are unlucky

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@contextmanager
def listening(lab: Lab, host: int) -> Iterator[str]:
    """The address of a host that hears messages."""
    address = lab.hosts[host].address
    with lab.start(host, [*TALK, "serve", address], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        yield address
        server.kill()


def seconds(lab: Lab, host: int, address: str, count: int, times: int) -> float:
    """How long a message of so many bytes takes from a host to an address."""
    command = [*TALK, "send", address, str(count), str(times)]
    with lab.start(host, command, stdout=subprocess.PIPE, text=True) as client:
        return float(client.communicate(timeout=60)[0])


def due(count: int, rate: str) -> float:
    """Seconds that a message takes at its rate, the headers of its packets included."""
    bits = bits_per_second(rate)
    packet = mtu(bits)
    return count * 8 * (packet + ETHERNET) / (packet - HEADERS) / bits


@pytest.mark.parametrize(
    ("rate", "count", "times"),
    [("1gbit", 1 << 26, 1), ("1gbit", 1 << 20, 10), ("200mbit", 1 << 24, 1), ("200mbit", 1 << 16, 30)],
)
def test_a_message_takes_as_long_as_its_rate_says(rate: str, count: int, times: int) -> None:
    seen = []
    with Lab(hosts=2, rate=rate) as lab, listening(lab, 1) as address:
        for _ in range(TRIES):
            seen.append(seconds(lab, 0, address, count, times) / due(count, rate))
            if abs(seen[-1] - 1) <= CLOSE:
                return
    raise AssertionError(f"seconds as a share of those due: {seen}")
