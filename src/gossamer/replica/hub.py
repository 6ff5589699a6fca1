"""A hub is a member with a shorter part to play: it is told, it sums up, it answers. Knows no network and no clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gossamer.parts.codec import Block, Wire, decoded
from gossamer.parts.payload import Payload
from gossamer.parts.synchrony import Late
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.replica.layout import Chosen
from gossamer.replica.replica import Answer
from gossamer.strategy import Exchange


@dataclass
class _Waiting:
    member: int
    round: int
    staleness: int
    dropped: bool


@dataclass
class Hub:
    """The centre of one slot. `push` takes one contribution and returns the answers that it sets free."""

    exchange: Exchange
    chosen: Chosen
    centre: Tensor
    world: World
    optimizer: Optimizer
    version: int = 0
    dropped: int = 0
    memory: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.centre = self.centre.clone()
        self._before = self.centre
        self._views = self.chosen.views(self.centre)
        self._steps = self.optimizer.build(self._views) if self.exchange.updates_at_hub else None
        self._told: list[tuple[int, int, Tensor]] = []  # (round, member, value), in order of arrival
        self._pushes = dict.fromkeys(range(self.world.size), 0)
        self._waiting: list[_Waiting] = []

    def push(self, member: int, round: int, wire: Wire) -> list[tuple[int, Answer]]:
        """Take what `member` says about `round`; answer everybody who need not wait any longer."""
        ex = self.exchange
        late = ex.synchrony.late is Late.DROP and round < self.version
        staleness = max(0, self.version - round)
        self._pushes[member] += 1
        self.dropped += late
        if not late:
            value = decoded(ex.codec, wire, Block(self.centre, self.chosen.shapes))
            self._told.append((round, member, value))
        self._waiting.append(_Waiting(member, round, staleness, late))
        self._close_rounds()
        return self.free()

    def leave(self, member: int) -> list[tuple[int, Answer]]:
        """A member is gone: nobody waits for it any longer."""
        self._pushes.pop(member, None)
        self._waiting = [w for w in self._waiting if w.member != member]
        self._close_rounds()
        return self.free()

    def free(self) -> list[tuple[int, Answer]]:
        """The answers that are due, in the order their pushes came."""
        ready = [w for w in self._waiting if self._may_go(w)]
        self._waiting = [w for w in self._waiting if w not in ready]
        values = self._before if self.exchange.merge.answers_with_before else self.centre
        copy = values.clone() if ready else values
        return [(w.member, Answer(copy, self.version, w.staleness, w.dropped)) for w in ready]

    def _may_go(self, waiting: _Waiting) -> bool:
        bound = self.exchange.synchrony.staleness
        if bound is None:
            return True
        if bound == 0:
            return self.version > waiting.round
        slowest = min(self._pushes.values(), default=0)
        return self._pushes.get(waiting.member, 0) - slowest <= bound

    def _close_rounds(self) -> None:
        """Close rounds as long as enough is there; what was said about a later round waits for it."""
        enough = max(1, min(self.exchange.synchrony.closes(self.world.size), len(self._pushes)))
        while len(now := [said for said in self._told if said[0] <= self.version]) >= enough:
            self._told = [said for said in self._told if said[0] > self.version]
            self._close([value for _, _, value in sorted(now, key=lambda said: said[1])])

    def _close(self, values: list[Tensor]) -> None:
        """Sum a round up, in member order so that every run adds alike, and step."""
        mean = torch.stack(values).mean(0)
        share = len(values) / self.world.size
        self._before = self.centre.clone()
        made = self.exchange.merge.hub(self.centre, mean, self.memory, share)
        match self.exchange.payload:
            case Payload.GRADIENTS:
                self._step(made)
            case Payload.DELTAS:
                self.centre.add_(made)
            case Payload.PARAMETERS:
                self.centre.copy_(made)
        self.version += 1

    def _step(self, gradient: Tensor) -> None:
        assert self._steps is not None
        for view, slope in zip(self._views, self.chosen.views(gradient), strict=True):
            view.grad = slope
        self._steps.step()
