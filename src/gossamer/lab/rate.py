"""The rate of a link: how it is written, and the token buckets that hold a link to it. Starts nothing."""

from __future__ import annotations

import re

from gossamer.parts.refusal import Refused

ETHERNET = 14  # bytes of a frame around a packet
SMALLEST, LARGEST = 1500, 18000  # bytes of a packet
# Seconds that a packet takes. Each is let go by a timer, which is late: packets of 72 us left four hosts that all sent
# round a ring, by plain sockets, 0.81 to 0.92 of their rate, and these 0.93 to 1.0. Larger ones keep it better still,
# but after a pause one packet passes at once, and a short message is not much more than that.
PACKET = 144e-6
LATE = 40e-6  # seconds by which the kernel's timers are late, about
DEEP = 4e-3  # seconds of the rate in the deep bucket
PEAK = 1.04  # how much faster than its rate a link may be while it makes up for lateness
QUEUE = 1 << 25  # bytes that may wait for a link: enough to lose none when all send to one
EXAMPLES = "1gbit, 100mbit or 500kbit"
SLOWEST, FASTEST = 64_000, 100_000_000_000  # bits a second
_BITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def bits_per_second(text: str) -> int:
    """`100mbit` as a number; refused is what is no rate, and what no link here could keep."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?bit)(?:/s|ps)?\s*", text, re.IGNORECASE)
    if found is None:
        raise Refused(f"lab: {text!r} is no rate", EXAMPLES)
    bits = round(float(found[1]) * _BITS[found[2].lower()])
    if not SLOWEST <= bits <= FASTEST:
        raise Refused(f"lab: a link's rate must lie from 64kbit to 100gbit, not {text.strip()}", EXAMPLES)
    return bits


def mtu(bits: int | None) -> int:
    """The largest packet of a link, in bytes."""
    return LARGEST if bits is None else min(LARGEST, max(SMALLEST, round(bits / 8 * PACKET)))


def shaper(device: str, bits: int) -> str:
    """The line for `tc` that holds what leaves a device to its rate.

    Two buckets: the deep one keeps the rate of a long message though timers are late, the shallow one, which is
    filled a little faster, keeps a short message from passing for nothing after a pause.
    """
    frame, second = mtu(bits) + ETHERNET, bits / 8
    shallow = frame + max(512, round(second * LATE))
    deep = max(2 * shallow, round(second * DEEP))
    buckets = f"rate {bits}bit burst {deep} peakrate {round(bits * PEAK)}bit mtu {shallow}"
    return f"qdisc replace dev {device} root tbf {buckets} limit {QUEUE}"
