"""Topologies without a centre whose partners are known beforehand: fixed graphs and rotating partners."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import ClassVar

from gossamer.parts.chance import draw
from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.topology.mixing import Mixing, Neighbours, Topology, Weighing
from gossamer.parts.world import World


@dataclass(frozen=True, repr=False)
class Cycle(Topology):
    """Members on a circle; each hears itself and both neighbours with weight 1/3 (D-PSGD's ring)."""

    pattern: ClassVar[str] = "gossip, fixed graph"

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        circle = {member, *self.listeners(member, round, world, slot)}
        return Neighbours(dict.fromkeys(sorted(circle), 1.0 / len(circle)))

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        beside = {(member - 1) % world.size, (member + 1) % world.size}
        return tuple(sorted(beside - {member}))

    def fits(self, world: World) -> None:
        not_alone("Cycle", world)


@dataclass(frozen=True, repr=False)
class Exponential(Topology):
    """In round k each member keeps half and sends half to the one 2**(k mod ceil(log2 n)) places on (SGP)."""

    pattern: ClassVar[str] = "gossip, rotating partners"
    weighing: ClassVar[Weighing] = Weighing.SENDER
    fixed: ClassVar[bool] = False

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return Neighbours({member: 0.5, (member - self._hop(round, world)) % world.size: 0.5})

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return ((member + self._hop(round, world)) % world.size,)

    def _hop(self, round: int, world: World) -> int:
        return int(2 ** (round % max(1, (world.size - 1).bit_length())))

    def fits(self, world: World) -> None:
        not_alone("Exponential", world)


@dataclass(frozen=True, repr=False)
class Grid(Topology):
    """Members on a torus of rows of `x`; each hears itself and its up to four neighbours with equal weights (D-PSGD).

    Without `x` the grid is the factor pair nearest a square. A single row or column would be a circle: refused.
    """

    pattern: ClassVar[str] = "gossip, fixed graph"

    x: int | None = None

    def __post_init__(self) -> None:
        if self.x is not None:
            whole("Grid", "x", self.x, 1, 2**20)

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        around = {member, *self.listeners(member, round, world, slot)}
        return Neighbours(dict.fromkeys(sorted(around), 1.0 / len(around)))

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        x, y = self._sides(world)
        row, column = divmod(member, x)
        beside = {row * x + (column + hop) % x for hop in (-1, 1)}
        above = {(row + hop) % y * x + column for hop in (-1, 1)}
        return tuple(sorted((beside | above) - {member}))

    def _sides(self, world: World) -> tuple[int, int]:
        x = self.x or world.size // next(y for y in range(isqrt(world.size), 0, -1) if world.size % y == 0)
        return x, world.size // x

    def fits(self, world: World) -> None:
        not_alone("Grid", world)
        if self.x is not None and world.size % self.x:
            raise Refused(f"Grid: {world.size} workers do not fill rows of {self.x}", self._nearest(world))
        sides = self._sides(world)
        if 1 in sides:
            said = f"{world.size} workers make a torus of {sides[0]} x {sides[1]}, which is a circle"
            raise Refused(f"Grid: {said}", self._nearest(world))

    def _nearest(self, world: World) -> str:
        """The grid nearest a square; a prime has none, but the number after it has."""
        prime = 1 in Grid()._sides(world)
        return f"Cycle(), or {max(4, world.size + 1)} workers" if prime else "Grid()"


@dataclass(frozen=True, repr=False)
class Dissemination(Topology):
    """In round k each member averages with the one 2**(k mod ceil(log2 n)) places before it; after every sweep of
    ceil(log2 n) rounds the places are shuffled anew, the same for all (GossipGraD, our reading)."""

    pattern: ClassVar[str] = "gossip, rotating partners"
    fixed: ClassVar[bool] = False

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return Neighbours({member: 0.5, self._hop(member, round, world, slot, -1): 0.5})

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return (self._hop(member, round, world, slot, 1),)

    def _hop(self, member: int, round: int, world: World, slot: int, way: int) -> int:
        sweep, k = divmod(round, max(1, (world.size - 1).bit_length()))
        places, where = _shuffled(world.size, world.seed, slot, sweep)
        return places[(where[member] + way * (1 << k)) % world.size]

    def fits(self, world: World) -> None:
        not_alone("Dissemination", world)


@lru_cache(maxsize=256)
def _shuffled(size: int, seed: int, slot: int, sweep: int) -> tuple[list[int], list[int]]:
    """The members in the order of a sweep, and the place of each; the first sweep keeps them as they are."""
    places = sorted(range(size), key=lambda member: draw(seed, slot, sweep, member) if sweep else member)
    where = [0] * size
    for place, member in enumerate(places):
        where[member] = place
    return places, where


@dataclass(frozen=True, repr=False)
class Graph(Topology):
    """Directed edges (sender, receiver); a sender shares itself out evenly over itself and its receivers."""

    pattern: ClassVar[str] = "gossip, fixed graph"
    weighing: ClassVar[Weighing] = Weighing.SENDER
    balanced: ClassVar[bool] = False

    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        kind("Graph", "edges", self.edges, tuple)
        for edge in self.edges:
            if not (isinstance(edge, tuple) and len(edge) == 2):
                raise Refused(
                    f"Graph: an edge is a pair (sender, receiver), not {edge!r}",
                    "Graph(edges=((0, 1), (1, 0)))",
                )
            whole("Graph", "sender", edge[0], 0, 2**20)
            whole("Graph", "receiver", edge[1], 0, 2**20)
            if edge[0] == edge[1]:
                raise Refused(f"Graph: {edge} leads back to itself; every member keeps a share of itself anyway")
        if len(set(self.edges)) < len(self.edges):
            raise Refused("Graph: an edge is named twice")

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        heard = {member: self._share(member)}
        for sender, receiver in self.edges:
            if receiver == member:
                heard[sender] = self._share(sender)
        return Neighbours(heard)

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return tuple(receiver for sender, receiver in self.edges if sender == member)

    def _share(self, sender: int) -> float:
        return 1.0 / (1 + sum(1 for source, _ in self.edges if source == sender))

    def fits(self, world: World) -> None:
        not_alone("Graph", world)
        worst = max((max(edge) for edge in self.edges), default=0)
        if worst >= world.size:
            said = f"an edge names member {worst}, but the members are 0 to {world.size - 1}"
            raise Refused(f"Graph: {said}", f"{worst + 1} workers, or edges between fewer")
        back = tuple((receiver, sender) for sender, receiver in self.edges)
        for edges, what in ((self.edges, "hears nothing of member 0"), (back, "is never heard by member 0")):
            lost = sorted(set(range(world.size)) - _reached(edges))
            if lost:
                raise Refused(f"Graph: member {lost[0]} {what}, so the mass would drain away", "edges both ways")


def _reached(edges: tuple[tuple[int, int], ...]) -> set[int]:
    """The members that something said by member 0 comes to in the end."""
    reached, news = {0}, {0}
    while news:
        news = {receiver for sender, receiver in edges if sender in news} - reached
        reached |= news
    return reached


def not_alone(owner: str, world: World) -> None:
    """Refuse a world in which there is nobody to gossip with."""
    if world.size < 2:
        raise Refused(f"{owner}: gossip needs company, and there is {world.size} worker", "2 workers, or allreduce()")
