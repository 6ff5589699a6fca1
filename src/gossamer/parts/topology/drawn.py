"""Topologies whose partners are drawn at random, and who need not be asked: to read, to tell, or to trade with."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from gossamer.parts.chance import all_below
from gossamer.parts.refusal import whole
from gossamer.parts.topology.mixing import Into, Mixing, Neighbours, Pair, Topology
from gossamer.parts.topology.peers import not_alone
from gossamer.parts.world import World

_drawn = lru_cache(maxsize=32)(all_below)  # all members' draws of a round, which others ask for, too


@lru_cache(maxsize=32)
def _pulled(size: int, key: tuple[int, int, int], pulls: int) -> tuple[array[int], ...]:
    """The same of several draws each."""
    return tuple(array("q", all_below(size, size, key, pull)) for pull in range(pulls))


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
        return [of_all[member] for of_all in _pulled(world.size, (world.seed, slot, round), self.pulls)]

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
        not_alone("RandomPeer", world)


@dataclass(frozen=True, repr=False)
class RandomPush(Topology):
    """Draw a target uniformly from all, oneself included, and lay one's values into its inbox; then take the mean of
    oneself and one's own inbox, oneself counting twice after a self-draw (P3, push)."""

    pattern: ClassVar[str] = "gossip, random partners"
    balanced: ClassVar[bool] = False
    fixed: ClassVar[bool] = False
    patient: ClassVar[bool] = False
    only_met: ClassVar[bool] = True
    tells: ClassVar[bool] = True

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return Into(_drawn(world.size, world.size, (world.seed, slot, round))[member])

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        target = _drawn(world.size, world.size, (world.seed, slot, round))[member]
        return () if target == member else (target,)

    def fits(self, world: World) -> None:
        not_alone("RandomPush", world)


@dataclass(frozen=True, repr=False)
class RandomPair(Topology):
    """Draw a partner uniformly from the others; both become the mean of the two, in one move (AD-PSGD)."""

    pattern: ClassVar[str] = "gossip, random partners"
    balanced: ClassVar[bool] = False  # who is drawn twice in a round mixes twice; each move by itself keeps the mean
    fixed: ClassVar[bool] = False
    patient: ClassVar[bool] = False
    only_met: ClassVar[bool] = True
    trades: ClassVar[bool] = True

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        drawn = _drawn(world.size - 1, world.size, (world.seed, slot, round))[member]
        return Pair((member + 1 + drawn) % world.size)

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return tuple(
            other
            for other in range(world.size)
            if other != member and self.mixing(other, round, world, slot) == Pair(member)
        )

    def fits(self, world: World) -> None:
        not_alone("RandomPair", world)
