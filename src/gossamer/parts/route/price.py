"""What a route costs in the model of P1: start-up time per message, time per byte sent, time per byte added."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.route.blocks import BinaryBlocks
from gossamer.parts.route.direct import Direct
from gossamer.parts.route.halving import Doubling, HalvingDoubling
from gossamer.parts.route.ring import Ring
from gossamer.parts.route.schedule import Route
from gossamer.parts.route.sharded import ShardedHub
from gossamer.parts.route.torus import Torus
from gossamer.parts.route.tree import Tree

EVERY: tuple[Route, ...] = (
    Doubling(), HalvingDoubling(), BinaryBlocks(), Ring(), Torus(), Direct(), ShardedHub(), Tree()
)  # fmt: skip


def cost(route: Route, size: int, nbytes: float, alpha: float, beta: float, gamma: float = 0.0) -> float:
    """Seconds of an all-reduce: alpha per wave, beta per byte passed, gamma per byte added, all links alike.

    A wave is a round, but where several leave at once: then their start-ups overlap, but for a tenth each, and their
    bytes do not. Waves keep step: the longest message of a round sets its length. For halving-doubling of a power of
    two this is 2 a log p + 2 b n (p-1)/p + c n (p-1)/p; for short vectors doubling's log p (a + n b + n c) is less
    (P1, draft).
    """
    whole("cost", "size", size, 1, 2**20)
    for name, value in (("nbytes", nbytes), ("alpha", alpha), ("beta", beta), ("gamma", gamma)):
        real("cost", name, value, 0.0, 1e18)
    route = route.suited(nbytes)
    route.fits(size)
    passed, added = route.passed(size, nbytes), route.added(size, nbytes)
    return alpha * route.delays(size) + beta * passed + gamma * added


def cheapest(
    size: int, nbytes: float, alpha: float, beta: float, gamma: float = 0.0, *, among: Sequence[Route] = EVERY
) -> Route:
    """The route that costs least; of equals the first. Those that cannot serve so many members are left out."""
    priced = []
    for route in among:
        try:
            route.fits(size)
        except Refused:
            continue
        priced.append((cost(route, size, nbytes, alpha, beta, gamma), route))
    if not priced:
        raise Refused(f"none of {', '.join(map(repr, among)) or 'no routes'} serves {size} members", "Ring()")
    return min(priced, key=lambda one: one[0])[1]
