"""Links keep the rate that was asked for, for short messages and long ones, measured with real sockets."""

from __future__ import annotations

import subprocess

import pytest
from tests.lab.talk import TALK, listening, seconds

from gossamer.lab import Lab, bits_per_second, missing
from gossamer.lab.rate import ETHERNET, mtu

HEADERS = 52  # bytes of TCP and IP in a packet, time stamps included
CLOSE = 0.05
LATE = 0.5  # a busy machine wakes a process late, which a short message feels; at half the rate it were 1.0
TRIES = 12  # on a busy machine some are unlucky

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def due(count: int, rate: str) -> float:
    """Seconds that a message takes at its rate, the headers of its packets included."""
    bits = bits_per_second(rate)
    packet = mtu(bits)
    return count * 8 * (packet + ETHERNET) / (packet - HEADERS) / bits


@pytest.mark.parametrize(
    ("rate", "count", "times"),
    [("1gbit", 1 << 26, 1), ("1gbit", 1 << 16, 30), ("200mbit", 1 << 24, 1), ("200mbit", 1 << 16, 30)],
)
def test_a_message_takes_as_long_as_its_rate_says(rate: str, count: int, times: int) -> None:
    seen = list[float]()
    with Lab(hosts=2, rate=rate) as lab, listening(lab, 1) as address:
        while not seen or (min(seen) > 1 + CLOSE and len(seen) < TRIES):
            seen.append(seconds(lab, 0, address, count, times) / due(count, rate))
    early = CLOSE + mtu(bits_per_second(rate)) / count  # after a pause one packet passes at once
    assert 1 - early <= min(seen) <= 1 + LATE, f"seconds as a share of those due: {seen}"


def test_both_directions_are_held_to_the_rate() -> None:
    """Two senders to one host share its link: each takes twice as long as alone."""
    count, rate, pipe = 1 << 21, "200mbit", subprocess.PIPE
    with Lab(hosts=3, rate=rate) as lab, listening(lab, 2) as one, listening(lab, 2, 5001) as two:
        calls = [[*TALK, "send", one, str(count), "3"], [*TALK, "send", two, str(count), "3", "5001"]]
        senders = [lab.start(host, call, stdout=pipe, text=True) for host, call in enumerate(calls)]
        spans = [float(sender.communicate(timeout=200)[0]) for sender in senders]
    assert max(spans) > 1.6 * due(count, rate)
