"""Times strategies in which members go on without each other: an event at a time, in the order in which they happen.

Plays every phase there is; `lockstep` is quicker where nobody is ever met.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator, Iterable
from heapq import heappop, heappush, heapreplace
from math import inf

from gossamer.parts.topology import Everyone
from gossamer.sim.cargo import Cargo
from gossamer.sim.drawing import Apart
from gossamer.sim.posts import Posts, Tray
from gossamer.sim.scene import LINKS, Ages, Played, Scene, Span
from gossamer.sim.visits import Visits
from gossamer.sim.ways import Doors, Event, Line
from gossamer.strategy import Compute, Meet, Send, Settle, Update, slots

Life = Generator[float | None, None, None]  # sleeps until a time, or waits to be woken (None)
Met = Generator[float | None, None, tuple[int, float] | None]  # the same; whom it waited for, and until when
NEVER: Event = (inf, 0, 0, 0)
LIFE = -1  # no slot: a member goes on


class Freely:
    """Every member's life, woken by time or by others."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.now, self.played = scene, 0.0, Played()
        self._drawing = Apart(self.played.spans)
        size, self._exchanges = scene.world.size, slots(scene.strategy)
        self._events: list[Event] = []  # of lives; what is under way to hubs and back keeps its order by itself
        self._tick = 0
        self.done, self._total = [0] * size, 0
        self._levels, self._least = Counter({0: size}), 0  # how many members have done so many steps
        self._dead: set[int] = set()
        self._gated: list[int] = []
        self._doors = Doors(scene)
        self._lines = {slot: Line(scene, slot) for slot, ex in enumerate(self._exchanges) if ex.hub}
        self._computes: dict[int, list[float]] = {}
        self._posts = Posts(size)
        self._began, self._took = [0.0] * size, [0.0] * size
        self._said = [f"exchange {slot}" for slot in range(len(self._exchanges))]
        self._lane = 0.0  # when mixes of all may begin: one after the other
        self._ages = Ages()
        self._computed = self._exposed = 0.0
        self._sent: dict[int, float] = dict.fromkeys(range(len(self._exchanges)), 0.0)
        self._visits = Visits(scene, self.done, self._dead, self._sent, self._ages)

    def run(self, steps: int, drawn: int = 0) -> Played:
        """Play until all members together have done `steps` each in the mean."""
        size, self._drawn, self._steps = self.scene.world.size, drawn, steps
        self._lives = [self._life(member) for member in range(size)]
        goal, self._marks = size * steps, [0.0] * steps
        for member in range(size):
            self._at(0.0, member)
        collecting = gc.isenabled()
        gc.disable()  # nothing here is a cycle, and looking for some takes a third of the time
        try:
            self._play(goal)
        finally:
            gc.enable() if collecting else None
        return self._ended(goal)

    def _play(self, goal: int) -> None:
        """One thing after the other, whichever is first: in a life, at a hub, or back from one."""
        events, lines = self._events, list(self._lines.items())
        while self._total < goal:
            first, found, slot = events[0] if events else NEVER, None, 0
            for place, line in lines:
                if line.coming and line.coming[0] < first:
                    first, found, slot = line.coming[0], line.coming, place
                if line.going and line.going[0] < first:
                    first, found, slot = line.going[0], line.going, LIFE
            if first is NEVER:
                return
            self.now, _, member, round = first
            if found is None:
                self._live_on(member)
            elif slot == LIFE:
                found.popleft()
                self._go_on(member)
            else:
                found.popleft()
                self._arrived(member, slot, round)

    def _ended(self, goal: int) -> Played:
        size, played = self.scene.world.size, self.played
        self._drawing.end()
        played.ends = self._marks[: self._total // size]
        played.sent = {slot: nbytes / size for slot, nbytes in self._sent.items() if nbytes}
        played.answered /= size
        played.computed, played.exposed = self._computed / size, self._exposed / size
        played.stale, played.stalest = self._ages.mean, self._ages.most
        if self._total < goal:
            gone = ", ".join(map(str, sorted(self._dead))) or "each other"
            played.stopped = f"after {self._total:,} of {goal:,} steps members wait for {gone}"
        return played

    def _at(self, time: float, member: int) -> None:
        """At that time the member goes on."""
        self._tick += 1
        heappush(self._events, (time, self._tick, member, 0))

    def _go_on(self, member: int) -> None:
        until = next(self._lives[member], None)
        if until is not None:
            self._at(until, member)

    def _live_on(self, member: int) -> None:
        """The same for the one whose event is the first: the next one takes its place, as nothing comes before it."""
        until = next(self._lives[member], None)
        if until is None:
            heappop(self._events)
        else:
            self._tick += 1
            heapreplace(self._events, (until, self._tick, member, 0))

    def _life(self, member: int) -> Life:
        scene, step, update, cargoes, said = self.scene, 0, self.scene.update, self.scene.cargoes, self._said
        while not (scene.trouble.lines and scene.trouble.fatal(member, step)):
            for phase in scene.phases(step):
                match phase:
                    case Compute(gate):
                        while gate is not None and step - self._least > gate:
                            began, least = self.now, self._least
                            slowest = self.done.index(least) if step < self._drawn else -1
                            self._gated.append(member)
                            yield None
                            self._waited(member, step, "gate", began, (slowest, self.now), least)
                        began = self.now
                        took = self._computing(step)[member]
                        self._began[member], self._took[member] = began, took
                        self._computed += took
                        yield began + took
                        if step < self._drawn:
                            self._did(member, step, "compute", began)
                    case Update():
                        if update:
                            yield from self._busy(member, step, "update", update)
                    case Meet(slot):
                        cargo = cargoes[slot]
                        if not cargo.parcels:
                            continue
                        if cargo.write:
                            yield from self._busy(member, step, "write", cargo.write)
                        began = self.now
                        if slot in self._lines:
                            self._push(member, slot)
                            if (until := self._awaited(member, slot)) is None or until > began:
                                yield until
                            self._take(member, slot)
                        elif (until := self._visits.until(member, slot, step, began)) > began:
                            yield until
                        self._waited(member, step, said[slot], began, None)
                        if cargo.read:
                            yield from self._busy(member, step, "read", cargo.read)
                    case Send(slot):
                        if cargoes[slot].write:
                            yield from self._busy(member, step, "write", cargoes[slot].write)
                        self._send(member, slot, step)
                    case Settle(slot, sent):
                        began, met = self.now, None
                        if not cargoes[slot].parcels:
                            continue
                        if slot in self._lines:
                            if (until := self._awaited(member, slot)) is None or until > began:
                                yield until
                            self._take(member, slot)
                        else:
                            met = yield from self._settle(member, slot, sent)
                        self._waited(member, step, said[slot], began, met, sent)
                        if cargoes[slot].read:
                            yield from self._busy(member, step, "read", cargoes[slot].read)
            self._finish(member)
            step += 1
        self._die(member)

    def _computing(self, step: int) -> list[float]:
        found = self._computes.get(step)
        if found is None:
            found = self._computes[step] = self.scene.computes(step).tolist()
        return found

    def _busy(self, member: int, step: int, what: str, seconds: float) -> Life:
        began = self.now
        yield began + seconds
        self._did(member, step, what, began)

    def _waited(
        self, member: int, step: int, what: str, began: float, met: tuple[int, float] | None, sent: int = 0
    ) -> None:
        """Waits for another until it has sent, in a step of its own, and then for the links."""
        self._exposed += self.now - began
        if step >= self._drawn:
            return
        if met is not None:
            came = min(max(met[1], began), self.now)
            if came > began:
                self._drawing.waited(Span(member, step, f"wait for member {met[0]:,}", began, came, met[0]), sent)
            began = came
        self._did(member, step, what, began)

    def _did(self, member: int, step: int, what: str, began: float, ended: float | None = None) -> None:
        ended = self.now if ended is None else ended
        if step < self._drawn and ended > began:
            self._drawing.did(Span(member, step, what, began, ended))

    def _finish(self, member: int) -> None:
        count = self.done[member]
        self.done[member] = count + 1
        self._levels[count] -= 1
        self._levels[count + 1] += 1
        self._total += 1
        if not self._total % len(self.done) and self._total // len(self.done) <= self._steps:
            self._marks[self._total // len(self.done) - 1] = self.now
        while not self._levels[self._least] and self._least < count + 1:
            self._computes.pop(self._least, None)
            self._least += 1
            self._open_gates()

    def _open_gates(self) -> None:
        gated, self._gated = self._gated, []
        for member in gated:
            self._go_on(member)

    def _die(self, member: int) -> None:
        self._dead.add(member)
        self._levels[self.done[member]] -= 1
        self._levels[1 << 60] += 1
        while not self._levels[self._least] and self._least < self._steps:
            self._least += 1
        for line in self._lines.values():
            before = line.rounds.version
            line.rounds.leave(member)
            self._answer(line, before)
        self._open_gates()

    # exchanges that are waited for

    def _send(self, member: int, slot: int, step: int) -> None:
        ex, cargo, key = self._exchanges[slot], self.scene.cargoes[slot], (slot, step)
        if not cargo.parcels:
            return
        if ex.hub:
            self._push(member, slot)
            return
        tray = self._posts.tray(key)
        tray.posted[member] = self.now
        world, round = self.scene.world, ex.round(step)
        mixing = ex.topology.mixing(member, round, world, slot)
        if isinstance(mixing, Everyone):
            self._sent[slot] += sum(parcel.sent for parcel in cargo.parcels)
            if len(tray.posted) == world.size:
                tray.over = self._lane = self._through(cargo, slot, step)
                self._wake(tray, range(world.size))
            return
        listeners = ex.topology.listeners(member, round, world, slot)
        for other, begun, left in self._doors.leave(member, listeners, cargo.nbytes, self.now):
            tray.coming.setdefault(other, []).append((begun, left, member))
        self._sent[slot] += cargo.nbytes * len(listeners)
        self._wake(tray, listeners)

    def _through(self, cargo: Cargo, slot: int, step: int) -> float:
        """When a mix of all is over whose last member has come: buckets of gradients left as backward filled them."""
        free, written = self._lane, 0.0
        for parcel in cargo.parcels:
            written += parcel.write
            ready = self.now
            if cargo.early:
                filled = (a + b * parcel.ready for a, b in zip(self._began, self._took, strict=True))
                ready = max(filled) + written
            began = max(free, ready)
            free = began + parcel.seconds
            self._did(LINKS, step, f"exchange {slot}", began, free)
        return free

    def _wake(self, tray: Tray, members: Iterable[int]) -> None:
        for member in tray.woken(members):
            self._at(self.now, member)

    def _settle(self, member: int, slot: int, sent: int) -> Met:
        ex, key = self._exchanges[slot], (slot, sent)
        self._ages.add(ex.synchrony.delay)
        world = self.scene.world
        mixing = ex.topology.mixing(member, ex.round(sent), world, slot)
        while not self._posts.complete(key, mixing):
            self._posts.tray(key).parked.add(member)
            yield None
        met = self._posts.latest(key, mixing) if sent < self._drawn else None
        tray = self._posts.tray(key)
        coming = tray.coming.get(member)
        heard = self._doors.hear(member, self.scene.cargoes[slot].nbytes, coming) if coming else tray.over
        if heard > self.now:
            yield heard
        self._posts.take(key)
        return met

    # hubs

    def _push(self, member: int, slot: int) -> None:
        line = self._lines[slot]
        self._sent[slot] += line.nbytes
        round = line.asked[member]
        line.asked[member] += line.counts
        self._tick += 1
        line.coming.append((line.arrives(self.now), self._tick, member, round))

    def _arrived(self, member: int, slot: int, round: int) -> None:
        line = self._lines[slot]
        before = line.rounds.version
        if line.rounds.told(member, round) is not None:
            line.rounds.settle()
        self._answer(line, before)

    def _answer(self, line: Line, before: int) -> None:
        """Answers leave once the hub has counted in what it was told since it was at version `before`; those that leave
        at once are heard at once."""
        rounds = line.rounds
        leaves, freed = line.closed(self.now, rounds.version - before), rounds.free()
        until = line.answers(leaves, len(freed))
        for each in freed:
            member = each.member
            line.replies[member].append((until, rounds.version, each.staleness))
            self.played.dropped += each.dropped
            if line.hoping[member]:
                line.hoping[member] = False
                self._tick += 1
                line.going.append((until, self._tick, member, 0))

    def _awaited(self, member: int, slot: int) -> float | None:
        """When the next answer is there; None while it has not left."""
        line = self._lines[slot]
        if replies := line.replies[member]:
            return replies[0][0]
        line.hoping[member] = True
        return None

    def _take(self, member: int, slot: int) -> None:
        line = self._lines[slot]
        _, version, staleness = line.replies[member].popleft()
        if not line.counts:
            line.asked[member] = version
        self.played.answered += line.carried
        self._ages.add(staleness)
