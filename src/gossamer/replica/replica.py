"""One member's numbers: parameters, gradients, memories. Knows no optimizer, no network and no clock."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Heard, Mean, Wire, alone
from gossamer.parts.payload import Payload
from gossamer.parts.topology import hears
from gossamer.parts.world import World
from gossamer.replica.desk import Answer, Desk, carried
from gossamer.replica.layout import Chosen, Layout
from gossamer.replica.looks import Looks, widened
from gossamer.strategy import AnyStrategy, Phase, Send, Settle, at, phases, since, slots
from gossamer.strategy.suits import suits

T = TypeVar("T")


class Replica:
    """A member's copy of the model, laid out flat in storage the player lends."""

    def __init__(
        self,
        member: int,
        world: World,
        strategy: AnyStrategy,
        layout: Layout,
        storage: tuple[Tensor, Tensor],
    ) -> None:
        self.member, self.world, self.strategy, self.layout = member, world, strategy, layout
        self.parameters, self.gradients = storage
        self.parameters.copy_(layout.start)
        self.views, self.slopes = layout.views(self.parameters), layout.views(self.gradients)
        self.desks = [Desk(ex, carried(ex, layout.tags), {}) for ex in slots(strategy)]
        self.looks = Looks(layout.names)
        self.holding = False  # what a conversation comes to is kept for its time instead of merged at once
        self.held: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}  # by slot and step of sending: mine, mixed
        self._fresh = [False] * len(layout.tags)
        self._ahead: list[Desk] = []  # those that look ahead for this step's gradient
        self._shared = any(desk.exchange.topology.trades for desk in self.desks)  # others may write to the parameters
        self.resting = suits(strategy, layout.tags)

    def phases(self, step: int) -> Iterator[Phase]:
        """The step in order, but for exchanges that carry none of this model's tensors."""
        for phase in phases(self.strategy, step):
            if not (isinstance(phase, Send | Settle) and phase.slot in self.resting):
                yield phase

    def begin(self, step: int) -> None:
        """A step begins: gradients will be new, and a spell that begins takes its anchors."""
        self._fresh = [True] * len(self._fresh)
        for desk in self.desks if step == since(self.strategy, step) else ():
            desk.mass = 1.0  # a spell's mass ends with it, and so does its momentum
            desk.memory.pop("velocity", None)
        self._ahead = [self.desks[slot] for slot, ex in at(self.strategy, step) if ex.merge.lookahead]
        for slot, ex in at(self.strategy, step):
            if ex.payload is Payload.DELTAS and "anchor" not in self.desks[slot].memory:
                self.desks[slot].memory["anchor"] = self.desks[slot].chosen.take(self.parameters).clone()
        for desk in self._ahead:
            here = desk.memory["here"] = desk.chosen.take(self.parameters).clone()
            if "velocity" in desk.memory:
                desk.chosen.put(self.parameters, here.add(desk.memory["velocity"], alpha=desk.exchange.merge.lookahead))

    def computed(self) -> None:
        """The gradient is there: whoever looked ahead for it comes back."""
        for desk in self._ahead:
            desk.chosen.put(self.parameters, desk.memory.pop("here"))

    def exchange(self, slot: int, step: int, bucket: Chosen | None = None) -> Generator[Wire, Heard, None]:
        """One exchange with peers: yields wires, is sent what was heard, merges the mix back.

        Of an exchange that may be cut, one bucket can be exchanged by itself.
        """
        desk = self.desks[slot] if bucket is None else Desk(self.desks[slot].exchange, bucket, {})
        mine = self._payload(desk)
        late = desk.exchange.carries_mass and desk.exchange.synchrony.delay
        kept = self._share(slot, step) if late else 0.0
        if late:  # what is sent away is gone at once; one's own share stays
            desk.mass *= kept
        block, chance, due = self._block(desk, mine), self._chance(slot, step), self.looks.due(desk.exchange, step)
        exact = widened(mine) if due else mine
        mixed, _ = yield from desk.exchange.codec.converse(block, desk.memory, chance)
        if due:
            mixed = mixed.clone()  # what was heard may be lent until the next wire begins
            heard = yield Mean(exact)
            self.looks.look(slot, step, desk, (exact, mixed, heard.one()))
        if late:
            mixed = mixed - kept * mine
        if self.holding:
            self.held[slot, step] = (mine.clone(), mixed.clone())
        else:
            self._take_in(desk, mine, mixed)

    def release(self, slot: int, sent: int) -> None:
        """The time has come for what was held: merge it as if it had just been heard."""
        self._take_in(self.desks[slot], *self.held.pop((slot, sent)))

    def push(self, slot: int, step: int) -> Generator[Wire, Answer, None]:
        """One exchange with a hub: yields the only wire, is sent the hub's answer, takes it up."""
        desk = self.desks[slot]
        mine = self._payload(desk)
        due = self.looks.due(desk.exchange, step)
        exact = widened(mine) if due else mine
        speaking = desk.exchange.codec.converse(self._block(desk, mine), desk.memory, self._chance(slot, step))
        wire = next(speaking)
        heard, _ = conclude(speaking, alone(wire))
        if due:  # a hub hears one at a time: the truth of a push is what was to be pushed
            self.looks.look(slot, step, desk, (torch.zeros_like(exact), heard, exact))
        desk.pushes += 1
        answer = yield wire
        desk.versions[0] = answer.version
        self._adopt(desk, mine, answer.values)

    def pushed(self, slot: int, version: int) -> None:
        """What is exchanged with a hub was stepped with by somebody else, and taken up: the centre has this version."""
        desk = self.desks[slot]
        desk.pushes += 1
        desk.versions = [version]
        self._mark(desk.chosen, False)

    def pull(self, slot: int, weights: Mapping[int, float], partners: Mapping[int, Tensor]) -> None:
        """Mix with partners' parameters as they were read; hearing nobody but oneself changes nothing."""
        desk = self.desks[slot]
        if set(weights) == {self.member}:
            return
        mine = desk.chosen.take(self.parameters)
        mixed = mine * weights[self.member]
        for partner, weight in weights.items():
            if partner != self.member:
                mixed.add_(partners[partner], alpha=weight)
        self._merge(desk, mine, mixed)

    def lay_in(self, slot: int, values: Tensor) -> None:
        """Somebody lays its values into this member's inbox."""
        desk = self.desks[slot]
        desk.inbox = values.clone() if desk.inbox is None else desk.inbox.add_(values)
        desk.letters += 1

    def take_up(self, slot: int, own: int) -> None:
        """The mean of oneself, counted `own` times, and one's inbox, which is empty then: (s x + sum)/(s + count)."""
        desk = self.desks[slot]
        if desk.inbox is None:
            return
        mine = desk.chosen.take(self.parameters)
        self._merge(desk, mine, (own * mine + desk.inbox) / (own + desk.letters))
        desk.inbox, desk.letters = None, 0

    def trade(self, slot: int, theirs: Tensor) -> Tensor:
        """Somebody trades: this member becomes the mean of the two and hands back what it was."""
        desk = self.desks[slot]
        mine = desk.chosen.take(self.parameters).clone()
        self._merge(desk, mine, 0.5 * (mine + theirs))
        return mine

    def traded(self, slot: int, told: Tensor, theirs: Tensor) -> None:
        """The other side of a trade in which one told `told`: move half of the way, keeping what came in between."""
        desk = self.desks[slot]
        mine = desk.chosen.take(self.parameters)
        self._merge(desk, mine, mine + 0.5 * (theirs - told))

    def shown(self, slot: int) -> Tensor:
        """What a partner that pulls reads: this slot's parameters as they are."""
        return self.desks[slot].chosen.take(self.parameters)

    def fresh(self) -> list[bool]:
        """Which tensors have a gradient of this step's making and no hub to step them."""
        return self._fresh

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """The local optimizer step on the replica's own views, on every tensor whose gradient is fresh."""
        for view, slope, fresh in zip(self.views, self.slopes, self._fresh, strict=True):
            view.grad = slope if fresh else None
        with self.updating():
            optimizer.step()

    @contextmanager
    def updating(self) -> Iterator[None]:
        """While somebody steps the parameters: a mass divides the step, who looked ahead goes on with its momentum."""
        before = [(desk, desk.chosen.take(self.parameters).clone()) for desk in self._ahead]
        weighted = [(desk, desk.chosen.take(self.parameters).clone()) for desk in self.desks if desk.mass != 1.0]
        yield
        for desk, old in weighted:  # push-sum steps the numerator, with the slope (and decay) at z: w z + step
            desk.chosen.put(self.parameters, old + (desk.chosen.take(self.parameters) - old) / desk.mass)
        for desk, old in before:  # v = d v + step; x += v
            step = desk.chosen.take(self.parameters) - old
            last = desk.memory.get("velocity")
            velocity = step if last is None else desk.exchange.merge.lookahead * last + step
            desk.memory["velocity"] = velocity
            desk.chosen.put(self.parameters, old + velocity)

    def _payload(self, desk: Desk) -> Tensor:
        ex, chosen = desk.exchange, desk.chosen
        if ex.payload is Payload.GRADIENTS:
            mine = chosen.gather(self.gradients)
            if ex.updates_at_hub or ex.synchrony.delay:
                self._mark(chosen, False)
        elif ex.payload is Payload.DELTAS:
            return chosen.take(self.parameters) - desk.memory["anchor"]
        else:
            mine = chosen.take(self.parameters)
            if ex.carries_mass:
                return torch.cat([mine * desk.mass, mine.new_tensor([desk.mass])])
        return mine.clone() if ex.synchrony.delay or self._shared else mine

    def _block(self, desk: Desk, mine: Tensor) -> Block:
        """What the codec is given: the payload and, for a codec that looks beside it, the parameters as they are."""
        ex, chosen = desk.exchange, desk.chosen
        beside = chosen.take(self.parameters) if ex.codec.looks_beside else None
        shapes = (tuple(mine.shape),) if ex.carries_mass else chosen.shapes
        return Block(mine, shapes, beside, self.world.size)

    def _merge(self, desk: Desk, mine: Tensor, mixed: Tensor) -> None:
        ex, chosen = desk.exchange, desk.chosen
        merged = ex.merge.member(mine, mixed, desk.memory, self.world.size)
        if ex.payload is Payload.GRADIENTS:
            chosen.put(self.gradients, merged)
            self._mark(chosen, True)
        elif ex.carries_mass:
            desk.mass = float(merged[-1])
            chosen.put(self.parameters, merged[:-1] / desk.mass)
        elif ex.payload is Payload.DELTAS:
            self._agree(desk, mine, desk.memory["anchor"] + merged)
        elif ex.synchrony.delay:  # what was gained since sending is kept
            chosen.put(self.parameters, chosen.take(self.parameters) + (merged - mine))
        else:
            chosen.put(self.parameters, merged)

    def _take_in(self, desk: Desk, mine: Tensor, mixed: Tensor) -> None:
        if desk.exchange.carries_mass and desk.exchange.synchrony.delay:
            self._arrive(desk, mixed)
        else:
            self._merge(desk, mine, mixed)

    def _arrive(self, desk: Desk, others: Tensor) -> None:
        """What others sent away some steps ago comes in, values times mass and mass; both are added."""
        values = desk.chosen.take(self.parameters) * desk.mass + others[:-1]
        desk.mass += float(others[-1])
        desk.chosen.put(self.parameters, values / desk.mass)

    def _share(self, slot: int, step: int) -> float:
        """The weight with which a member hears itself."""
        ex = self.desks[slot].exchange
        return hears(ex.topology, self.member, ex.round(step), self.world, slot)[self.member]

    def _adopt(self, desk: Desk, mine: Tensor, values: Tensor) -> None:
        if desk.exchange.payload is Payload.DELTAS:
            self._agree(desk, mine, values)
        elif desk.exchange.payload is Payload.PARAMETERS:
            self._merge(desk, mine, values)
        else:
            desk.chosen.put(self.parameters, values)

    def _agree(self, desk: Desk, mine: Tensor, agreed: Tensor) -> None:
        """Start from what was agreed on, keeping what was gained since the delta was sent."""
        gained = (
            desk.chosen.take(self.parameters) - (desk.memory["anchor"] + mine)
            if desk.exchange.synchrony.delay
            else None
        )
        agreed = agreed.to(self.parameters.dtype)  # 16-bit wires are heard in 32 bits; what is kept is what is held
        desk.memory["anchor"] = agreed.clone()
        desk.chosen.put(self.parameters, agreed if gained is None else agreed + gained)

    def _mark(self, chosen: Chosen, fresh: bool) -> None:
        for place in chosen.places:
            self._fresh[place] = fresh

    def _chance(self, slot: int, step: int) -> Chance:
        return Chance(self.world.seed, slot, step, self.member)


def conclude(conversation: Generator[Wire, Any, T], last: object) -> T:
    """Send a conversation the last thing it will hear; what it comes to."""
    try:
        conversation.send(last)
    except StopIteration as end:
        found: T = end.value
        return found
    raise AssertionError("the conversation was not over")
