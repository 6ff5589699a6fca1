"""How a member asks another one's service: to be shown, to be kept in mind, to trade, or to be told by a hub."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

from gossamer.engine.lines import (
    ANSWER,
    GO_ON,
    LAY,
    PULL,
    PUSH,
    RATES,
    SHOW,
    SHOWN,
    STATE,
    TAKEN,
    TELL,
    TRADE,
    WIRES,
    Lines,
    Said,
)
from gossamer.parts.codec import Wire
from gossamer.replica import Answer


class Counter:
    """The other side: how a member asks another one's service."""

    def __init__(self, lines: Lines, *, acknowledged: bool) -> None:
        self._lines, self._acknowledged = lines, acknowledged
        self._answers: dict[tuple[int, int, int], deque[Said]] = {}  # by owner, slot, and kind

    def pull(self, owner: int, slot: int, like: Tensor) -> tuple[Tensor, int]:
        """Another member's parameters as they are right now, and how many steps it has completed."""
        self._lines.ask(owner, PULL, slot)
        values, (done, *_) = self._hear(owner, slot, like)
        return values, done

    def tell(self, target: int, slot: int, step: int, mine: Tensor) -> None:
        """Lay one's parameters into another member's inbox."""
        self._lines.ask(target, TELL, slot, step, body=flat(mine))
        self._await_taken(target)

    def trade(self, partner: int, slot: int, mine: Tensor) -> tuple[Tensor, int]:
        """Make another member the mean of both: what it was before, and how many steps it has completed."""
        self._lines.ask(partner, TRADE, slot, body=flat(mine))
        values, (done, *_) = self._hear(partner, slot, mine)
        return values, done

    def push(self, owner: int, slot: int, round: int, wire: Wire) -> None:
        """Tell a hub; its answer comes when it is due."""
        self._lines.ask(owner, PUSH, slot, round, WIRES.index(type(wire)), body=flat(wire.body))
        self._await_taken(owner)

    def answer(self, owner: int, slot: int, like: Tensor) -> Answer:
        """What the hub said to the earliest push that it has not yet answered."""
        values, (version, staleness, dropped, spoilt) = self._hear(owner, slot, like)
        return Answer(values, version, staleness, bool(dropped), bool(spoilt))

    def lay(self, owner: int, slot: int, values: Tensor) -> None:
        """Let a server's shard be these values, with nothing remembered."""
        self._lines.ask(owner, LAY, slot, body=flat(values))
        self._taken(owner)

    def show(self, owner: int, slot: int, like: Tensor) -> Tensor:
        """A server's shard as it is now."""
        self._lines.ask(owner, SHOW, slot)
        return self._hear(owner, slot, like, SHOWN)[0]

    def rates(self, owner: int, told: bytes) -> None:
        """Tell a server the settings of this member's optimizer; what is pushed from now on is stepped with by them."""
        self._lines.ask(owner, RATES, body=as_body(told))

    def state(self, owner: int, slot: int) -> bytes:
        """All that must outlive a server's shard."""
        self._lines.ask(owner, STATE, slot)
        return as_bytes(self._hear(owner, slot, torch.empty(0), SHOWN)[0])

    def go_on(self, owner: int, slot: int, state: bytes) -> None:
        """Let a server's shard go on from a state."""
        self._lines.ask(owner, GO_ON, slot, body=as_body(state))
        self._taken(owner)

    def _hear(self, owner: int, slot: int, like: Tensor, kind: int = ANSWER) -> tuple[Tensor, tuple[int, ...]]:
        key = (owner, slot, kind)
        while not self._answers.get(key):
            self._next(owner)
        said = self._answers[key].popleft()
        assert said.body is not None
        return said.body.to(like.device), said.numbers

    def _await_taken(self, owner: int) -> None:
        """In a scripted order, go on only when what was said has been taken."""
        if self._acknowledged:
            self._taken(owner)

    def _taken(self, owner: int) -> None:
        """Go on when what was said last has been taken."""
        while not self._next(owner):
            pass

    def _next(self, owner: int) -> bool:
        """Hear one message; True if it says that a push was taken."""
        said = self._lines.heard(owner)
        if said.kind != TAKEN:
            self._answers.setdefault((owner, said.slot, said.kind), deque()).append(said)
        return said.kind == TAKEN


def flat(tensor: Tensor) -> Tensor:
    """A body that can travel: in the host's memory, in one piece."""
    return tensor.detach().contiguous().cpu()


def as_body(told: bytes) -> Tensor:
    """Bytes as a body."""
    return torch.frombuffer(bytearray(told), dtype=torch.uint8)


def as_bytes(body: Tensor) -> bytes:
    """The inverse."""
    return bytes(body.numpy().data)
