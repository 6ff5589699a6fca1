"""What a route costs where links differ: quick ones inside a host, and those across that a host's members share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from gossamer.parts.refusal import Refused, kind, real, whole
from gossamer.parts.route.crossing import loads
from gossamer.parts.route.hierarchical import Hierarchical
from gossamer.parts.route.load import Load
from gossamer.parts.route.price import EVERY
from gossamer.parts.route.schedule import OWN, Route
from gossamer.parts.route.torus import Torus


@dataclass(frozen=True)
class Link:
    """A kind of link: `alpha` seconds to start a message, `beta` seconds a byte, each way."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        real("Link", "alpha", self.alpha, 0.0, 1e9)
        real("Link", "beta", self.beta, 0.0, 1e9)


@dataclass(frozen=True)
class Hosts:
    """Hosts of `per_host` members, one after the other: every member has an `inside` link to its host, and all
    members of a host share its `nics` links `across`. Adding takes `gamma` seconds a byte."""

    per_host: int
    inside: Link
    across: Link
    gamma: float = 0.0
    nics: int = 1

    def __post_init__(self) -> None:
        whole("Hosts", "per_host", self.per_host, 1, 2**20)
        kind("Hosts", "inside", self.inside, Link)
        kind("Hosts", "across", self.across, Link)
        real("Hosts", "gamma", self.gamma, 0.0, 1e9)
        whole("Hosts", "nics", self.nics, 1, 2**20)


def cost_on(hosts: Hosts, route: Route, size: int, nbytes: float) -> float:
    """Seconds of an all-reduce on these hosts. Waves keep step: one lasts as long as its slowest message inside a
    host, or as all that leaves (or enters) the busiest host through its links, and then as long as adding takes. What
    a member sends across keeps to one link: of several, no more are in use than members send, or hear.

    With one member a host, or all on one, this is `cost`; but a link that nobody uses costs no start-up.
    """
    whole("cost", "size", size, 1, 2**20)
    real("cost", "nbytes", nbytes, 0.0, 1e18)
    route = route.suited(nbytes)
    route.fits(size)
    chunk = nbytes / route.chunks(size)
    return fsum(times * _lasts(hosts, load, chunk) for load, times in loads(route, size, hosts.per_host))


def cheapest_on(hosts: Hosts, size: int, nbytes: float, *, among: Sequence[Route] | None = None) -> Route:
    """The route that costs least on these hosts; of equals the first. What cannot serve so many is left out.

    Unless told, the choice is among all that know no hosts, and the torus and the masters that fit these.
    """
    whole("cheapest", "size", size, 1, 2**20)
    k = hosts.per_host
    given = (Hierarchical(k), Torus(x=k), *EVERY) if among is None else among
    priced = [(cost_on(hosts, route, size, nbytes), route) for route in given if _serves(route, size)]
    if not priced:
        raise Refused(f"none of {', '.join(map(repr, given)) or 'no routes'} serves {size} members", "Ring()")
    return min(priced, key=lambda one: one[0])[1]


def _lasts(hosts: Hosts, load: Load, chunk: float) -> float:
    across = max((flow.chunks / min(hosts.nics, flow.members) for flow in load.across), default=0.0)
    links = ((hosts.inside, load.inside), (hosts.across, across))
    start = 1 + OWN * (load.rounds - 1)
    slowest = max((start * link.alpha + link.beta * chunks * chunk for link, chunks in links if chunks), default=0.0)
    return slowest + hosts.gamma * load.added * chunk


def _serves(route: Route, size: int) -> bool:
    try:
        route.fits(size)
    except Refused:
        return False
    return True
