"""The real run of one replica: performs phases on a fabric, on the wall clock. It knows no named system and no loop.

Whoever owns the loop calls `begin` before a step computes, may `send` buckets while backward runs, calls `mix` when the
gradients are there, then `before` and `after` around the update. The job's loop and the user's own are played alike.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from gossamer.engine.counter import Counter
from gossamer.engine.fabrics import Fabric, Key, Pending
from gossamer.engine.lines import Lines
from gossamer.engine.pushing import Pushing
from gossamer.engine.reach import Reach
from gossamer.engine.service import Service
from gossamer.engine.shards import SMALLEST, hubs_of, shared_out
from gossamer.engine.turns import Turns
from gossamer.engine.upkeep import Upkeep
from gossamer.engine.visits import Visits
from gossamer.parts.codec import Heard, Wire
from gossamer.parts.payload import Payload
from gossamer.parts.topology import Everyone, Neighbours
from gossamer.records import SERVED, Event, Note, StepRecord
from gossamer.replica import Chosen, Hub, Replica
from gossamer.replica.hub import Builder
from gossamer.replica.joined import State
from gossamer.strategy import Compute, Meet, Phase, Send, Settle, Update, at, slots

Speaking = tuple[Generator[Wire, Heard, None], Pending]


class Stepper:
    """One member's replica, fabric and counters. Exchanges that may be cut are sent in `buckets`, slot by slot; a
    member's shard of a hub has as many elements as `smallest`, or more."""

    def __init__(
        self,
        replica: Replica,
        fabric: Fabric,
        carrier: Lines | Reach | None,
        turns: Turns,
        optimizer: Builder,
        buckets: Mapping[int, list[Chosen]] | None = None,
        smallest: int = SMALLEST,
    ) -> None:
        self.replica, self.fabric, self.turns = replica, fabric, turns
        self.strategy, self.world, self.member = replica.strategy, replica.world, replica.member
        self.exchanges = slots(self.strategy)
        self.buckets: Mapping[int, list[Chosen]] = buckets or {}
        self._read: torch.Tensor | None = None
        self.visits: Visits | Reach | None = None
        self._look()
        self._hubs: dict[int, Hub] = {}
        if isinstance(carrier, Reach):
            self.visits = carrier
            carrier.join(replica, turns)
        elif carrier is not None and any(ex.hub or ex.meets for ex in self.exchanges):
            self.visits = self._served(carrier, optimizer, smallest)
        self.began, self.step = time.perf_counter(), 0
        self.waiting: float | None = None
        self.note = Note()
        self._sent: list[int] = []  # buckets that have left, by slot, in this step
        self._speaking: dict[tuple[int, int], list[Speaking]] = {}
        self._rested = 0  # the step before which nothing that was pushed is still unanswered
        self._gated = any(ex.meets and ex.synchrony.staleness is not None for ex in self.exchanges)

    def _served(self, lines: Lines, optimizer: Builder, smallest: int) -> Visits:
        """Visits over lines: hubs are shared out among servers, or among members where that is worth it."""
        layout = self.replica.layout
        owners, least = (lines.servers, 1) if lines.servers else (range(self.world.size), smallest)
        kept = shared_out(self.exchanges, layout, optimizer, owners, least)
        self._hubs = hubs_of(self.member, kept, self.exchanges, layout, self.world, optimizer)
        counter = Counter(lines, acknowledged=self.turns.scripted)
        service = Service(lines, self._hubs, self.replica, acknowledge=self.turns.scripted)
        service.open()
        pushing = Pushing(self.replica, service, counter, self.turns, kept, optimizer.settings)
        upkeep = Upkeep(self.replica, service, counter, kept)
        upkeep.begin()
        return Visits(self.replica, service, counter, pushing, upkeep)

    @property
    def hubs(self) -> dict[int, Hub]:
        """The hubs that this member keeps, as they are now."""
        return self.visits.hubs if isinstance(self.visits, Reach) else self._hubs

    def stepped_at_hubs(self) -> list[int]:
        """The slots whose hubs step in the step that was begun last."""
        return [slot for slot, ex in at(self.strategy, self.step) if ex.updates_at_hub]

    @property
    def here(self) -> torch.Tensor:
        """Where the next gradient is taken: the parameters, or a copy of them where others may write meanwhile."""
        return self.replica.parameters if self._read is None else self._read

    def begin(self, step: int) -> None:
        """A step begins, as soon as the slowest member is near enough."""
        self.note, self.step = Note(), step
        self._sent = [0] * len(self.exchanges)
        gate = next(phase.gate for phase in self.replica.phases(step) if isinstance(phase, Compute))
        with self.span("wait"):
            self.turns.gate(step, gate)
        with self.still():
            self.replica.begin(step)

    def open(self, step: int) -> list[int]:
        """A backward begins, maybe not the first of the step: no bucket has left; which exchanges will, by slot."""
        self._sent = [0] * len(self.exchanges)
        leaving = [phase for phase in self.replica.phases(step) if isinstance(phase, Send)]
        return [phase.slot for phase in leaving if self._of_gradients(phase)]

    def mix(self, step: int) -> None:
        """The gradients are there: exchange those that no hub steps."""
        self.replica.computed()
        with self.span("wait"):
            self.turns.take()
        for phase in self.replica.phases(step):
            if self._of_gradients(phase):
                self._play(phase, step)

    def before(self, step: int) -> bool:
        """Play what comes between the gradients and the update; whether there is an update that no hub makes."""
        for phase in self.replica.phases(step):
            if isinstance(phase, Update):
                return True
            if not self._of_gradients(phase):
                self._play(phase, step)
        return False

    @contextmanager
    def updating(self) -> Iterator[None]:
        """While the parameters are stepped, nobody reads them."""
        with self.still(), self.replica.updating():
            yield

    def after(self, step: int) -> StepRecord:
        """Play what comes after the update, and sum the step up."""
        updated = False
        for phase in self.replica.phases(step):
            if updated:
                self._play(phase, step)
            updated = updated or isinstance(phase, Update)
        if self.visits is not None:
            self.visits.completed(step + 1)
        self._tally()
        self._look()
        self.turns.give_way()
        if self._gated:
            self.turns.tell(step + 1)
        return self.note.record(self.member, step, time.perf_counter() - self.began)

    def finish(self, step: int, optimizer: torch.optim.Optimizer) -> StepRecord:
        """All that is left of a step whose gradients are mixed, with the replica's own optimizer."""
        if self.before(step):
            with self.span("compute"), self.still():
                self.replica.update(optimizer)
        return self.after(step)

    def send(self, slot: int, step: int, count: int) -> None:
        """Let the first `count` buckets of an exchange leave, those that have not left yet; never waits."""
        buckets = self.buckets[slot]
        while self._sent[slot] < count:
            number = self._sent[slot]
            self._sent[slot] += 1
            self._speak(slot, step, number, buckets[number])

    def meet(self) -> None:
        """This member goes where all meet (an evaluation, a save): whoever a quorum left behind must get there, too."""
        for slot, exchange in enumerate(self.exchanges):
            if exchange.leaves_behind and self.visits is not None:
                self.visits.gather(slot)

    def rest(self, step: int) -> None:
        """Between two steps: hear out all that is under way, so that nothing of this member is on a wire.

        What is due at a later step is held until then, so nothing changes for who rests; answers of hubs are taken up.
        """
        self.note, self.replica.holding = Note(), True
        for slot, sent in sorted(self._speaking):
            for speaking, pending in self._speaking.pop((slot, sent)):
                self._hear_out(Key(slot, sent, 0), speaking, pending)
        self.replica.holding = False
        if self.visits is not None:
            self.visits.rest(self.note)
        delays = {slot: ex.synchrony.delay for slot, ex in enumerate(self.exchanges)}
        self.replica.held = {key: held for key, held in self.replica.held.items() if key[1] + delays[key[0]] >= step}
        self._rested = step

    def kept(self) -> str:
        """The shards that are lost with this member, in words."""
        return self.visits.kept if isinstance(self.visits, Visits) else ""

    def hub_bounds(self) -> dict[int, list[tuple[int, int]]]:
        """By slot, the stretches of hubs whose states are this member's to keep."""
        return {} if self.visits is None else self.visits.bounds

    def hub_states(self, *, first: bool) -> dict[int, list[State]]:
        """Their states; who is the first of those that are left speaks for hubs that live with no member."""
        return {} if self.visits is None else self.visits.states(first=first)

    def resume(self, step: int, hubs: Mapping[int, Sequence[State]]) -> None:
        """Parameters and memories are those of another run that rested before this step; what it kept of `hubs`."""
        self._rested = self.step = step
        if self.visits is not None:
            self.visits.completed(step)
            self.visits.resume(hubs)
        if self._gated:
            self.turns.tell(step)
        self._look()

    def close(self) -> Event:
        """Hear out what is still under way, and serve the others until they are done too."""
        for speaking in self._speaking.values():
            for _, pending in speaking:
                pending.wait()
        self._speaking.clear()
        self.fabric.close()
        if self.visits is not None:
            self.visits.close()
        self.note = Note()
        self._tally()
        return Event(time.perf_counter() - self.began, SERVED, self.member, self.note.sent)

    def _of_gradients(self, phase: Phase) -> bool:
        """Whether it belongs to an exchange of gradients among members, which is over before the update begins."""
        if not isinstance(phase, Send | Settle):
            return False
        exchange = self.exchanges[phase.slot]
        return exchange.payload is Payload.GRADIENTS and not exchange.hub

    def _play(self, phase: Phase, step: int) -> None:
        match phase:
            case Send(slot):
                self._send(slot, step)
            case Settle(slot, sent):
                self._settle(slot, sent)
            case Meet(slot):
                assert self.visits is not None
                with self.span("wait"):
                    self.visits.meet(slot, step, self.note)
            case Compute() | Update():
                pass

    def _look(self) -> None:
        """Where others may write to the parameters meanwhile, the next gradient is taken at what they are now."""
        if any(ex.topology.trades for ex in self.exchanges):
            with self.still():
                self._read = torch.empty_like(self.replica.parameters) if self._read is None else self._read
                self._read.copy_(self.replica.parameters)

    def _send(self, slot: int, step: int) -> None:
        if self.exchanges[slot].hub:
            assert self.visits is not None
            with self.span("send"):
                self.visits.push(slot, step, self.note)
        elif slot in self.buckets:
            self.send(slot, step, len(self.buckets[slot]))
        else:
            self._speak(slot, step, None, None)

    def _speak(self, slot: int, step: int, number: int | None, bucket: Chosen | None) -> None:
        """Begin the conversation of an exchange, or of one bucket of it."""
        with self.span("encode"):
            speaking = self.replica.exchange(slot, step, bucket)
            wire = next(speaking)
        with self.span("send"):
            pending = self._mix(Key(slot, step, 0, number), wire)
        self._speaking.setdefault((slot, step), []).append((speaking, pending))

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
            assert self.visits is not None
            with self.span("wait"):
                if sent >= self._rested:
                    self.visits.take_answer(slot, self.note)
            return
        self.note.aged(self.exchanges[slot].synchrony.delay)
        self.turns.give_way()
        if (slot, sent) in self.replica.held:
            with self.still():
                self.replica.release(slot, sent)
            return
        for number, (speaking, pending) in enumerate(self._speaking.pop((slot, sent))):
            self._hear_out(Key(slot, sent, 0, number if slot in self.buckets else None), speaking, pending)

    def _hear_out(self, key: Key, speaking: Generator[Wire, Heard, None], pending: Pending) -> None:
        """Go on with a conversation until it is over."""
        while True:
            with self.span("wait"):
                heard = pending.wait()
            with self.span("decode"), self.still():
                try:
                    wire = speaking.send(heard)
                except StopIteration:
                    return
            key = Key(key.slot, key.step, key.turn + 1, key.bucket)
            with self.span("send"):
                pending = self._mix(key, wire)

    def _tally(self) -> None:
        """Note what the fabric moved, and what was served to others since the last record."""
        for slot, nbytes in self.fabric.sent.items():
            self.note.send(slot, nbytes)
        for slot, nbytes in self.fabric.heard.items():
            self.note.hear(slot, nbytes)
        for slot, nbytes in self.fabric.crossed.items():
            self.note.cross(slot, nbytes)
        self.fabric.sent.clear()
        self.fabric.heard.clear()
        self.fabric.crossed.clear()
        self.note.truth += self.replica.looks.told()
        if self.visits is not None:
            self.note.join(self.visits.told())

    def still(self) -> AbstractContextManager[object]:
        """Hold the parameters still against readers while they change."""
        return self.visits.still() if self.visits is not None else nullcontext()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Count the seconds of what happens within; waits can be seen from outside while they last."""
        began = time.perf_counter()
        self.waiting = began if name == "wait" else None
        try:
            yield
        finally:
            self.waiting = None
            self.note.spans[name] = self.note.spans.get(name, 0.0) + time.perf_counter() - began
