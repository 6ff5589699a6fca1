"""Looks at the truth: what a lossy exchange came to, beside what it would have been without loss. Sends nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gossamer.parts.payload import Payload
from gossamer.records import Truth
from gossamer.replica.desk import Desk
from gossamer.strategy import Exchange

SOME = 1 << 20  # elements that are widened at a time
NOTHING = 1e-6  # of one's own length: what is shorter is rounding


class Looks:
    """One member's looks, one in `every` steps at each lossy exchange; none where that is 0.

    All members look at the same exchanges, since the exact average takes a wire of everybody.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.every, self.found = 0, list[Truth]()
        self._names = names
        self._buckets: dict[int, tuple[int, int]] = {}  # by slot, the last step that was looked at, and its last bucket

    def due(self, exchange: Exchange, step: int) -> bool:
        """Whether this exchange is the one in `every` steps that is looked at."""
        return bool(self.every) and exchange.codec.compresses and step % self.every < exchange.synchrony.every

    def look(self, slot: int, step: int, desk: Desk, seen: tuple[Tensor, Tensor, Tensor]) -> None:
        """Compare what it came to with what it should have: (mine, mixed, exact); of parameters, how far both move.

        Where that is nothing, beside one's own, nothing is compared: it is as it should be.
        """
        mine, mixed, exact = seen
        last, bucket = self._buckets.get(slot, (step, -1))
        self._buckets[slot] = step, (bucket + 1 if last == step else 0)
        least = NOTHING * dot(mine, mine) ** 0.5
        if desk.exchange.payload is Payload.PARAMETERS:
            mixed, exact = mixed - mine, exact - mine
        mixed = mixed.to(exact.dtype)
        apart = [(cosine(a, b), place) for a, b, place in self._parts(desk, mixed, exact)]
        lowest, place = min(apart, default=(1.0, 0))
        held = desk.memory.get(desk.exchange.codec.unsent[0]) if desk.exchange.codec.unsent else None
        long, number, keeps = dot(exact, exact) ** 0.5, self._buckets[slot][1], desk.exchange.codec.remembers
        if long <= least:
            self.found.append(Truth(slot, number, 1.0, 0.0, 0.0, keeps, self._names[place], 1.0))
            return
        bias = dot(mixed, exact) / long**2 - 1.0
        residual = 0.0 if held is None else dot(held, held) ** 0.5 / long
        self.found.append(Truth(slot, number, cosine(mixed, exact), bias, residual, keeps, self._names[place], lowest))

    def told(self) -> list[Truth]:
        """What was found since the last time."""
        found, self.found = self.found, []
        return found

    def _parts(self, desk: Desk, mixed: Tensor, exact: Tensor) -> list[tuple[Tensor, Tensor, int]]:
        """Both, tensor by tensor, as far as they are cut into tensors at all (a mass is not)."""
        if len(exact) != desk.chosen.count:
            return []
        both = zip(desk.chosen.views(mixed), desk.chosen.views(exact), strict=True)
        return [(a.reshape(-1), b.reshape(-1), place) for (a, b), place in zip(both, desk.chosen.places, strict=True)]


def cosine(a: Tensor, b: Tensor) -> float:
    """Of the angle between two vectors; 1 where both are zero, 0 where one is."""
    long = (dot(a, a) * dot(b, b)) ** 0.5
    return dot(a, b) / long if long else float(not a.any() and not b.any())


def dot(a: Tensor, b: Tensor) -> float:
    """Of two vectors, added up in 64 bits, some at a time: in 32 bits millions of them are off by half a percent."""
    pairs = ((a[start : start + SOME], b[start : start + SOME]) for start in range(0, len(a), SOME))
    return sum(float(torch.dot(one.double(), other.double())) for one, other in pairs)


def widened(mine: Tensor) -> Tensor:
    """A copy in 32 bits at least, to be averaged exactly."""
    return mine.to(torch.promote_types(mine.dtype, torch.float32), copy=True)
