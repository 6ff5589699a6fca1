"""The real run of one member: performs phases on a fabric, on the wall clock. It knows no named system."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import torch

from gossamer.engine.counter import Counter
from gossamer.engine.fabric import Fabric, Key, Pending
from gossamer.engine.lines import Lines
from gossamer.engine.service import Service
from gossamer.engine.turns import Turns
from gossamer.parts.codec import Heard, Wire
from gossamer.parts.topology import Everyone, Into, Neighbours, Pair
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records import SERVED, Event, Note, StepRecord
from gossamer.replica import Answer, Hub, Layout, Local, Replica, conclude
from gossamer.strategy import AnyStrategy, Compute, Meet, Send, Settle, Update, fits, phases, slots
from gossamer.tasks import Stream, Task

PATIENCE = 120.0  # seconds a hub may take to answer before we say that it does not
OWNER = 0  # the member that hubs live with


class Stepper:
    """One member's replica, fabric and counters; `step` plays one step and returns its record."""

    def __init__(
        self,
        task: Task,
        strategy: AnyStrategy,
        world: World,
        optimizer: Optimizer,
        batch: int,
        lines: Lines,
        turns: Turns,
    ) -> None:
        fits(strategy, world)
        optimizer.suits(strategy)
        self.task, self.strategy, self.world, self.turns = task, strategy, world, turns
        self.fabric, self.stream = Fabric(lines.mixes), Stream(task.size, batch, world)
        self.member = self.fabric.member
        layout = Layout(task.model)
        storage = (torch.empty_like(layout.start), torch.zeros_like(layout.start))
        self.replica = Replica(self.member, world, strategy, layout, storage, optimizer)
        self.local = Local(task, layout, world)
        self.exchanges = slots(strategy)
        self.hubs = {
            slot: Hub(ex, desk.chosen, desk.chosen.take(layout.start), world, optimizer)
            for slot, (ex, desk) in enumerate(zip(self.exchanges, self.replica.desks, strict=True))
            if ex.hub and self.member == OWNER
        }
        self._read: torch.Tensor | None = None
        self.service: Service | None = None
        self._look()
        served = any(ex.hub or ex.meets for ex in self.exchanges)
        self.service = Service(lines, self.hubs, self.replica, acknowledge=turns.scripted) if served else None
        self.counter = Counter(lines, acknowledged=turns.scripted)
        self.began = time.perf_counter()
        self._speaking: dict[tuple[int, int], tuple[Generator[Wire, Heard, None], Pending]] = {}
        self._pushing: dict[int, deque[Generator[Wire, Answer, None]]] = {}
        self._note = Note()
        self._gated = any(ex.meets and ex.synchrony.staleness is not None for ex in self.exchanges)

    def step(self, step: int) -> StepRecord:
        """Play one step."""
        self._note = note = Note()
        for phase in phases(self.strategy, step):
            match phase:
                case Compute(gate):
                    with self._span("wait"):
                        self.turns.gate(step, gate)
                    with self._span("compute"):
                        self._compute(step)
                    with self._span("wait"):
                        self.turns.take()
                case Send(slot):
                    with self._span("send"):
                        self._send(slot, step)
                case Settle(slot, sent):
                    with self._span("wait"):
                        self._settle(slot, sent)
                case Meet(slot):
                    with self._span("wait"):
                        self._meet(slot, step)
                case Update():
                    with self._span("compute"), self._still():
                        self.replica.update()
        if self.service is not None:
            with self.service.lock:
                self.service.done = step + 1
        self._tally()
        self._look()
        self.turns.give_way()
        if self._gated:
            self.turns.tell(step + 1)
        return note.record(self.member, step, time.perf_counter() - self.began)

    def close(self) -> Event:
        """Hear out what is still under way, and serve the others until they are done too."""
        for _, pending in self._speaking.values():
            pending.wait()
        self.fabric.close()
        for slot, pushes in self._pushing.items():
            for _ in pushes:
                self._answer(slot)
        if self.service is not None:
            self.service.close()
        self._note = Note()
        self._tally()
        return Event(time.perf_counter() - self.began, SERVED, self.member, self._note.sent)

    def _look(self) -> None:
        """Where others may write to the parameters meanwhile, the next gradient is taken at what they are now."""
        if any(ex.topology.trades for ex in self.exchanges):
            with self._still():
                self._read = torch.empty_like(self.replica.parameters) if self._read is None else self._read
                self._read.copy_(self.replica.parameters)

    def _compute(self, step: int) -> None:
        replica = self.replica
        with self._still():
            replica.begin(step)
        parameters = replica.parameters if self._read is None else self._read
        batch = tuple(part[self.stream.indices(self.member, step)] for part in self.task.train)
        self._note.loss = self.local.gradient(parameters, batch, replica.gradients, (step, self.member))
        replica.computed()

    def _send(self, slot: int, step: int) -> None:
        if self.exchanges[slot].hub:
            self._push(slot, step)
            return
        speaking = self.replica.exchange(slot, step)
        wire = next(speaking)
        self._speaking[slot, step] = (speaking, self._mix(Key(slot, step, 0), wire))

    def _mix(self, key: Key, wire: Wire) -> Pending:
        """Begin the mix the topology asks for."""
        ex, round = self.exchanges[key.slot], self.exchanges[key.slot].round(key.step)
        match ex.topology.mixing(self.member, round, self.world, key.slot):
            case Everyone():
                return self.fabric.everyone(key, wire, ex.route)
            case Neighbours(weights):
                listeners = ex.topology.listeners(self.member, round, self.world, key.slot)
                return self.fabric.neighbours(key, wire, weights, listeners)
            case other:
                raise AssertionError(f"{other} does not mix wires")

    def _settle(self, slot: int, sent: int) -> None:
        if self.exchanges[slot].hub:
            self._take_answer(slot)
            return
        self._note.aged(self.exchanges[slot].synchrony.delay)
        speaking, pending = self._speaking.pop((slot, sent))
        turn = 0
        self.turns.give_way()
        while True:
            heard = pending.wait()
            try:
                with self._still():
                    wire = speaking.send(heard)
            except StopIteration:
                return
            turn += 1
            pending = self._mix(Key(slot, sent, turn), wire)

    def _meet(self, slot: int, step: int) -> None:
        ex = self.exchanges[slot]
        if ex.hub:
            self._push(slot, step)
            self._take_answer(slot)
            return
        match ex.topology.mixing(self.member, ex.round(step), self.world, slot):
            case Neighbours(weights):
                self._pull(slot, step, weights)
            case Into(target):
                self._tell(slot, step, target)
            case Pair(partner):
                self._trade(slot, step, partner)
            case other:
                raise AssertionError(f"{other} is not met")

    def _pull(self, slot: int, step: int, weights: Mapping[int, float]) -> None:
        like, shown = self.replica.shown(slot), {}
        for partner in weights:
            if partner != self.member:
                shown[partner], done = self.counter.pull(partner, slot, like)
                self._note.aged(step - done)
                self._note.hear(slot, shown[partner].nbytes)
        with self._still():
            self.replica.pull(slot, weights, shown)

    def _tell(self, slot: int, step: int, target: int) -> None:
        if target != self.member:
            with self._still():
                mine = self.replica.shown(slot).clone()
            self._note.send(slot, mine.nbytes)
            self.counter.tell(target, slot, step, mine)
        with self._still():
            self.replica.take_up(slot, 2 if target == self.member else 1)

    def _trade(self, slot: int, step: int, partner: int) -> None:
        with self._still():
            mine = self.replica.shown(slot).clone()
        theirs, done = self.counter.trade(partner, slot, mine)
        self._note.send(slot, mine.nbytes)
        self._note.hear(slot, theirs.nbytes)
        self._note.aged(step - done)
        with self._still():
            self.replica.traded(slot, mine, theirs)

    def _push(self, slot: int, step: int) -> None:
        round = self.replica.desks[slot].round
        pushing = self.replica.push(slot, step)
        wire = next(pushing)
        self._pushing.setdefault(slot, deque()).append(pushing)
        self._note.send(slot, wire.body.nbytes)
        if self.member == OWNER:
            assert self.service is not None
            self.service.push(slot, round, wire)
        else:
            self.counter.push(OWNER, slot, round, wire, self.replica.parameters)

    def _take_answer(self, slot: int) -> None:
        self.turns.give_way()
        answer = self._answer(slot)
        self._note.hear(slot, answer.values.nbytes)
        self._note.aged(answer.staleness)
        self._note.dropped += answer.dropped
        with self._still():
            conclude(self._pushing[slot].popleft(), answer)

    def _answer(self, slot: int) -> Answer:
        if self.member == OWNER:
            assert self.service is not None
            return self.service.answer(slot, PATIENCE)
        return self.counter.answer(OWNER, slot, self.replica.parameters)

    def _tally(self) -> None:
        """Note what the fabric moved, and what was served to others since the last record."""
        for slot, nbytes in self.fabric.sent.items():
            self._note.send(slot, nbytes)
        for slot, nbytes in self.fabric.heard.items():
            self._note.hear(slot, nbytes)
        self.fabric.sent.clear()
        self.fabric.heard.clear()
        if self.service is not None:
            with self.service.lock:
                visits, self.service.visits = self.service.visits, Note()
            self._note.join(visits)

    def _still(self) -> threading.Lock | nullcontext[None]:
        """Hold the parameters still against readers while they change."""
        return self.service.lock if self.service is not None else nullcontext()

    @contextmanager
    def _span(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._note.spans[name] += time.perf_counter() - began
