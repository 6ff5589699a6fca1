"""A hub that lives with nobody: its centre lies in memory that members share, and whoever pushes plays its part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.engine.shared.shelf import Shelf
from gossamer.parts.merge import Adopt, Compensated, Elastic, Share
from gossamer.parts.world import World
from gossamer.replica import Chosen, Hub
from gossamer.replica.hub import Builder
from gossamer.strategy import Exchange

VERSION, DROPPED, SPOILT, BUSY, STEPPED, PUSHES = range(6)  # its words; then each member's pushes, and who waits

Kind = tuple[int, torch.dtype]
Template = list[dict[str, tuple[tuple[int, ...], torch.dtype]]]  # by tensor: what its optimizer remembers, by name
Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Plan:
    """A centre to be, and what it needs of a shelf."""

    slot: int
    exchange: Exchange
    chosen: Chosen
    start: Tensor
    world: World
    optimizer: Builder
    template: Template

    @classmethod
    def of(
        cls, slot: int, ex: Exchange, chosen: Chosen, start: Tensor, world: World, optimizer: Builder
    ) -> Plan | None:
        """None where a push is not counted as it comes, or somebody would have to remember more than tensors."""
        merge, sync = ex.merge, ex.synchrony
        plain = type(merge) in (Adopt, Share) or (isinstance(merge, Compensated) and not merge.adaptive)
        elastic = isinstance(merge, Elastic) and not merge.inertia
        if sync.quorum != 1 or sync.staleness == 0 or not (plain or elastic):
            return None
        mine = chosen.take(start)
        template = _template(optimizer, chosen.views(mine)) if ex.updates_at_hub else []
        return None if template is None else cls(slot, ex, chosen, mine, world, optimizer, template)

    @property
    def kinds(self) -> list[Kind]:
        """Numbers that exist once: the centre, what each member last heard of it, what its optimizer remembers."""
        one = (self.start.numel(), self.start.dtype)
        known = [one] * self.world.size if self.exchange.merge.compares else []
        return [one, *known, *[(prod(shape), dtype) for each in self.template for shape, dtype in each.values()]]

    @property
    def words(self) -> int:
        """And words."""
        return PUSHES + 2 * self.world.size


class Centre:
    """One member's hold on a centre; a lock lets one at a time play the hub's part."""

    def __init__(self, plan: Plan, shelf: Shelf, lock: int, parts: Sequence[Tensor], words: Words) -> None:
        self.exchange, self.shelf, self._lock, self._words = plan.exchange, shelf, lock, words
        self.broken = 0  # pushes that ended half applied, with the process of who pushed
        centre, *rest = parts
        self.hub = Hub(plan.exchange, plan.chosen, centre, plan.world, plan.optimizer, lies=True)
        known, rest = rest[: len(self.hub.known)], rest[len(self.hub.known) :]
        self.hub.known = dict(enumerate(known))
        states = iter(rest)
        self._remembered = [
            {name: next(states).view(shape) for name, (shape, _) in each.items()} for each in plan.template
        ]
        self._bound = False

    def begin(self, start: Tensor) -> None:
        """One member lays the first numbers down, before anybody pushes."""
        for part in (self.hub.centre, *self.hub.known.values()):
            part.copy_(start)

    @contextmanager
    def held(self) -> Iterator[Hub]:
        """The hub as it is now, for one member at a time."""
        hub, words = self.hub, self._words
        with self.shelf.locked(self._lock):
            if words[BUSY]:  # who held it last is dead, and so was never done
                self.broken += 1
            words[BUSY] = 1
            hub.version, hub.dropped, hub.spoilt = (int(words[each]) for each in (VERSION, DROPPED, SPOILT))
            hub.pushes = {m: int(words[PUSHES + m]) for m in range(self.shelf.size) if self._counts(m)}
            self._recall()
            yield hub
            self._remember()
            self._count()
            words[BUSY] = 0

    def tell(self) -> None:
        """My hub is what all are to go on from."""
        with self.shelf.locked(self._lock):
            self._remember()
            self._count()

    def open(self, member: int) -> bool:
        """Whether a member's last push may be answered now, as far as the others have come."""
        bound = self.exchange.synchrony.staleness
        others = [int(self._words[PUSHES + m]) for m in range(self.shelf.size) if self._counts(m)]
        return bound is None or int(self._words[PUSHES + member]) - min(others) <= bound

    def waits(self, member: int, waits: bool) -> None:
        """A member waits for its answer, or does so no more."""
        self._words[PUSHES + self.shelf.size + member] = waits

    @property
    def owing(self) -> bool:
        """Whether somebody waits for an answer that it may have."""
        waiting = self._words[PUSHES + self.shelf.size :]
        return any(waiting[member] and self.open(member) for member in range(self.shelf.size) if self._counts(member))

    def _count(self) -> None:
        hub, words = self.hub, self._words
        words[VERSION], words[DROPPED], words[SPOILT] = hub.version, hub.dropped, hub.spoilt
        for member, count in hub.pushes.items():
            words[PUSHES + member] = count

    def _counts(self, member: int) -> bool:
        return not (self.shelf.left(member) or self.shelf.siblings.ended(member))

    def _recall(self) -> None:
        """Let my optimizer remember what the others' did, who stepped the same centre."""
        if self.hub.steps is not None and self._words[STEPPED] and not self._bound:
            for tensor, kept in zip(self.hub.views, self._remembered, strict=True):
                self.hub.steps.state[tensor] = dict(kept)
            self._bound = True

    def _remember(self) -> None:
        """Lay down what my optimizer remembers, where it is not there already."""
        if self.hub.steps is None or not any(self.hub.steps.state.values()):
            return
        for tensor, kept in zip(self.hub.views, self._remembered, strict=True):
            state = self.hub.steps.state[tensor]
            for name, place in kept.items():
                if state[name].data_ptr() != place.data_ptr():
                    place.copy_(state[name])
                    state[name] = place
        self._words[STEPPED], self._bound = 1, True


def _template(builder: Builder, tensors: Sequence[Tensor]) -> Template | None:
    """What an optimizer remembers of tensors after a first step, tried on others; None if more than tensors."""
    tried = [torch.zeros_like(tensor) for tensor in tensors]
    try:
        optimizer = builder.build(tried)
        for tensor in tried:
            tensor.grad = torch.zeros_like(tensor)
        optimizer.step()
    except Exception:  # an optimizer of the user's own may well need more than zeros
        return None
    found = [{name: value for name, value in optimizer.state[tensor].items() if value is not None} for tensor in tried]
    if not all(isinstance(value, Tensor) for each in found for value in each.values()):
        return None
    return [{name: (tuple(value.shape), value.dtype) for name, value in each.items()} for each in found]
