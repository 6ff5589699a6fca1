"""What travels costs on a cluster: mixes of all, mixes of some, single messages. Knows no strategy and no clock."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gossamer.parts.refusal import Refused
from gossamer.parts.route import Doubling, HalvingDoubling, Hierarchical, Ring, Route, Torus
from gossamer.parts.route.backend import Auto, Backend
from gossamer.parts.route.hosts import Hosts, Link, cost_on
from gossamer.sim.cluster import Cluster

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]


class Roads:
    """The links of a cluster on which so many workers sit, host by host."""

    def __init__(self, cluster: Cluster, workers: int) -> None:
        self.cluster, self.workers, self.used = cluster, workers, cluster.used(workers)
        self.links = cluster.links(workers)
        self.per_host = min(cluster.per_host, workers)
        self.single = Link(
            self.links.across.alpha, self.links.across.beta / cluster.single
        )  # for what is no mix of all

    def summed(self, route: Route, nbytes: float) -> float:
        """Seconds until a wire that is summed on its way is everybody's."""
        if self.workers == 1:
            return 0.0
        return _summed(self.links, route, self.workers, nbytes)

    def gathered(self, nbytes: float) -> float:
        """Seconds until everybody has heard everybody's wire, round rings."""
        return (self.workers - 1) * self._slower(nbytes) if self.workers > 1 else 0.0

    def among(self, near: Array, far: Array, nbytes: float) -> Array:
        """The same of some that tell each other, one after the other: so many times inside a host, and so many times
        through its links; the last is under way when it has left."""
        import numpy

        (close, lag), (busy, farther) = self.message(nbytes, near=True), self.message(nbytes, near=False)
        inside, across = (near > 0) * lag + near * close, (far > 0) * farther + far * busy
        found: Array = numpy.maximum(inside, across)
        return found

    def message(self, nbytes: float, *, near: bool) -> tuple[float, float]:
        """Seconds that a message takes up a link, and seconds that it is under way after that."""
        link = self.links.inside if near else self.single
        return link.beta * nbytes, link.alpha

    def near(self, one: int, other: int) -> bool:
        """Whether two workers sit on one host."""
        return one // self.cluster.per_host == other // self.cluster.per_host

    def hub(self, nbytes: float, servers: int, shards: int | None = None) -> tuple[float, float]:
        """Seconds until everybody has pushed `nbytes` to a hub that is shared out, and seconds of a start-up: over all
        workers or so many of them (`shards`), or over servers with links of their own.

        A host's link carries what its workers send to shards elsewhere and, as it holds shards itself, as much the
        other way; a server's link carries everybody's share. The slower of the two ends sets the pace.
        """
        p, g, links = self.workers, self.per_host, self.links
        across, inside = self.single, links.inside
        shards = None if shards == p else shards
        if shards is not None and not servers and self.used > 1:
            told, heard = nbytes * (1.0 - 1.0 / max(p, shards)), (p - 1) * nbytes / shards
            return max(g * told, heard) * across.beta / min(links.nics, g), across.alpha
        if not servers:
            if self.used == 1:
                return inside.beta * nbytes * (p - 1) / p, inside.alpha
            away = g * nbytes * (p - g) / p * across.beta / min(links.nics, g)
            return max(away, inside.beta * nbytes * (g - 1) / p), across.alpha
        link = across if self.cluster.across is not None else inside
        sent = g * nbytes * link.beta / min(links.nics, g)
        return max(sent, p * nbytes * link.beta / servers), link.alpha

    def _slower(self, nbytes: float) -> float:
        """Seconds of a round in which each passes `nbytes` on to its neighbour: inside hosts, or between them."""
        inside = self.links.inside.alpha + self.links.inside.beta * nbytes if self.per_host > 1 else 0.0
        each = self.links.across.beta / rings(self.links)
        across = self.links.across.alpha + each * nbytes if self.used > 1 else 0.0
        return max(inside, across)


@lru_cache(maxsize=4096)
def _summed(links: Hosts, route: Route, size: int, nbytes: float) -> float:
    if isinstance(route, Auto):
        return min(_summed(links, way, size, nbytes) for way in ways(links.per_host, size))
    route = route.suited(nbytes)
    if isinstance(route, Ring | Backend):
        return _around(links, size, nbytes, 1 if isinstance(route, Ring) else rings(links))
    return cost_on(links, route, size, nbytes)


def rings(links: Hosts) -> int:
    """How many rings a backend's own collective goes round at once: one through each NIC of a host."""
    return min(links.nics, links.per_host)


def _around(links: Hosts, size: int, nbytes: float, count: int) -> float:
    """Some rings through all hosts, a share of the bytes in each, whose members need not keep step: a chunk's way is as
    long as all its hops together, and bytes pass as quickly as the slowest of its links lets them."""
    hosts = -(-size // links.per_host)
    far, near = (hosts if hosts > 1 else 0), size - (hosts if hosts > 1 else 0)
    alpha = 2.0 * (size - 1) / size * (far * links.across.alpha + near * links.inside.alpha)
    beta = max(links.across.beta / count if far else 0.0, links.inside.beta if near else 0.0)
    passed = (size - 1) / size * nbytes
    return alpha + 2.0 * passed * beta + passed * links.gamma


@lru_cache(maxsize=256)
def ways(per_host: int, size: int) -> tuple[Route, ...]:
    """What a fabric that does what is best chooses among."""
    hosts = (Torus(x=per_host), Hierarchical(per_host), Hierarchical(per_host, HalvingDoubling()))
    return tuple(
        way for way in (Ring(), HalvingDoubling(), Doubling(), *(hosts if per_host > 1 else ())) if _fits(way, size)
    )


def _fits(route: Route, size: int) -> bool:
    try:
        route.fits(size)
    except Refused:
        return False
    return True
