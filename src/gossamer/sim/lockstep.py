"""Times strategies in which every exchange is waited for: all members at once, phase by phase, as arrays.

What a member waits for is a maximum over others, and what it does is a sum: no event is out of order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gossamer.parts.synchrony import Synchrony
from gossamer.parts.topology import Everyone
from gossamer.sim.cargo import Cargo
from gossamer.sim.drawing import Together
from gossamer.sim.hearing import Hearings
from gossamer.sim.scene import LINKS, Ages, Played, Scene, Span
from gossamer.sim.ways import Lanes
from gossamer.strategy import AnyStrategy, Compute, Meet, Send, Settle, Update, slots

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]


def in_step(strategy: AnyStrategy, size: int | None = None) -> bool:
    """Whether every exchange is waited for by all it concerns, round by round, be it by a quorum of all."""
    return all(not ex.meets and (not ex.hub or _by_all(ex.synchrony, size)) for ex in slots(strategy))


def _by_all(synchrony: Synchrony, size: int | None) -> bool:
    everybody = synchrony.quorum is None or (size is not None and synchrony.closes(size) == size)
    return everybody and synchrony.staleness == 0


class Lockstep:
    """All members' clocks, and when the links are free."""

    def __init__(self, scene: Scene) -> None:
        import numpy

        self.scene, self._np = scene, numpy
        size, exchanges = scene.world.size, slots(scene.strategy)
        self.now = numpy.zeros(size)
        self.lane = self.back = 0.0  # when mixes of all and pushes to hubs may begin, and answers: one after the other
        self.lanes = Lanes(scene)
        self._pending: dict[tuple[int, int], tuple[Array | float, float]] = {}
        self._hearings = {
            slot: Hearings(ex.topology, scene.world, slot)
            for slot, ex in enumerate(exchanges)
            if not ex.hub and not isinstance(ex.topology.mixing(0, 0, scene.world, slot), Everyone)
        }
        self._start = self._took = self.now
        self._busy: list[tuple[float, float]] = []  # when the links carried each parcel that was last sent
        self._last: dict[tuple[int, int], tuple[Array, Array]] = {}  # whom each waits for, and when that one has sent
        self._drawn = False  # whether this step leaves spans
        self._ages = Ages()  # of what was settled, in steps
        self.played = Played()
        self._drawing = Together(self.played.spans)

    def run(self, steps: int, drawn: int = 0) -> Played:
        """Play so many steps; keep the spans of the first `drawn` of them."""
        for step in range(steps):
            dead = [line.worst_rank() for line in self.scene.trouble.lines if line.fatal(line.worst_rank(), step)]
            if dead:
                self.played.stopped = f"member {dead[0]} died as it began step {step}, and the others wait for it"
                break
            self._drawn = step < drawn
            for phase in self.scene.phases(step):
                self._perform(phase, step)
            if self._drawn:
                self._drawing.end(step, {sent for _, sent in self._pending})
            self.played.ends.append(float(self.now.mean()))
        self.played.stale, self.played.stalest = self._ages.mean, self._ages.most
        return self.played

    def _perform(self, phase: Compute | Send | Settle | Meet | Update, step: int) -> None:
        match phase:
            case Compute():
                self._compute(step)
                if self._drawn:
                    self._drawing.did(step, "compute", self._start, self.now)
            case Send(slot):
                before, self._busy = self.now, []
                self._send(slot, step)
                if self._drawn:
                    self._draw_sent(slot, step, before)
            case Settle(slot, sent):
                before, heard = self.now, self._settle(slot, sent)
                if self._drawn:
                    self._draw_wait(slot, sent, step, before, heard)
            case Update():
                before, self.now = self.now, self.now + self.scene.update
                if self._drawn:
                    self._drawing.did(step, "update", before, self.now)
            case Meet():
                raise AssertionError("nobody is met in step")

    def _compute(self, step: int) -> None:
        np, drag = self._np, self.scene.cluster.drag
        self._start, self._took = self.now, self.scene.computes(step)
        end = self._start + self._took
        if drag:
            for until, _ in self._pending.values():  # what was sent before is still under way
                end = end + drag * np.clip(np.minimum(until, end) - self._start, 0.0, None)
            self._took = end - self._start
        self.played.computed += float(self._took.mean())
        self.now = end

    def _send(self, slot: int, step: int) -> None:
        cargo = self.scene.cargoes[slot]
        if not cargo.parcels:
            self._pending[slot, step] = 0.0, 0.0
        elif slot in self._hearings:
            self._tell(slot, step, cargo)
        elif cargo.early:
            self._leave_early(slot, step, cargo)
        else:
            self.now = self.now + cargo.write
            begins = max(self._free(cargo), float(self.now.max()))
            self.lane = begins + sum(self._seconds(cargo))
            self._busy = [(begins, self.lane)]
            self._pending[slot, step] = self._answered(slot, cargo, self.lane), cargo.read

    def _seconds(self, cargo: Cargo) -> list[float]:
        """Of each parcel, on the links; to a hub there is a start-up for all of them."""
        if not cargo.exchange.hub:
            return [parcel.seconds for parcel in cargo.parcels]
        pushed = [self.scene.pushed(parcel.nbytes) for parcel in cargo.parcels]
        return [busy + (latency if not n else 0.0) for n, (busy, latency) in enumerate(pushed)]

    def _answered(self, slot: int, cargo: Cargo, pushed: float) -> float:
        """When what was mixed is everybody's; a hub's answer travels back, with nothing to hide behind."""
        if not cargo.exchange.hub:
            self._count(slot, sum(parcel.sent for parcel in cargo.parcels))
            self.back = pushed
            return pushed
        self._count(slot, cargo.nbytes)
        self.played.answered += cargo.carried
        busy, latency = self.scene.pushed(cargo.carried)
        self.lane, self.back = pushed, max(self.back, pushed + self.scene.served(cargo.exchange)) + busy
        return self.back + latency

    def _leave_early(self, slot: int, step: int, cargo: Cargo) -> None:
        """Buckets leave as backward fills them; each waits for the last member to have filled it, and for the lane."""
        moments, seconds = self._moments(cargo), self._seconds(cargo)
        free = self._free(cargo)
        over, last = self._through(free, moments, seconds, float(self.now.max()))
        if self.scene.cluster.drag and over:
            stretch = self.scene.cluster.drag * over
            moments = [m + stretch * parcel.ready for m, parcel in zip(moments, cargo.parcels, strict=True)]
            self.now = self.now + stretch
            self.played.computed += stretch
            _, last = self._through(free, moments, seconds, float(self.now.max()))
        self.now = self.now + cargo.write
        self.lane = last
        self._pending[slot, step] = self._answered(slot, cargo, last), cargo.read

    def _moments(self, cargo: Cargo) -> list[float]:
        """When each parcel is there on every member."""
        start, took, written, found = self._start, self._took, 0.0, list[float]()
        even = float(start.min()) == float(start.max())
        longest, begin = float(took.max()), float(start[0])
        for parcel in cargo.parcels:
            written += parcel.write
            ready = begin + longest * parcel.ready if even else float((start + took * parcel.ready).max())
            found.append(ready + written)
        return found

    def _free(self, cargo: Cargo) -> float:
        """When links are: a push to servers goes one way only, and answers to others do not hold it up."""
        one_way = cargo.exchange.hub and self.scene.servers
        return self.lane if one_way else max(self.lane, self.back)

    def _through(self, free: float, moments: list[float], seconds: list[float], end: float) -> tuple[float, float]:
        """Seconds for which the lane is busy while compute goes on, and when the last parcel is through."""
        over, self._busy = 0.0, []
        for ready, taken in zip(moments, seconds, strict=True):
            begins = max(free, ready)
            free = begins + taken
            over += max(0.0, min(free, end) - begins)
            self._busy.append((begins, free))
        return over, free

    def _settle(self, slot: int, sent: int) -> Array:
        """Wait and read; when each had heard all it waited for."""
        until, read = self._pending.pop((slot, sent))
        self._age(self.scene.cargoes[slot])
        heard: Array = self._np.maximum(self.now, until)
        self.played.exposed += float((heard - self.now).mean())
        self.now = heard + read
        return heard

    def _age(self, cargo: Cargo) -> None:
        """A hub's answer is as new as the round it closes."""
        if cargo.parcels:
            self._ages.add(0 if cargo.exchange.hub else cargo.exchange.synchrony.delay)

    def _tell(self, slot: int, step: int, cargo: Cargo) -> None:
        """Neighbours hear each other: when a message is heard depends on who sent it, and on what else is sent."""
        np, size = self._np, self.scene.world.size
        self.now = self.now + cargo.write
        hearing = self._hearings[slot].round(cargo.exchange.round(step))
        until, whom = self.now.copy(), np.arange(size)
        if len(hearing.source):
            heard = self.lanes.carry(hearing, cargo.nbytes, self.now)
            np.maximum.at(until, hearing.target, heard)
            if self._drawn:
                order = np.argsort(heard, kind="stable")
                whom[hearing.target[order]] = hearing.source[order]  # the last to be heard stays
            self._count(slot, cargo.nbytes * len(hearing.source) / size)
        for groups in hearing.groups:
            begins = np.maximum(self.now[groups], self.lanes.out[groups]).max(1)
            until[groups] = self.lanes.out[groups] = (begins + self._among(groups, cargo))[:, None]
            whom[groups] = np.take_along_axis(groups, self.now[groups].argmax(1)[:, None], 1)
            self._count(slot, cargo.nbytes * groups.size * (groups.shape[1] - 1) / size)
        if self._drawn:
            self._last[slot, step] = whom, self.now[whom]
        self._pending[slot, step] = until, cargo.read

    def _among(self, groups: Array, cargo: Cargo) -> Array:
        """Seconds that each of some groups mixes among itself: all tell all, on one host or over what hosts share."""
        np, roads, count = self._np, self.scene.roads, groups.shape[1]
        hosts = groups // roads.cluster.per_host
        _, where, together = np.unique(
            hosts + roads.used * np.arange(len(groups))[:, None], return_inverse=True, return_counts=True
        )
        near = together[where].reshape(groups.shape)  # how many of its group are on each one's host
        away = np.bincount(hosts.ravel(), (count - near).ravel(), roads.used)  # messages that leave each host
        tellers = np.bincount(hosts[near < count], minlength=roads.used)
        far = (away / np.clip(tellers, 1, roads.links.nics))[hosts].max(1)
        wires = [wire.likely for parcel in cargo.parcels for wire in parcel.wires]
        found: Array = sum(roads.among(near.max(1) - 1, far, wire) for wire in wires) + np.zeros(len(groups))
        return found

    def _count(self, slot: int, nbytes: float) -> None:
        self.played.sent[slot] = self.played.sent.get(slot, 0.0) + nbytes

    def _draw_sent(self, slot: int, step: int, before: Array) -> None:
        """What a member does before it has sent, and when the links carry it; all wait for the last to come."""
        cargo, size = self.scene.cargoes[slot], len(self.now)
        self._drawing.did(step, "write" if cargo.write else "compute, slowed", before, self.now)
        for place, (start, stop) in enumerate(self._busy):
            said = f"exchange {slot}" + f", bucket {place}" * (len(self._busy) > 1)
            self.played.spans.append(Span(LINKS, step, said, start, stop))
        if (slot, step) not in self._last and cargo.parcels:
            last = int(self.now.argmax())
            self._last[slot, step] = self._np.full(size, last), self._np.full(size, self.now[last])

    def _draw_wait(self, slot: int, sent: int, step: int, before: Array, heard: Array) -> None:
        """A wait is for the last member until it has sent, and then for the links."""
        whom, since = self._last.pop((slot, sent), (self._np.arange(len(before)), before))
        came = self._np.clip(since, before, heard)
        self._drawing.waited(step, sent, before, came, whom)
        self._drawing.did(step, f"exchange {slot}", came, heard)
        self._drawing.did(step, "read", heard, self.now)
