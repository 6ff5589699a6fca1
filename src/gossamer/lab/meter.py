"""Whether the bytes on the links are the bytes that were predicted. Reads counters, opens nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WITHIN = 0.10  # of what was predicted: headers of packets, answers of receivers, what hosts say to stay in touch
SPARE = 65_536  # bytes beyond that: meeting, hand-shakes, address requests


class Disagreement(AssertionError):
    """The links carried something else than was predicted; says what, host by host."""


@dataclass(frozen=True)
class Reading:
    """What a host's link carried, and what it should have: agreed if within a share and some spare bytes."""

    host: int
    predicted: float
    sent: int

    def agreed(self, within: float, spare: float) -> bool:
        """|sent - predicted| <= within x predicted + spare."""
        return abs(self.sent - self.predicted) <= within * self.predicted + spare


def compare(predicted: Sequence[float], sent: Sequence[int], within: float, spare: float) -> None:
    """Raise with a table of all hosts unless each one's bytes agree."""
    if len(predicted) != len(sent):
        raise ValueError(f"metered: {len(predicted)} predictions for {len(sent)} hosts")
    readings = [Reading(host, *pair) for host, pair in enumerate(zip(predicted, sent, strict=True))]
    if all(reading.agreed(within, spare) for reading in readings):
        return
    table = [f"{'host':>4}  {'predicted':>15}  {'sent':>15}  {'sent/predicted':>14}"]
    table += [_row(reading, reading.agreed(within, spare)) for reading in readings]
    bound = f"bytes on the links are not the predicted ones within {within:.0%} and {spare:,.0f} bytes"
    raise Disagreement("\n".join([bound, *table]))


def _row(reading: Reading, agreed: bool) -> str:
    share = f"{reading.sent / reading.predicted:.3f}" if reading.predicted else "-"
    mark = "" if agreed else "  <- disagrees"
    return f"{reading.host:>4}  {reading.predicted:>15,.0f}  {reading.sent:>15,}  {share:>14}{mark}"
