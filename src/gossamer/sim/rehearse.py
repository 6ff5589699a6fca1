"""The rehearsal: N replicas in one process, real gradients, virtual time. Performs phases, knows no named system."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.func import functional_call

from gossamer.parts.codec import Heard, Wire
from gossamer.parts.payload import Payload
from gossamer.records import SERVED, Evaluation, Event, Note
from gossamer.replica import Hub, Layout, Replica, conclude
from gossamer.sim.clock import PARK, TURN, Clock, Life, Turns
from gossamer.sim.gradients import Gradients
from gossamer.sim.line import Line
from gossamer.sim.links import Links
from gossamer.sim.machines import Machines
from gossamer.sim.meetings import Meetings
from gossamer.sim.office import Office
from gossamer.sim.plan import Outcome, Plan
from gossamer.strategy import Compute, Meet, Send, Settle, Update, at, slots
from gossamer.tasks import Stream, evaluate

TIMELESS = Machines(compute=(0.0,), latency=0.0, rate=1e15)  # what a scripted order is played on

Watch = Callable[[Outcome, int], None]


def rehearse(plan: Plan, watch: Watch | None = None) -> Outcome:
    """Play a plan in virtual time; `watch(outcome, steps done)` is called after every step of every member."""
    return Rehearsal(plan, watch).run()


class Rehearsal:
    """One rehearsal; `run` plays it and returns what happened."""

    def __init__(self, plan: Plan, watch: Watch | None = None) -> None:
        plan.check()
        self.plan, self.world, self.watch = plan, plan.world, watch
        self.machines = plan.machines if plan.order is None else TIMELESS
        self.layout = Layout(plan.task.model)
        self.stream = Stream(plan.task.size, plan.batch, plan.world)
        size, start = plan.world.size, self.layout.start
        self.parameters, slopes = start.new_empty(size, len(start)), start.new_zeros(size, len(start))
        self.replicas = [
            Replica(m, self.world, plan.strategy, self.layout, (self.parameters[m], slopes[m])) for m in range(size)
        ]
        for replica in self.replicas:
            replica.looks.every = plan.truth
        self.optimizers = [plan.optimizer.build(replica.views) for replica in self.replicas]
        self.gradients = Gradients(plan.task, self.layout, self.world, self.parameters, slopes)
        self.exchanges = slots(plan.strategy)
        self.links = Links(self.machines)
        self.office = Office(self.exchanges, self.world, self.links)
        self.hubs = {slot: self._line(slot) for slot, ex in enumerate(self.exchanges) if ex.hub}
        self.notes = [Note() for _ in range(size)]
        self.outcome = Outcome()
        self.done = [0] * size
        self.dead: set[int] = set()
        self.clock: Clock | Turns = Clock([])
        self.meetings = Meetings(self)
        self._total = 0
        self._gated: set[int] = set()
        self._speaking: dict[tuple[int, int, int], Generator[Wire, Heard, None]] = {}

    def run(self) -> Outcome:
        """Play the plan to its end."""
        lives = [self._life(member) for member in range(self.world.size)]
        goal = self.plan.steps * self.world.size
        if self.plan.order is not None:
            self.clock = turns = Turns(lives)
            turns.run(self.plan.order, self._at_once)
        else:
            self.clock = clock = Clock(lives)
            clock.run(lambda: self._total >= goal)
            self._stuck(goal)
        self._end()
        return self.outcome

    def model(self) -> Tensor:
        """The exact average of the live replicas, weighted by mass; what a hub owns is taken from the hub."""
        live = [self.replicas[member] for member in self._live()]
        average = self.parameters[self._live()].mean(0)
        for slot, ex in at(self.plan.strategy, max(0, min(self.done[member] for member in self._live()) - 1)):
            chosen = self.replicas[0].desks[slot].chosen
            if ex.carries_mass:
                mass = sum(replica.desks[slot].mass for replica in live)
                parts = [replica.shown(slot) * (replica.desks[slot].mass / mass) for replica in live]
                chosen.put(average, torch.stack(parts).sum(0))
            elif ex.hub and ex.payload is not Payload.PARAMETERS:
                chosen.put(average, self.hubs[slot].hub.centre)
        return average

    def _line(self, slot: int) -> Line:
        chosen = self.replicas[0].desks[slot].chosen
        hub = Hub(self.exchanges[slot], chosen, chosen.take(self.layout.start), self.world, self.plan.optimizer)
        return Line(f"hub of slot {slot}", hub, self.links)

    def _life(self, member: int) -> Life:
        step = 0
        while not self.plan.trouble.fatal(member, step):
            for phase in self.replicas[member].phases(step):
                match phase:
                    case Compute(gate):
                        yield from self._compute(member, step, gate)
                        yield TURN
                    case Send(slot):
                        self._send(member, slot, step)
                    case Settle(slot, sent):
                        yield from self._settle(member, slot, sent)
                    case Meet(slot):
                        yield from self._meet(member, slot, step)
                    case Update():
                        self.replicas[member].update(self.optimizers[member])
            self._record(member, step)
            step += 1
        self._die(member, step)

    def _compute(self, member: int, step: int, gate: int | None) -> Life:
        began, note = self.clock.now, self.notes[member]
        while gate is not None and step - min(self.done[m] for m in self._live()) > gate:
            self._gated.add(member)
            yield PARK
        note.spans["wait"] += self.clock.now - began
        self.replicas[member].begin(step)
        self.gradients.ask(member, step, self.stream.indices(member, step))
        seconds = self.machines.seconds(member, step, self.world.seed, self.plan.trouble)
        yield self.clock.now + seconds
        note.spans["compute"] += seconds
        note.loss = self.gradients.loss(member)
        self.replicas[member].computed()

    def _send(self, member: int, slot: int, step: int) -> None:
        if self.exchanges[slot].hub:
            self._push(member, slot, step)
            return
        speaking = self.replicas[member].exchange(slot, step)
        self._speaking[member, slot, step] = speaking
        self._post(member, (slot, step, 0), next(speaking))

    def _post(self, member: int, key: tuple[int, int, int], wire: Wire) -> None:
        self.notes[member].send(key[0], self.office.post(key, member, wire, self.clock.now))
        self._wake(self.office.waiters(key, member))

    def _settle(self, member: int, slot: int, sent: int) -> Life:
        if self.exchanges[slot].hub:
            yield from self._take_answer(member, slot)
            return
        note = self.notes[member]
        note.aged(self.exchanges[slot].synchrony.delay)
        speaking, turn = self._speaking.pop((member, slot, sent)), 0
        while True:
            key, began = (slot, sent, turn), self.clock.now
            while self.office.missing(key, member):
                yield PARK
            mail = self.office.hear(key, member)
            if mail.time > self.clock.now:
                yield mail.time
            note.passed(self.clock.now - began, mail.transfer)
            note.hear(slot, mail.nbytes)
            try:
                wire = speaking.send(mail.heard)
            except StopIteration:
                return
            turn += 1
            self._post(member, (slot, sent, turn), wire)

    def _meet(self, member: int, slot: int, step: int) -> Life:
        ex = self.exchanges[slot]
        if ex.hub:
            self._push(member, slot, step)
            yield from self._take_answer(member, slot)
            return
        mixing = ex.topology.mixing(member, ex.round(step), self.world, slot)
        yield from self.meetings.play(member, slot, step, mixing)

    def _push(self, member: int, slot: int, step: int) -> None:
        replica, line = self.replicas[member], self.hubs[slot]
        round = replica.desks[slot].round()
        arrival, nbytes = line.push(member, step, round, replica.push(slot, step), self.clock.now)
        self.notes[member].send(slot, nbytes)
        self.clock.call(arrival, lambda: self._wake(line.arrive(member, step, self.clock.now)))

    def _take_answer(self, member: int, slot: int) -> Life:
        line, began, note = self.hubs[slot], self.clock.now, self.notes[member]
        while (reply := line.reply(member)) is None:
            yield PARK
        if reply.time > self.clock.now:
            yield reply.time
        note.passed(self.clock.now - began, reply.transfer)
        note.hear(slot, reply.answer.values.nbytes)
        note.aged(reply.answer.staleness)
        note.dropped += reply.answer.dropped
        conclude(line.pushing(member), reply.answer)

    def _record(self, member: int, step: int) -> None:
        self.done[member] = step + 1
        self._total += 1
        self.notes[member].truth = self.replicas[member].looks.told()
        self.outcome.steps.append(self.notes[member].record(member, step, self.clock.now))
        self.outcome.order.append(member)
        self.notes[member] = Note()
        self._open_gates()
        every = self.plan.evaluate_every * self.world.size
        if every and self._total % every == 0:
            self._evaluate()
        if self.watch is not None:
            self.watch(self.outcome, self._total)

    def _evaluate(self) -> None:
        model = self.model()
        named = {**self.layout.named(model), **self.gradients.buffers(self._live())}
        loss, accuracy = evaluate(self.plan.task, lambda *inputs: functional_call(self.plan.task.model, named, inputs))
        spread = (self.parameters[self._live()] - model).square().sum(1).mean().sqrt() / model.norm().clamp_min(1e-30)
        epochs = self._total * self.plan.batch / self.plan.task.size
        evaluation = Evaluation(self.clock.now, self._total, epochs, loss, accuracy, spread.item())
        self.outcome.evaluations.append(evaluation)

    def _die(self, member: int, step: int) -> None:
        self.dead.add(member)
        self.outcome.events.append(Event(self.clock.now, f"member {member} died as it began step {step}", member))
        for line in self.hubs.values():
            self._wake(line.answered(line.hub.leave(member), self.clock.now))
        self._open_gates()

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Pushes that come in the same moment: hubs hear them all before they answer any."""
        for line in self.hubs.values():
            line.hub.rounds.holding = True
        yield
        for line in self.hubs.values():
            line.hub.rounds.holding = False
            self._wake(line.answered(line.hub.free(), self.clock.now))

    def _open_gates(self) -> None:
        gated, self._gated = self._gated, set()
        self._wake(sorted(gated))

    def _wake(self, members: Iterable[int]) -> None:
        for member in members:
            self.clock.wake(member)

    def _stuck(self, goal: int) -> None:
        if self._total >= goal:
            return
        waiting, gone = (
            f"member{'s' * (len(group) > 1)} {', '.join(map(str, sorted(group)))}" if group else ""
            for group in (self.clock.parked, self.dead)
        )
        waits = f"{waiting} wait{'s' * (len(self.clock.parked) == 1)} for {gone or 'others'}"
        why = f"{waits if waiting else gone}{', which died' if gone else ''}"
        what = f"the run stands still after {self._total} of {goal} steps: {why}"  # begins as records.STILL does
        self.outcome.events.append(Event(self.clock.now, what))

    def _end(self) -> None:
        """Let delayed pushes of finished steps count, note what was served late, and look at the final model."""
        for line in self.hubs.values():
            for member, step in line.unheard():
                if step < self.done[member]:
                    line.arrive(member, step, self.clock.now)
        for member, note in enumerate(self.notes):
            if note.sent:
                self.outcome.events.append(Event(self.clock.now, SERVED, member, note.sent))
        self.outcome.seconds = self.clock.now
        self.outcome.replicas, self.outcome.model = self.parameters, self.model()
        if not self.outcome.evaluations or self.outcome.evaluations[-1].steps < self._total:
            self._evaluate()

    def _live(self) -> list[int]:
        """Who is alive; once all are dead, everybody, so that their last model can still be looked at."""
        members = range(self.world.size)
        return [member for member in members if member not in self.dead] or list(members)
