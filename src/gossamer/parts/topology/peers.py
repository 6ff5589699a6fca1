"""Topologies without a centre: fixed graphs, rotating partners, and partners drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gossamer.parts.chance import below
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
        _company("Cycle", world)


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
        _company("Exponential", world)


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
        worst = max((max(edge) for edge in self.edges), default=0)
        if worst >= world.size:
            raise Refused(f"Graph: an edge names member {worst}, but the members are 0 to {world.size - 1}")
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


@dataclass(frozen=True, repr=False)
class RandomPeer(Topology):
    """Draw `pulls` partners uniformly from all, oneself included, and take the mean of own and drawn (P3, pull)."""

    pattern: ClassVar[str] = "gossip, random partners"
    balanced: ClassVar[bool] = False
    fixed: ClassVar[bool] = False
    patient: ClassVar[bool] = False

    pulls: int = 1

    def __post_init__(self) -> None:
        whole("RandomPeer", "pulls", self.pulls, 1, 1000)

    def drawn(self, member: int, round: int, world: World, slot: int) -> list[int]:
        """The partners of this round; a self-draw is one of them."""
        return [below(world.size, world.seed, slot, round, member, pull) for pull in range(self.pulls)]

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        share = 1.0 / (self.pulls + 1)
        weights = {member: share}
        for peer in self.drawn(member, round, world, slot):
            weights[peer] = weights.get(peer, 0.0) + share
        return Neighbours(weights)

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        others = (other for other in range(world.size) if other != member)
        return tuple(other for other in others if member in self.drawn(other, round, world, slot))

    def fits(self, world: World) -> None:
        _company("RandomPeer", world)


def _company(owner: str, world: World) -> None:
    if world.size < 2:
        raise Refused(f"{owner}: gossip needs company, and there is {world.size} worker", "2 workers, or allreduce()")
