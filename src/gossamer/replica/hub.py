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
from gossamer.parts.world import World
from gossamer.replica.desk import Answer
from gossamer.replica.layout import Chosen
from gossamer.replica.states import put, taken
from gossamer.replica.stretch import Stretch
from gossamer.strategy import Exchange
from gossamer.strategy.rounds import Contribution, Rounds


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
class Hub:
    """The centre of one slot, or a shard of it: a stretch of what is chosen, of which it alone is told.

    `push` takes one contribution and returns the answers that it sets free.
    """

    exchange: Exchange
    chosen: Chosen | Stretch
    centre: Tensor
    world: World
    optimizer: Builder
    spoilt: int = 0  # rounds that were not applied, for they held a NaN or an infinity
    memory: dict[str, Tensor] = field(default_factory=dict)
    lies: bool = False  # the centre lies where others look at it: it is neither copied to begin with, nor to answer

    def __post_init__(self) -> None:
        self.centre = self.centre if self.lies else self.centre.clone()
        self.views = self.chosen.views(self.centre)
        placed = list(zip(self.chosen.places, self.views, strict=True))
        self.steps = self.optimizer.over_places(placed) if self.exchange.updates_at_hub else None
        self.rounds = Rounds(self.exchange, self.world, self._close)
        self._values: dict[int, Tensor] = {}  # what was said, and is not counted in yet, by contribution
        self._spoilt: set[int] = set()  # contributions to rounds that were not applied, until they are answered
        self._before: dict[int, Tensor] = {}  # what some are answered with instead of the centre as it will be
        compared = range(self.world.size) if self.exchange.merge.compares else ()
        self.known = {member: self.centre.clone() for member in compared}  # what each member last heard

    def push(self, member: int, round: int, wire: Wire) -> list[tuple[int, Answer]]:
        """Take what `member` says about `round`; answer everybody who need not wait any longer."""
        fresh = self.rounds.told(member, round)
        if fresh is None:  # it left while this was under way
            return []
        value = decoded(self.exchange.codec, wire, Block(self.centre, self.chosen.shapes))
        if not fresh.dropped:
            self._values[id(fresh)] = value
        elif self.exchange.merge.answers_with_before:  # a pull that moves no centre must not move the member either
            self._before[id(fresh)] = _kept(value, wire)
        self.rounds.settle()
        if id(fresh) in self._values:  # its round is still open
            self._values[id(fresh)] = _kept(value, wire)
        return self.free()

    def leave(self, member: int) -> list[tuple[int, Answer]]:
        """A member is gone: nobody waits for it any longer."""
        self.rounds.leave(member)
        return self.free()

    def rest(self, member: int) -> list[tuple[int, Answer]]:
        """A member goes where all members meet: rounds close without it until it pushes again, or all are there."""
        self.rounds.rest(member)
        return self.free()

    def free(self) -> list[tuple[int, Answer]]:
        """The answers that are due."""
        ready = self.rounds.free()
        copied = not self.lies and any(id(each) not in self._before for each in ready)
        now = self.centre.clone() if copied else self.centre
        answers = [(each, self._before.pop(id(each), now)) for each in ready]
        for each, values in answers if self.known else ():
            self.known[each.member].copy_(values)
        told, self._spoilt = self._spoilt, self._spoilt and self._spoilt & {id(each) for each in self.rounds.waiting}
        return [
            (each.member, Answer(values, self.version, each.staleness, each.dropped, id(each) in told))
            for each, values in answers
        ]

    @property
    def version(self) -> int:
        """How many rounds were closed."""
        return self.rounds.version

    @property
    def dropped(self) -> int:
        """Contributions that came too late."""
        return self.rounds.dropped

    @property
    def pushes(self) -> dict[int, int]:
        """By member, how often it has spoken."""
        return self.rounds.pushes

    def count(self, version: int, dropped: int, spoilt: int, pushes: dict[int, int]) -> None:
        """Go on from these counts."""
        self.spoilt = spoilt
        self.rounds.count(version, dropped, pushes)

    def state(self) -> dict[str, Any]:
        """All that must outlive it, at a moment when nobody waits for an answer."""
        told = [(each.member, each.round, each.staleness, self._values[id(each)]) for each in self.rounds.said]
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
            version, dropped, spoilt = state["counts"]
            self.count(version, dropped, spoilt, dict(state["pushes"]))
            for member, tensor in state["known"].items():
                self.known[member].copy_(tensor)
            said = [Contribution(member, round, stale, False) for member, round, stale, _ in state["told"]]
            self._values = {id(each): told[3].to(device) for each, told in zip(said, state["told"], strict=True)}
            self.rounds.said = said
        else:
            for known in self.known.values():
                known.copy_(self.centre)

    def _close(self, now: list[Contribution]) -> None:
        """Sum a round up, in member order so that every run adds alike, and step."""
        if self.exchange.merge.answers_with_before:
            before = self.centre.clone()
            self._before.update((id(each), before) for each in now)
        values = [self._weighed(each, self._values.pop(id(each))) for each in now]
        mean = torch.stack(values).mean(0) if len(values) > 1 else values[0]
        if not torch.isfinite(mean.sum()):  # one NaN would be everybody's; a sum that overflows is no better
            self.spoilt += 1
            self._spoilt.update(map(id, now))
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

    def _weighed(self, each: Contribution, value: Tensor) -> Tensor:
        """What a contribution is worth now that it is counted."""
        told = Told(each.staleness, self.centre, self.known.get(each.member, self.centre))
        return self.exchange.merge.weighed(value, told, self.memory)

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
