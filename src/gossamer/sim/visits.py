"""Visits to one partner as it is right now: how long each takes, what it sends, and how old what it finds is.

Knows no phases and no order of events; whoever plays a strategy says when a visit begins.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from gossamer.parts.topology import Into, Neighbours, Pair
from gossamer.sim.contention import waits
from gossamer.sim.scene import Ages, Scene
from gossamer.strategy import slots


class Visits:
    """Those of all members. Whoever plays them shares how many steps each has `done`, who is `dead`, what was `sent` by
    slot, and `ages`."""

    def __init__(self, scene: Scene, done: Sequence[int], dead: Set[int], sent: dict[int, float], ages: Ages) -> None:
        self._scene, self._done, self._dead, self._sent, self._ages = scene, done, dead, sent, ages
        self._exchanges, self._per_host = slots(scene.strategy), scene.roads.cluster.per_host
        self._trips = {slot: _Trip(scene, slot) for slot, ex in enumerate(self._exchanges) if ex.meets and not ex.hub}
        self._told = [0.0] * scene.world.size  # when what each told others last has left

    def until(self, member: int, slot: int, step: int, now: float) -> float:
        """Meet whom the topology says; when one may go on."""
        ex, trip = self._exchanges[slot], self._trips[slot]
        mixing = ex.topology.mixing(member, ex.round(step), self._scene.world, slot)
        if isinstance(mixing, Neighbours):
            return now + self._pull(member, slot, step, [other for other in mixing.weights if other != member])
        if isinstance(mixing, Into):
            return self._tell(member, slot, step, mixing.target, now)
        assert isinstance(mixing, Pair), f"{mixing} is not met"
        if mixing.partner in self._dead:
            return now
        self._sent[slot] += 2 * trip.nbytes
        self._ages.add(max(0, step - self._done[mixing.partner]))
        return now + 2 * trip.carried[self._scene.roads.near(member, mixing.partner)]

    def _pull(self, member: int, slot: int, step: int, partners: list[int]) -> float:
        """Ask one partner after the other: seconds until all have answered."""
        if self._dead and not self._dead.isdisjoint(partners):
            return 0.0
        done, host, per_host, trip = self._done, member // self._per_host, self._per_host, self._trips[slot]
        near = sum(other // per_host == host for other in partners)
        self._sent[slot] += trip.nbytes * len(partners)
        for other in partners:
            behind = step - done[other]
            self._ages.add(behind if behind > 0 else 0)
        return near * trip.asked[True] + (len(partners) - near) * trip.asked[False]

    def _tell(self, member: int, slot: int, step: int, target: int, now: float) -> float:
        """Lay into an inbox: one goes on as soon as what one told last has left."""
        if target == member or target in self._dead:
            return now
        trip = self._trips[slot]
        self._sent[slot] += trip.nbytes
        self._ages.add(max(0, self._done[target] - step))
        begun = max(now, self._told[member])
        self._told[member] = begun + trip.busy[self._scene.roads.near(member, target)]
        return begun


class _Trip:
    """Bytes of a message of an exchange, and seconds, by whether it stays inside a host: for which it takes up a link,
    until it is heard with others' visits in the way as often as they are, and until it is heard if it is asked for."""

    def __init__(self, scene: Scene, slot: int) -> None:
        roads, crowd = scene.roads, waits(scene, slot)
        self.nbytes = scene.cargoes[slot].nbytes
        self.busy, self.carried, self.asked = dict[bool, float](), dict[bool, float](), dict[bool, float]()
        for near in (True, False):
            self.busy[near], under_way = roads.message(self.nbytes, near=near)
            self.carried[near] = self.busy[near] + under_way + crowd.of(near=near)
            self.asked[near] = roads.message(0.0, near=near)[1] + self.carried[near]
