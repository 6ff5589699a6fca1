"""A hub is a member with a shorter part to play: it is told, it sums up, it answers. Knows no network and no clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from gossamer.parts.codec import Block, Wire, decoded
from gossamer.parts.merge import Told
from gossamer.parts.payload import Payload
from gossamer.parts.synchrony import Late
from gossamer.parts.world import World
from gossamer.replica.desk import Answer
from gossamer.replica.layout import Chosen
from gossamer.replica.states import put, taken
from gossamer.replica.stretch import Stretch
from gossamer.strategy import Exchange


class Builder(Protocol):
    """Whatever makes the torch optimizer that steps the centre."""

    @property
    def elementwise(self) -> bool:
        """Whether a step of one number depends on its own past alone, so that tensors may be cut anywhere."""

    @property
    def by_tensor(self) -> bool:
        """Whether a step of one tensor depends on no other, so that tensors may be shared out."""

    def build(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """The torch optimizer over `parameters`."""

    def over_places(self, placed: Sequence[tuple[int, Tensor]]) -> torch.optim.Optimizer:
        """One over tensors, or pieces of them, each given with its tensor's place in the model."""

    def settings(self) -> bytes:
        """What it is set to now, for whoever steps with it elsewhere."""


@dataclass
class _Waiting:
    member: int
    round: int
    staleness: int
    dropped: bool
    before: Tensor | None = None  # what it is answered with instead of the centre as it will be


@dataclass
class Hub:
    """The centre of one slot, or a shard of it: a stretch of what is chosen, of which it alone is told.

    `push` takes one contribution and returns the answers that it sets free.
    """

    exchange: Exchange
    chosen: Chosen | Stretch
    centre: Tensor
    world: World
    optimizer: Builder
    version: int = 0
    dropped: int = 0
    spoilt: int = 0  # rounds that were not applied, for they held a NaN or an infinity
    memory: dict[str, Tensor] = field(default_factory=dict)
    lies: bool = False  # the centre lies where others look at it: it is neither copied to begin with, nor to answer

    def __post_init__(self) -> None:
        self.centre = self.centre if self.lies else self.centre.clone()
        self.views = self.chosen.views(self.centre)
        placed = list(zip(self.chosen.places, self.views, strict=True))
        self.steps = self.optimizer.over_places(placed) if self.exchange.updates_at_hub else None
        self._told: list[tuple[_Waiting, Tensor]] = []  # in order of arrival
        self.pushes = dict.fromkeys(range(self.world.size), 0)
        self._waiting: list[_Waiting] = []
        compared = range(self.world.size) if self.exchange.merge.compares else ()
        self.known = {member: self.centre.clone() for member in compared}  # what each member last heard
        self._resting: set[int] = set()
        self.holding = False  # answers are held back: several pushes come in the same moment

    def push(self, member: int, round: int, wire: Wire) -> list[tuple[int, Answer]]:
        """Take what `member` says about `round`; answer everybody who need not wait any longer."""
        if member not in self.pushes:  # it left while this was under way
            return []
        ex = self.exchange
        late = ex.synchrony.late is Late.DROP and round < self.version
        waiting = _Waiting(member, round, max(0, self.version - round), late)
        value = decoded(ex.codec, wire, Block(self.centre, self.chosen.shapes))
        self.pushes[member] += 1
        self._resting.discard(member)
        self._waiting.append(waiting)
        if late:
            self.dropped += 1
            if ex.merge.answers_with_before:  # a pull that moves no centre must not move the member either
                waiting.before = _kept(value, wire)
        else:
            self._told.append((waiting, value))
        self._close_rounds()
        if self._told and self._told[-1][0] is waiting:  # its round is still open
            self._told[-1] = (waiting, _kept(value, wire))
        return self.free()

    def leave(self, member: int) -> list[tuple[int, Answer]]:
        """A member is gone: nobody waits for it any longer."""
        self.pushes.pop(member, None)
        self._waiting = [w for w in self._waiting if w.member != member]
        self._resting.discard(member)
        if self._resting >= self.pushes.keys():
            self._resting.clear()
        self._close_rounds()
        return self.free()

    def rest(self, member: int) -> list[tuple[int, Answer]]:
        """A member goes where all members meet: rounds close without it until it pushes again, or all are there."""
        self._resting.add(member)
        if self._resting >= self.pushes.keys():
            self._resting.clear()
        self._close_rounds()
        return self.free()

    def free(self) -> list[tuple[int, Answer]]:
        """The answers that are due: the slowest first, so that nobody hears that it caught up before it has."""
        if self.holding:
            return []
        ready = sorted((w for w in self._waiting if self._may_go(w)), key=lambda w: self.pushes[w.member])
        self._waiting = [w for w in self._waiting if not self._may_go(w)]
        copied = not self.lies and any(w.before is None for w in ready)
        now = self.centre.clone() if copied else self.centre
        answers = [(w, now if w.before is None else w.before) for w in ready]
        for waiting, values in answers if self.known else ():
            self.known[waiting.member].copy_(values)
        return [(w.member, Answer(values, self.version, w.staleness, w.dropped)) for w, values in answers]

    def state(self) -> dict[str, Any]:
        """All that must outlive it, at a moment when nobody waits for an answer."""
        told = [(w.member, w.round, w.staleness, value) for w, value in self._told]
        steps = None if self.steps is None else taken(self.steps, self.views)
        counts = (self.version, self.dropped, self.spoilt)
        return {"bounds": list(self.chosen.bounds), "centre": self.centre, "counts": counts,
                "memory": dict(sorted(self.memory.items())), "told": told, "pushes": self.pushes, "known": self.known,
                "steps": steps}  # fmt: skip

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken; in a world of another size rounds are counted anew, from the same centre."""
        device = self.centre.device
        self.centre.copy_(state["centre"])
        self.memory = {name: tensor.to(device) for name, tensor in state["memory"].items()}
        if self.steps is not None and state["steps"] is not None:
            put(self.steps, self.views, state["steps"])
        if state["pushes"].keys() == self.pushes.keys():
            self.version, self.dropped, self.spoilt = state["counts"]
            self.pushes = dict(state["pushes"])
            for member, tensor in state["known"].items():
                self.known[member].copy_(tensor)
            self._told = [(_Waiting(m, round, stale, False), v.to(device)) for m, round, stale, v in state["told"]]
        else:
            for known in self.known.values():
                known.copy_(self.centre)

    def _may_go(self, waiting: _Waiting) -> bool:
        bound = self.exchange.synchrony.staleness
        if bound is None:
            return True
        if bound == 0 and self.exchange.synchrony.late is Late.DROP:  # its round is closed, with it or without it
            return self.version > waiting.round
        slowest = min(self.pushes.values(), default=0)
        return self.pushes.get(waiting.member, 0) - slowest <= bound

    def _close_rounds(self) -> None:
        """Close rounds as long as enough is there; what was said about a later round waits for it."""
        while self._complete(now := [said for said in self._told if said[0].round <= self.version]):
            self._told = [said for said in self._told if said[0].round > self.version]
            if self.exchange.merge.answers_with_before:
                before = self.centre.clone()
                for waiting, _ in now:
                    waiting.before = before
            self._close([self._weighed(*said) for said in sorted(now, key=lambda said: said[0].member)])

    def _complete(self, now: list[tuple[_Waiting, Tensor]]) -> bool:
        """Whether a round may close: everybody alive is in, or as many as the quorum asks for."""
        if not now:
            return False
        if self.exchange.synchrony.quorum is None:
            return self.pushes.keys() <= {waiting.member for waiting, _ in now}
        present = len(self.pushes.keys() - self._resting)
        return len(now) >= min(self.exchange.synchrony.closes(self.world.size), present)

    def _weighed(self, waiting: _Waiting, value: Tensor) -> Tensor:
        """What a contribution is worth now that it is counted."""
        told = Told(waiting.staleness, self.centre, self.known.get(waiting.member, self.centre))
        return self.exchange.merge.weighed(value, told, self.memory)

    def _close(self, values: list[Tensor]) -> None:
        """Sum a round up, in member order so that every run adds alike, and step."""
        mean = torch.stack(values).mean(0) if len(values) > 1 else values[0]
        if not torch.isfinite(mean.sum()):  # one NaN would be everybody's; a sum that overflows is no better
            self.spoilt += 1
            self.version += 1
            return
        share = len(values) / self.world.size
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
        assert self.steps is not None
        for view, slope in zip(self.views, self.chosen.views(gradient), strict=True):
            view.grad = slope
        self.steps.step()
        for view in self.views:
            view.grad = None  # it may lie in the sender's own memory


def _kept(value: Tensor, wire: Wire) -> Tensor:
    """A decoded value that outlives its push: copied where it lies in the wire, on which the sender may write."""
    same = value.untyped_storage().data_ptr() == wire.body.untyped_storage().data_ptr()
    return value.clone() if same else value
