"""A hub that lives with nobody: its centre lies in memory that members share, and whoever pushes plays its part.

Plain gradients are stepped with part by part, each under a lock of its own, so that members push at once; for what
needs the hub as a whole one lock holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.engine.part import WORDS, Part, Remembered, shared_out
from gossamer.engine.shared.shelf import Shelf
from gossamer.parts.merge import Adopt, Compensated, Elastic, Share
from gossamer.parts.synchrony import Late
from gossamer.parts.world import World
from gossamer.replica import Chosen, Hub
from gossamer.replica.hub import Builder
from gossamer.replica.stretch import Piece
from gossamer.strategy import Exchange

VERSION, DROPPED, SPOILT, BUSY, STEPPED, PUSHES = range(6)  # its words; then each member's pushes, who waits; parts'

Kind = tuple[tuple[int, ...], torch.dtype]
Template = list[dict[str, Kind]]  # by tensor: what its optimizer remembers, by name
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
    def parts(self) -> list[list[Piece]]:
        """Where plain gradients are stepped with as they come, what is stepped under one lock."""
        if not self.exchange.updates_at_hub or type(self.exchange.merge) not in (Adopt, Share):
            return []
        counts, elementwise = [prod(shape) for shape in self.chosen.shapes], self.optimizer.elementwise
        if self.exchange.synchrony.late is Late.DROP:  # the hub says who is late
            return []
        if not elementwise:  # it may look at all of its tensors at once
            return [[Piece(tensor, 0, count) for tensor, count in enumerate(counts)]]
        return shared_out(counts, self.start.element_size())

    def single(self, piece: Piece) -> dict[str, Kind]:
        """What is remembered of a piece that is no part of what is remembered of its tensor: counts of steps."""
        shape = self.chosen.shapes[piece.tensor]
        return {name: kind for name, kind in self.template[piece.tensor].items() if kind[0] != shape}

    @property
    def kinds(self) -> list[tuple[int, torch.dtype]]:
        """Numbers that exist once: the centre, what each member last heard of it, what its optimizer remembers."""
        one = ((self.start.numel(),), self.start.dtype)
        known = [one] * self.world.size if self.exchange.merge.compares else []
        states = [*self.template, *(self.single(piece) for part in self.parts for piece in part)]
        return [(prod(s), d) for s, d in [one, *known, *(kind for each in states for kind in each.values())]]

    @property
    def words(self) -> int:
        """And words."""
        return PUSHES + 2 * self.world.size + WORDS * len(self.parts)

    @property
    def locks(self) -> int:
        """And locks."""
        return 1 + len(self.parts)


class Centre:
    """One member's hold on a centre; `hub` plays it where it is needed as a whole, and for who keeps it."""

    def __init__(self, plan: Plan, shelf: Shelf, lock: int, numbers: Sequence[Tensor], words: Words) -> None:
        self.exchange, self.shelf, self._lock, self._words = plan.exchange, shelf, lock, words
        self.broken = 0  # pushes that were never finished, and ended with the process of who pushed
        rest, size = iter(numbers), shelf.size
        self.hub = hub = Hub(plan.exchange, plan.chosen, next(rest), plan.world, plan.optimizer, lies=True)
        hub.known = {member: next(rest) for member in hub.known}
        self._kept = [{name: next(rest).view(shape) for name, (shape, _) in each.items()} for each in plan.template]
        self._steps = None if hub.steps is None else Remembered(hub.steps, hub.views, self._kept)
        self.parts = list[Part]()
        ends, own = [0, *accumulate(prod(shape) for shape in plan.chosen.shapes)], words[PUSHES + 2 * size :]
        for number, pieces in enumerate(plan.parts):
            spans = [(ends[piece.tensor] + piece.start, ends[piece.tensor] + piece.stop) for piece in pieces]
            views = [hub.centre[start:stop] for start, stop in spans]
            if not plan.optimizer.elementwise:
                views = [hub.views[piece.tensor] for piece in pieces]
            kept = [
                {
                    **{name: self._kept[piece.tensor][name].view(-1)[piece.start : piece.stop].view(view.shape)
                       for name in plan.template[piece.tensor].keys() - plan.single(piece).keys()},
                    **{name: next(rest).view(shape) for name, (shape, _) in plan.single(piece).items()},
                }
                for piece, view in zip(pieces, views, strict=True)
            ]  # fmt: skip
            placed = [(plan.chosen.places[piece.tensor], view) for piece, view in zip(pieces, views, strict=True)]
            remembered = Remembered(plan.optimizer.over_places(placed), views, kept)
            span = (spans[0][0], spans[-1][1])
            self.parts.append(Part(pieces, span, remembered, views, own[number * WORDS : (number + 1) * WORDS], kept))

    def begin(self, start: Tensor) -> None:
        """One member lays the first numbers down, before anybody pushes."""
        for part in (self.hub.centre, *self.hub.known.values()):
            part.copy_(start)

    @contextmanager
    def held(self) -> Iterator[Hub]:
        """The hub as it is now, for one member at a time."""
        words = self._words
        with self.shelf.locked(self._lock):
            if words[BUSY]:  # who held it last is dead, and so was never done
                self.broken += 1
            words[BUSY] = 1
            self._read()
            yield self.hub
            self._write()
            words[BUSY] = 0

    def step(self, member: int, round: int, slopes: Sequence[Tensor] | None, into: Tensor | None) -> tuple[int, int]:
        """Step with a member's gradients, tensor by tensor, part by part, and let `into` be what the parts become.

        None for gradients that are no numbers: they count as told, and nothing is stepped. Each begins elsewhere, so
        that two seldom wait for one another. Returns the version of the centre, and how many it was behind.
        """
        words = self._words
        with self.shelf.locked(self._lock):
            behind = max(0, int(words[VERSION]) - round)
            words[VERSION] += 1
            words[SPOILT] += slopes is None
            version = int(words[VERSION])
        for number, part in self._from(member):
            with self.shelf.locked(self._lock + 1 + number):
                if slopes is not None:
                    self.broken += part.step(slopes)
                self._show(part, into)
        with self.shelf.fence:
            words[PUSHES + member] += 1  # it is mine to count; who waited for me may have what I left
        return version, behind

    def now(self) -> Hub:
        """The hub as it is now."""
        with self.held() as hub:
            return hub

    @property
    def version(self) -> int:
        """How many pushes were told of."""
        return int(self._words[VERSION])

    def show(self, member: int, into: Tensor) -> None:
        """Let `into` be the centre, part by part."""
        for number, part in self._from(member):
            with self.shelf.locked(self._lock + 1 + number):
                self._show(part, into)

    def _show(self, part: Part, into: Tensor | None) -> None:
        if into is not None:
            start, stop = part.span
            into[start:stop].copy_(self.hub.centre[start:stop])

    def _from(self, member: int) -> Iterator[tuple[int, Part]]:
        count = len(self.parts)
        for number in range(count):
            place = (number + member * count // self.shelf.size) % count
            yield place, self.parts[place]

    def tell(self) -> None:
        """My hub is what all are to go on from."""
        with self.shelf.locked(self._lock):
            self._write()
            for member, count in self.hub.pushes.items():
                self._words[PUSHES + member] = count
            for part in self.parts:
                part.tell(self._kept, bool(self._words[STEPPED]))

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

    def _read(self) -> None:
        """Let my hub be what all have made of it."""
        hub, words = self.hub, self._words
        version, dropped, spoilt = (int(words[each]) for each in (VERSION, DROPPED, SPOILT))
        pushes = {m: int(words[PUSHES + m]) for m in range(self.shelf.size) if self._counts(m)}
        hub.count(version, dropped, spoilt, pushes)
        for part in self.parts:
            words[STEPPED] |= part.ask(self._kept)
        if self._steps is not None:
            self._steps.recall(bool(words[STEPPED]))

    def _write(self) -> None:
        hub, words = self.hub, self._words
        words[VERSION], words[DROPPED], words[SPOILT] = hub.version, hub.dropped, hub.spoilt
        mine = self.shelf.member
        if not self.parts and mine in hub.pushes:  # else members count their own pushes, whoever holds the hub
            words[PUSHES + mine] = hub.pushes[mine]
        if self._steps is not None:
            words[STEPPED] |= self._steps.lay()

    def _counts(self, member: int) -> bool:
        return not (self.shelf.left(member) or self.shelf.siblings.ended(member))


def _template(builder: Builder, tensors: Sequence[Tensor]) -> Template | None:
    """What an optimizer remembers of tensors from its first step on, tried on others; None if more than tensors."""
    tried = [torch.zeros_like(tensor) for tensor in tensors]
    try:
        optimizer = builder.build(tried)
        before = _beside(optimizer)
        found = []
        for _ in range(2):
            for tensor in tried:
                tensor.grad = torch.zeros_like(tensor)
            optimizer.step()
            found.append([{n: v for n, v in optimizer.state[tensor].items() if v is not None} for tensor in tried])
    except Exception:  # an optimizer of the user's own may well need more than zeros
        return None
    plain = all(isinstance(value, Tensor) for each in found[1] for value in each.values())
    if not plain or [each.keys() for each in found[0]] != [each.keys() for each in found[1]]:
        return None
    if _beside(optimizer) != before:
        return None
    return [{name: (tuple(value.shape), value.dtype) for name, value in each.items()} for each in found[1]]


def _beside(optimizer: torch.optim.Optimizer) -> str:
    """What an optimizer may remember beside its state, which nobody else would hear of."""
    groups = [{name: value for name, value in held.items() if name != "params"} for held in optimizer.param_groups]
    own = {n: v for n, v in vars(optimizer).items() if isinstance(v, int | float | Tensor) and not n.startswith("_")}
    return repr((groups, own))
