"""How a member asks another one's service: to be shown, to be kept in mind, to trade, or to be told by a hub."""

from __future__ import annotations

from collections import deque

from torch import Tensor

from gossamer.engine.lines import PULL, PUSH, TAKEN, TELL, TRADE, WIRES, Lines, Said
from gossamer.parts.codec import Wire
from gossamer.replica import Answer


class Counter:
    """The other side: how a member asks another one's service."""

    def __init__(self, lines: Lines, *, acknowledged: bool) -> None:
        self._lines, self._acknowledged = lines, acknowledged
        self._answers: dict[tuple[int, int], deque[Said]] = {}

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
        values, (version, staleness, dropped, _) = self._hear(owner, slot, like)
        return Answer(values, version, staleness, bool(dropped))

    def _hear(self, owner: int, slot: int, like: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        key = (owner, slot)
        while not self._answers.get(key):
            self._next(owner)
        said = self._answers[key].popleft()
        assert said.body is not None
        return said.body.to(like.device), said.numbers

    def _await_taken(self, owner: int) -> None:
        """In a scripted order, go on only when what was said has been taken."""
        while self._acknowledged and not self._next(owner):
            pass

    def _next(self, owner: int) -> bool:
        """Hear one message; True if it says that a push was taken."""
        said = self._lines.heard(owner)
        if said.kind != TAKEN:
            self._answers.setdefault((owner, said.slot), deque()).append(said)
        return said.kind == TAKEN


def flat(tensor: Tensor) -> Tensor:
    """A body that can travel: in the host's memory, in one piece."""
    return tensor.detach().contiguous().cpu()
