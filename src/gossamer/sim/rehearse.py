"""The rehearsal: N replicas in one process, real gradients, virtual time. Performs phases, knows no named system."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import functional_call

from gossamer.parts.codec import Heard, Wire
from gossamer.parts.payload import Payload
from gossamer.parts.topology import Neighbours
from gossamer.parts.trouble import Script
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records import SERVED, Evaluation, Event, StepRecord
from gossamer.replica import Answer, Hub, Layout, Replica, conclude
from gossamer.sim import prices
from gossamer.sim.clock import PARK, TURN, Clock, Life, Turns
from gossamer.sim.cluster import Cluster
from gossamer.sim.gradients import Gradients
from gossamer.sim.office import Office
from gossamer.strategy import AnyStrategy, Compute, Meet, Send, Settle, Update, fits, phases, slots
from gossamer.tasks import Stream, Task, evaluate


@dataclass(frozen=True)
class Plan:
    """What is rehearsed: who trains what, how long, on which imagined machines, with which trouble."""

    task: Task
    strategy: AnyStrategy
    world: World
    optimizer: Optimizer = Optimizer()
    batch: int = 32
    steps: int = 100
    cluster: Cluster = Cluster()
    trouble: Script = Script()
    evaluate_every: int = 0  # steps between evaluations; 0: only at the end
    order: tuple[int, ...] | None = None  # members in the order their steps' visible parts happen, instead of a clock


@dataclass
class Outcome:
    """Everything that happened, and the replicas as they ended."""

    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    replicas: Tensor = field(default_factory=lambda: torch.empty(0))
    model: Tensor = field(default_factory=lambda: torch.empty(0))
    order: list[int] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class _Hub:
    """A hub and the two directions of its link."""

    hub: Hub
    inward: prices.Lane = field(default_factory=prices.Lane)
    outward: prices.Lane = field(default_factory=prices.Lane)


@dataclass
class _Step:
    """What a member notes down during one step."""

    spans: dict[str, float]
    staleness: int = 0
    dropped: int = 0
    loss: float = 0.0


class Rehearsal:
    """One rehearsal; `run` plays it and returns what happened."""

    def __init__(self, plan: Plan, watch: Callable[[Outcome, int], None] | None = None) -> None:
        fits(plan.strategy, plan.world)
        plan.optimizer.suits(plan.strategy)
        plan.trouble.fits(plan.world.size)
        self.plan, self.world, self.watch = plan, plan.world, watch
        self.cluster = plan.cluster if plan.order is None else Cluster(compute=(0.0,), latency=0.0, rate=1e15)
        self.layout = Layout(plan.task.model)
        self.stream = Stream(plan.task.size, plan.batch, plan.world)
        size, start = plan.world.size, self.layout.start
        self.parameters, self.slopes = start.new_empty(size, len(start)), start.new_zeros(size, len(start))
        self.replicas = [
            Replica(
                m,
                self.world,
                plan.strategy,
                self.layout,
                (self.parameters[m], self.slopes[m]),
                plan.optimizer,
            )
            for m in range(size)
        ]
        self.gradients = Gradients(plan.task, self.layout, self.parameters, self.slopes)
        self.exchanges = slots(plan.strategy)
        self.office = Office(self.exchanges, self.world, self.cluster)
        self.hubs = {slot: self._hub(slot) for slot, ex in enumerate(self.exchanges) if ex.hub}
        self.outcome = Outcome()
        self.done = [0] * size
        self.dead: set[int] = set()
        self._total = 0
        self._gated: set[int] = set()
        self._speaking: dict[tuple[int, int, int], Generator[Wire, Heard, None]] = {}
        self._pushing: dict[tuple[int, int], deque[Generator[Wire, Answer, None]]] = {}
        self._answers: dict[tuple[int, int], deque[tuple[float, float, Answer]]] = {}
        self._under_way: dict[tuple[int, int, int], tuple[int, Wire]] = {}
        self._sent: list[dict[int, int]] = [{} for _ in range(size)]
        self._heard: list[dict[int, int]] = [{} for _ in range(size)]
        self.clock: Clock | Turns = Clock([])

    def run(self) -> Outcome:
        """Play the plan to its end."""
        lives = [self._life(member) for member in range(self.world.size)]
        goal = self.plan.steps * self.world.size
        if self.plan.order is not None:
            self.clock = turns = Turns(lives)
            turns.run(self.plan.order)
        else:
            self.clock = clock = Clock(lives)
            clock.run(lambda: self._total >= goal)
            self._stuck(goal)
        self.outcome.seconds = self.clock.now
        for member, slot, step in list(self._under_way):  # a delayed push of a step that is done still counts
            if step < self.done[member]:
                self._arrive(member, slot, step)
        for member, sent in enumerate(self._sent):
            if sent:
                self.outcome.events.append(Event(self.clock.now, SERVED, member, sent))
        self.outcome.replicas, self.outcome.model = self.parameters, self.model()
        if not self.outcome.evaluations or self.outcome.evaluations[-1].steps < self._total:
            self._evaluate()
        return self.outcome

    def model(self) -> Tensor:
        """The exact average of the live replicas, weighted by mass; what a hub owns is taken from the hub."""
        live = [replica for replica in self.replicas if replica.member not in self.dead]
        average = self.parameters[[replica.member for replica in live]].mean(0)
        for slot, ex in enumerate(self.exchanges):
            chosen = self.replicas[0].desks[slot].chosen
            if ex.carries_mass:
                mass = sum(replica.desks[slot].mass for replica in live)
                parts = [replica.shown(slot) * (replica.desks[slot].mass / mass) for replica in live]
                chosen.put(average, torch.stack(parts).sum(0))
            elif ex.hub and ex.payload is not Payload.PARAMETERS:
                chosen.put(average, self.hubs[slot].hub.centre)
        return average

    def _hub(self, slot: int) -> _Hub:
        ex, chosen = self.exchanges[slot], self.replicas[0].desks[slot].chosen
        return _Hub(Hub(ex, chosen, chosen.take(self.layout.start), self.world, self.plan.optimizer))

    def _life(self, member: int) -> Life:
        replica, step = self.replicas[member], 0
        while True:
            if self.plan.trouble.fatal(member, step):
                self._die(member, step)
                return
            note = _Step({"compute": 0.0, "send": 0.0, "wait": 0.0})
            for phase in phases(self.plan.strategy, step):
                match phase:
                    case Compute(gate):
                        yield from self._compute(member, step, gate, note)
                        yield TURN
                    case Send(slot):
                        self._send(member, slot, step)
                    case Settle(slot, sent):
                        yield from self._settle(member, slot, sent, note)
                    case Meet(slot):
                        yield from self._meet(member, slot, step, note)
                    case Update():
                        replica.update()
            self._record(member, step, note)
            step += 1

    def _compute(self, member: int, step: int, gate: int | None, note: _Step) -> Life:
        began = self.clock.now
        while gate is not None and step - min(self.done[m] for m in self._live()) > gate:
            self._gated.add(member)
            yield PARK
        note.spans["wait"] += self.clock.now - began
        self.replicas[member].begin(step)
        self.gradients.ask(member, self.stream.indices(member, step))
        seconds = self.cluster.seconds(member, step, self.world.seed, self.plan.trouble)
        if seconds:
            yield self.clock.now + seconds
        note.spans["compute"] += seconds
        note.loss = self.gradients.loss(member)

    def _send(self, member: int, slot: int, step: int) -> None:
        if self.exchanges[slot].hub:
            self._push(member, slot, step)
            return
        speaking = self.replicas[member].exchange(slot, step)
        self._speaking[member, slot, step] = speaking
        self._post(member, slot, step, 0, next(speaking))

    def _post(self, member: int, slot: int, step: int, turn: int, wire: Wire) -> None:
        key = (slot, step, turn)
        self._count(self._sent, member, slot, self.office.post(key, member, wire, self.clock.now))
        for other in self.office.waiters(key, member):
            self.clock.wake(other)

    def _settle(self, member: int, slot: int, sent: int, note: _Step) -> Life:
        if self.exchanges[slot].hub:
            yield from self._take_answer(member, slot, note)
            return
        note.staleness = max(note.staleness, self.exchanges[slot].synchrony.delay)
        speaking, turn = self._speaking.pop((member, slot, sent)), 0
        while True:
            key, began = (slot, sent, turn), self.clock.now
            while self.office.missing(key, member):
                yield PARK
            mail = self.office.hear(key, member)
            if mail.time > self.clock.now:
                yield mail.time
            self._split(note, began, mail.transfer)
            self._count(self._heard, member, slot, mail.nbytes)
            try:
                wire = speaking.send(mail.heard)
            except StopIteration:
                return
            turn += 1
            self._post(member, slot, sent, turn, wire)

    def _meet(self, member: int, slot: int, step: int, note: _Step) -> Life:
        ex, replica, began = self.exchanges[slot], self.replicas[member], self.clock.now
        if ex.hub:
            self._push(member, slot, step)
            yield from self._take_answer(member, slot, note)
            return
        mixing = ex.topology.mixing(member, ex.round(step), self.world, slot)
        assert isinstance(mixing, Neighbours)
        partners = [other for other in mixing.weights if other != member]
        if any(other in self.dead for other in partners):  # nobody answers: nothing is heard
            return
        shown = {other: self.replicas[other].shown(slot) for other in partners}
        replica.pull(slot, mixing.weights, shown)
        seconds = 0.0
        for other, tensor in shown.items():
            self._count(self._sent, other, slot, tensor.nbytes)
            self._count(self._heard, member, slot, tensor.nbytes)
            seconds += self.cluster.latency + prices.message(self.cluster, tensor.nbytes)
            note.staleness = max(note.staleness, step - self.done[other])
        if seconds:
            yield began + seconds
        self._split(note, began, seconds)

    def _push(self, member: int, slot: int, step: int) -> None:
        replica, kept = self.replicas[member], self.hubs[slot]
        round = replica.desks[slot].round
        pushing = replica.push(slot, step)
        wire = next(pushing)
        self._pushing.setdefault((member, slot), deque()).append(pushing)
        nbytes = wire.body.nbytes
        self._count(self._sent, member, slot, nbytes)
        arrival = kept.inward.take(self.clock.now, nbytes / self.cluster.rate) + self.cluster.latency
        self._under_way[member, slot, step] = (round, wire)
        self.clock.call(arrival, lambda: self._arrive(member, slot, step))

    def _arrive(self, member: int, slot: int, step: int) -> None:
        round, wire = self._under_way.pop((member, slot, step))
        self._answered(slot, self.hubs[slot].hub.push(member, round, wire))

    def _answered(self, slot: int, answers: Sequence[tuple[int, Answer]]) -> None:
        kept, now = self.hubs[slot], self.clock.now
        for member, answer in answers:
            nbytes = answer.values.nbytes
            transfer = prices.message(self.cluster, nbytes)
            arrival = kept.outward.take(now, nbytes / self.cluster.rate) + self.cluster.latency
            self._answers.setdefault((member, slot), deque()).append((arrival, 2 * transfer, answer))
            self.clock.wake(member)

    def _take_answer(self, member: int, slot: int, note: _Step) -> Life:
        key, began = (member, slot), self.clock.now
        while not self._answers.get(key):
            yield PARK
        arrival, transfer, answer = self._answers[key].popleft()
        if arrival > self.clock.now:
            yield arrival
        self._split(note, began, transfer)
        self._count(self._heard, member, slot, answer.values.nbytes)
        note.staleness = max(note.staleness, answer.staleness)
        note.dropped += answer.dropped
        conclude(self._pushing[key].popleft(), answer)

    def _record(self, member: int, step: int, note: _Step) -> None:
        self.done[member] = step + 1
        sent, self._sent[member] = self._sent[member], {}
        heard, self._heard[member] = self._heard[member], {}
        record = StepRecord(
            member, step, self.clock.now, note.loss, note.spans, sent, heard, note.staleness, note.dropped
        )
        self.outcome.steps.append(record)
        self.outcome.order.append(member)
        self._total += 1
        self._open_gates()
        every = self.plan.evaluate_every * self.world.size
        if every and self._total % every == 0:
            self._evaluate()
        if self.watch is not None:
            self.watch(self.outcome, self._total)

    def _evaluate(self) -> None:
        model = self.model()
        named = self.layout.named(model)
        loss, accuracy = evaluate(self.plan.task, lambda *inputs: functional_call(self.plan.task.model, named, inputs))
        spread = (self.parameters[self._live()] - model).square().sum(1).mean().sqrt() / model.norm().clamp_min(1e-30)
        steps = self._total
        epochs = steps * self.plan.batch / self.plan.task.size
        self.outcome.evaluations.append(Evaluation(self.clock.now, steps, epochs, loss, accuracy, float(spread)))

    def _die(self, member: int, step: int) -> None:
        self.dead.add(member)
        self.outcome.events.append(Event(self.clock.now, f"member {member} died as it began step {step}", member))
        for slot, kept in self.hubs.items():
            self._answered(slot, kept.hub.leave(member))
        self._open_gates()

    def _open_gates(self) -> None:
        for other in self._gated:
            self.clock.wake(other)
        self._gated = set()

    def _stuck(self, goal: int) -> None:
        if self._total >= goal:
            return
        waiting = ", ".join(str(member) for member in sorted(self.clock.parked)) or "nobody"
        gone = ", ".join(str(member) for member in sorted(self.dead))
        what = (
            f"the run stands still after {self._total} of {goal} steps: members {waiting} wait for {gone}, which died"
        )
        self.outcome.events.append(Event(self.clock.now, what))

    def _live(self) -> list[int]:
        return [member for member in range(self.world.size) if member not in self.dead]

    def _split(self, note: _Step, began: float, transfer: float) -> None:
        """Seconds since `began` were transfer as far as the transfer took, and waiting for the rest."""
        passed = self.clock.now - began
        note.spans["send"] += min(transfer, passed)
        note.spans["wait"] += max(0.0, passed - transfer)

    def _count(self, tally: list[dict[int, int]], member: int, slot: int, nbytes: int) -> None:
        if nbytes:
            tally[member][slot] = tally[member].get(slot, 0) + nbytes


def rehearse(plan: Plan, watch: Callable[[Outcome, int], None] | None = None) -> Outcome:
    """Play a plan in virtual time; `watch(outcome, steps done)` is called after every step of every member."""
    return Rehearsal(plan, watch).run()
