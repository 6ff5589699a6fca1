"""What an exchange of all members costs on uniform links: latency per round plus bytes over rate (simulation, A2.1)."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.parts.route import Route
from gossamer.sim.machines import Machines


@dataclass(frozen=True)
class Price:
    """Seconds on free links: `busy` while bytes flow and nothing else can, `latency` while they are only under way."""

    busy: float
    latency: float

    @property
    def seconds(self) -> float:
        """From the first byte sent to the last one heard."""
        return self.busy + self.latency


def all_reduce(machines: Machines, route: Route, size: int, nbytes: int) -> Price:
    """A summed wire over a route: its rounds of latency, and the bytes that pass one after the other."""
    route = route.suited(nbytes)
    return Price(route.passed(size, nbytes) / machines.rate, route.delays(size) * machines.latency)


def all_gather(machines: Machines, size: int, nbytes: int) -> Price:
    """Wires that are heard one by one: each travels past every other member."""
    return Price((size - 1) * nbytes / machines.rate, (size - 1) * machines.latency)


def message(machines: Machines, nbytes: int) -> Price:
    """One message from one member to another."""
    return Price(nbytes / machines.rate, machines.latency)
