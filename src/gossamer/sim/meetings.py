"""Meetings in a rehearsal: a member reads, tells or trades with a partner as it is, and nobody else waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from torch import Tensor

from gossamer.parts.topology import Into, Mixing, Neighbours, Pair
from gossamer.records import Note
from gossamer.replica import Replica
from gossamer.sim import prices
from gossamer.sim.clock import Clock, Life, Turns
from gossamer.sim.gradients import Gradients
from gossamer.sim.links import Links


class Crowd(Protocol):
    """Whom one can meet, when, and over which links."""

    replicas: list[Replica]
    notes: list[Note]
    done: list[int]
    dead: set[int]
    gradients: Gradients
    links: Links
    clock: Clock | Turns


class Meetings:
    """Plays what a topology says of a member that is met and not waited for."""

    def __init__(self, crowd: Crowd) -> None:
        self._all = crowd

    def play(self, member: int, slot: int, step: int, mixing: Mixing) -> Life:
        """One meeting, from when it begins to when the member may go on."""
        match mixing:
            case Neighbours(weights):
                yield from self._pull(member, slot, step, weights)
            case Into(target):
                self._tell(member, slot, step, target)
            case Pair(partner):
                yield from self._trade(member, slot, step, partner)
            case other:
                raise AssertionError(f"{other} is not met")

    def _pull(self, member: int, slot: int, step: int, weights: Mapping[int, float]) -> Life:
        """Read partners as they are; where one is dead nobody answers, and nothing is heard."""
        everyone, began, note = self._all, self._all.clock.now, self._all.notes[member]
        partners = [other for other in weights if other != member]
        if everyone.dead.intersection(partners):
            return
        shown = {other: everyone.replicas[other].shown(slot) for other in partners}
        everyone.replicas[member].pull(slot, weights, shown)
        latency = everyone.links.machines.latency
        heard, transfer = began, latency
        for other, tensor in shown.items():
            everyone.notes[other].send(slot, tensor.nbytes)
            note.hear(slot, tensor.nbytes)
            note.aged(step - everyone.done[other])
            heard = max(heard, everyone.links.carry(other, member, tensor.nbytes, began + latency))
            transfer += prices.message(everyone.links.machines, tensor.nbytes).seconds
        if heard > began:
            yield heard
        note.passed(everyone.clock.now - began, transfer)

    def _tell(self, member: int, slot: int, step: int, target: int) -> None:
        """Send oneself to a target's inbox, wait for nothing, and take up one's own inbox."""
        everyone = self._all
        if target != member:
            told = everyone.replicas[member].shown(slot).clone()
            everyone.notes[member].send(slot, told.nbytes)
            arrival = everyone.links.carry(member, target, told.nbytes, everyone.clock.now)
            everyone.clock.call(arrival, lambda: self._lay_in(target, slot, step, told))
        everyone.replicas[member].take_up(slot, 2 if target == member else 1)

    def _lay_in(self, target: int, slot: int, step: int, told: Tensor) -> None:
        everyone = self._all
        if target not in everyone.dead:
            everyone.replicas[target].lay_in(slot, told)
            everyone.notes[target].hear(slot, told.nbytes)
            everyone.notes[target].aged(everyone.done[target] - step)

    def _trade(self, member: int, slot: int, step: int, partner: int) -> Life:
        """Both become the mean of the two, now; the partner's gradient stays that of what it was."""
        everyone, began = self._all, self._all.clock.now
        if partner in everyone.dead:
            return
        everyone.gradients.settle(partner)
        told = everyone.replicas[member].shown(slot).clone()
        theirs = everyone.replicas[partner].trade(slot, told)
        everyone.replicas[member].traded(slot, told, theirs)
        for one, other in ((member, partner), (partner, member)):
            everyone.notes[one].send(slot, told.nbytes)
            everyone.notes[other].hear(slot, told.nbytes)
        note = everyone.notes[member]
        note.aged(step - everyone.done[partner])
        yield everyone.links.carry(member, partner, told.nbytes, began)
        yield everyone.links.carry(partner, member, told.nbytes, everyone.clock.now)  # only now has it a way to take
        note.passed(everyone.clock.now - began, 2 * prices.message(everyone.links.machines, told.nbytes).seconds)
