"""What an exchange costs on uniform links, in seconds: latency per round plus bytes over rate (simulation, A2.1)."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.parts.route import Route
from gossamer.sim.cluster import Cluster


def all_reduce(cluster: Cluster, route: Route, size: int, nbytes: int) -> float:
    """A summed wire over a route: its rounds of latency, and the bytes each member sends."""
    return route.rounds(size) * cluster.latency + route.sent(size, nbytes) / cluster.rate


def all_gather(cluster: Cluster, size: int, nbytes: int) -> float:
    """Wires that are heard one by one: each travels past every other member."""
    return (size - 1) * (cluster.latency + nbytes / cluster.rate)


def message(cluster: Cluster, nbytes: int, copies: int = 1) -> float:
    """The same bytes to `copies` receivers over the sender's one link."""
    return cluster.latency + copies * nbytes / cluster.rate


@dataclass
class Lane:
    """One direction of a link that many use: first come, first served."""

    free: float = 0.0

    def take(self, now: float, seconds: float) -> float:
        """When a transfer that asks at `now` is through."""
        self.free = max(self.free, now) + seconds
        return self.free
