"""How a member asks another one's service: to be shown, to be kept in mind, to trade, or to be told by a hub."""

from __future__ import annotations

from collections import deque

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.lines import ASK, DTYPES, HEADER, HEAR, PULL, PUSH, TAKEN, TELL, TRADE, WIRES, Lines, head
from gossamer.parts.codec import Wire
from gossamer.replica import Answer


class Counter:
    """The other side: how a member asks another one's service."""

    def __init__(self, lines: Lines, *, acknowledged: bool) -> None:
        self._lines, self._acknowledged = lines, acknowledged
        self._answers: dict[tuple[int, int], deque[tuple[Tensor, Tensor]]] = {}

    def pull(self, owner: int, slot: int, like: Tensor) -> tuple[Tensor, int]:
        """Another member's parameters as they are right now, and how many steps it has completed."""
        dist.send(head(PULL, slot), owner, self._lines.asks, ASK)
        header, values = self._hear(owner, slot, like)
        return values, int(header[3])

    def tell(self, target: int, slot: int, step: int, mine: Tensor) -> None:
        """Lay one's parameters into another member's inbox."""
        dist.send(head(TELL, slot, step), target, self._lines.asks, ASK)
        dist.send(mine.contiguous().cpu(), target, self._lines.asks, ASK + 16)
        if self._acknowledged:
            while not self._next(target, mine):
                pass

    def trade(self, partner: int, slot: int, mine: Tensor) -> tuple[Tensor, int]:
        """Make another member the mean of both: what it was before, and how many steps it has completed."""
        dist.send(head(TRADE, slot), partner, self._lines.asks, ASK)
        dist.send(mine.contiguous().cpu(), partner, self._lines.asks, ASK + 16)
        header, values = self._hear(partner, slot, mine)
        return values, int(header[3])

    def push(self, owner: int, slot: int, round: int, wire: Wire, like: Tensor) -> None:
        """Tell a hub; its answer comes when it is due."""
        body = wire.body.contiguous().cpu()
        kind, dtype = WIRES.index(type(wire)), _number(body.dtype)
        dist.send(head(PUSH, slot, round, body.numel(), kind, dtype), owner, self._lines.asks, ASK)
        dist.send(body, owner, self._lines.asks, ASK + 16)
        if self._acknowledged:
            while not self._next(owner, like):
                pass

    def answer(self, owner: int, slot: int, like: Tensor) -> Answer:
        """What the hub said to the earliest push that it has not yet answered."""
        header, values = self._hear(owner, slot, like)
        return Answer(values, int(header[3]), int(header[4]), bool(header[5]))

    def _hear(self, owner: int, slot: int, like: Tensor) -> tuple[Tensor, Tensor]:
        key = (owner, slot)
        while not self._answers.get(key):
            self._next(owner, like)
        return self._answers[key].popleft()

    def _next(self, owner: int, like: Tensor) -> bool:
        """Hear one message; True if it says that a push was taken."""
        header = torch.empty(HEADER, dtype=torch.int64)
        dist.recv(header, owner, self._lines.replies, HEAR)
        if int(header[0]) == TAKEN:
            return True
        values = torch.empty(int(header[2]) // like.element_size(), dtype=like.dtype)
        dist.recv(values, owner, self._lines.replies, HEAR + 16)
        self._answers.setdefault((owner, int(header[1])), deque()).append((header, values.to(like.device)))
        return False


def _number(dtype: torch.dtype) -> int:
    """What stands for a type of number in a header."""
    if dtype not in DTYPES:
        known = ", ".join(str(one).removeprefix("torch.") for one in DTYPES)
        raise TypeError(f"a wire of {dtype} cannot travel to a hub; those that can are {known}")
    return DTYPES.index(dtype)
