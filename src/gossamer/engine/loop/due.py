"""Which gradients leave in a step, and how; exchanges come and go with the spells of a strategy. Knows no numbers."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.parts.payload import Payload
from gossamer.parts.topology import Complete
from gossamer.strategy import Exchange


@dataclass(frozen=True)
class Due:
    """Which gradients leave in a step, and how."""

    live: tuple[int, ...]  # exchanges of gradients among members
    cut: tuple[int, ...]  # exchanges that leave bucket by bucket
    places: list[int]  # tensors whose gradients are mixed among members
    home: dict[int, tuple[int, int]]  # of those in buckets, which one
    rest: list[int]  # the others, which leave when all are there
    unseen: list[int]  # tensors whose gradients nobody else sees
    last: int  # the exchange whose last bucket is the last to leave
    told: bool  # whether members know of each other what was sick or used
    whole: bool  # whether buckets hold every tensor


def among_members(exchange: Exchange) -> bool:
    """Whether members mix gradients, and no hub steps with them."""
    return exchange.payload is Payload.GRADIENTS and not exchange.hub


def among_all(exchange: Exchange) -> bool:
    """Whether every member hears of every other's gradients in the step they are made in."""
    plain = isinstance(exchange.topology, Complete) and not exchange.synchrony.delay
    return among_members(exchange) and plain


def minds_scale(exchange: Exchange) -> bool:
    """Whether members mix gradients so that those of a scaled loss come to something else once the scale changes."""
    return among_members(exchange) and bool(exchange.synchrony.delay or not exchange.codec.proportional)
