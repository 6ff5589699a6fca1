"""Bytes, rates and seconds as people write and read them. Inside, everything is seconds and bytes."""

from __future__ import annotations

import re
from math import isfinite

from gossamer.parts.refusal import Refused

_TENS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TWOS = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_PER_SECOND = {"": 1.0, "s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6}
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"


def rate(text: str) -> float:
    """Bytes a second: `1Gbit`, `100Mbit/s`, `10Gbps`, `125MB/s`. A bare number is refused: of what?"""
    number, unit = _split("link", text, "1Gbit, 100Mbit/s or 125MB/s")
    if not unit and isfinite(number) and number > 0:
        raise Refused(f"link: {text!r} does not say of what", "1Gbit, 100Mbit/s or 125MB/s")
    word = re.sub(r"(/s|ps)$", "", unit)
    bits = word.endswith(("bit", "b"))
    scale = _scale(word.removesuffix("bit") if word.endswith("bit") else word[:-1] if word[-1:] in "bB" else word)
    if scale is None:
        raise Refused(f"link: {text!r} has no unit I know", "1Gbit, 100Mbit/s or 125MB/s")
    return number * scale / (8 if bits else 1)


def link(text: str) -> float:
    """The rate of a link that carries something: from 1 to 1e15 bytes a second."""
    found = rate(text)
    if not 1.0 <= found <= 1e15:
        raise Refused(f"link: the rate must lie from 1 to 1e15 bytes a second, not {text.strip()}", "1Gbit or 8bit/s")
    return found


def nbytes(text: str) -> int:
    """Bytes: `100MB`, `1GiB`, `4e6`."""
    number, unit = _split("bytes", text, "100MB, 1GiB or 4e6")
    scale = _scale(unit.removesuffix("B"))
    if scale is None:
        raise Refused(f"bytes: {text!r} has no unit I know", "100MB, 1GiB or 4e6")
    if not isfinite(number):
        raise Refused(f"bytes: {text!r} is not a size", "100MB")
    return int(number * scale)


def seconds(owner: str, text: str) -> float:
    """Seconds: `0.01`, `10ms`, `100us`."""
    number, unit = _split(owner, text, "0.01, 10ms or 100us")
    if unit not in _PER_SECOND:
        raise Refused(f"{owner}: {text!r} has no unit I know", "0.01, 10ms or 100us")
    return number / _PER_SECOND[unit]


def _split(owner: str, text: str, nearest: str) -> tuple[float, str]:
    found = re.fullmatch(_NUMBER + r"\s*([a-zA-Zµ/]*)", text.strip())
    if found is None:
        raise Refused(f"{owner}: {text!r} is not a number with a unit", nearest)
    return float(found[1]), found[2]


def _scale(prefix: str) -> float | None:
    return {**_TENS, **_TWOS}.get(prefix.lower())


def told_bytes(count: float) -> str:
    """A count of bytes in three digits: `175 MB`."""
    return _told(count, "B")


def told_rate(rate: float) -> str:
    """A link rate in bits, as links are sold: `1 Gbit/s`."""
    return _told(rate * 8, "bit/s")


def _told(count: float, unit: str) -> str:
    size, prefixes = float(count), ["", "k", "M", "G", "T", "P"]
    while abs(size) >= 999.5 and len(prefixes) > 1:
        size, prefixes = size / 1000, prefixes[1:]
    return f"{size:.3g} {prefixes[0]}{unit}"


def told_seconds(span: float) -> str:
    """Seconds in three digits, in the unit that suits: `12.3 s`, `450 ms`, `80 µs`."""
    if span >= 1 or span == 0:
        return f"{span:.0f} s" if span >= 999.5 else f"{span:.3g} s"
    return f"{span * 1e3:.3g} ms" if span >= 1e-3 else f"{span * 1e6:.3g} µs"


def told_span(span: float) -> str:
    """A span that may be long, in the unit that suits: `12.3 s`, `45 min`, `3.2 h`, `12 days`."""
    for unit, length, most in (("min", 60.0, 120.0), ("h", 3600.0, 72.0), ("days", 86400.0, float("inf"))):
        if span >= 120.0 and span / length < most:
            return f"{span / length:,.0f} {unit}" if span / length >= 99.5 else f"{span / length:.3g} {unit}"
    return told_seconds(span)


def told_share(share: float, target: float) -> str:
    """A share in three digits, or in as many more as it takes to see on which side of the target it lies."""
    for digits in range(3, 9):
        told = f"{share:.{digits}f}"
        if (float(told) >= target) == (share >= target):
            return told
    return f"{share!r}"


def told_workers(count: int) -> str:
    """So many workers."""
    return f"{count:,} worker{'s' * (count != 1)}"


def told_small(share: float) -> str:
    """A share in two digits; what only rounding left is 0."""
    return "0" if abs(share) < 1e-6 else f"{share:.2g}"
