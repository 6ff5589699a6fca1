"""The rate of a link: how it is written, and the token buckets that hold a link to it. Starts nothing."""

from __future__ import annotations

import re

from gossamer.parts.refusal import Refused

MTU = 9000  # bytes of a packet, as between the hosts of a cluster: larger ones spare the cores that all hosts share
FRAME = MTU + 14  # bytes that a packet of this size counts for in a bucket
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


def shaper(device: str, bits: int) -> str:
    """The line for `tc` that holds what leaves a device to its rate.

    Two buckets: the deep one keeps the rate over a long message though timers are late, the shallow one keeps a short
    message from passing at no cost after a pause.
    """
    deep = max(4 * FRAME, round(bits / 8 * 0.002))
    return f"qdisc replace dev {device} root tbf rate {bits}bit burst {deep} latency 200ms"
