"""What a topology answers: who is heard in a round, with which weight. Knows no values and no wires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gossamer.parts.value import Value, Word
from gossamer.parts.world import World


@dataclass(frozen=True)
class Everyone:
    """The plain mean of all members: one value, never n x n weights."""


class Common(dict[int, float]):
    """Weights by which all of `among` hear the same, and none but they are heard or hear it: a mix of their own.

    Only who carries it need know; to everybody else they are weights.
    """

    def __init__(self, among: Iterable[int], weights: Mapping[int, float]) -> None:
        super().__init__(weights)
        self.among = tuple(among)


@dataclass(frozen=True)
class Neighbours:
    """The weighted sum of the members named, oneself included where one counts."""

    weights: Mapping[int, float]


@dataclass(frozen=True)
class AtHub:
    """Whatever the hub makes of what it was told."""


@dataclass(frozen=True)
class Into:
    """One's own values are laid into the inbox of `target`, who takes them up at its own next turn."""

    target: int


@dataclass(frozen=True)
class Pair:
    """Oneself and `partner` both become the mean of the two, in one move."""

    partner: int


Mixing = Everyone | Neighbours | AtHub | Into | Pair


class Weighing(Word):
    """RECEIVER: a receiver's weights sum to 1. SENDER: a sender's do, and a mass travels along to undo the bias."""

    RECEIVER = "receiver"
    SENDER = "sender"


class Topology(ABC, Value):
    """Who mixes with whom: a pure function of (member, round, world) that opens nothing.

    What it says of itself is a class variable of most, and asked of those inside by whoever is made of others.
    """

    @property
    @abstractmethod
    def pattern(self) -> str:
        """The taxonomy's word for it."""

    @property
    def weighing(self) -> Weighing:
        """Whose weights sum to 1."""
        return Weighing.RECEIVER

    @property
    def balanced(self) -> bool:
        """Whether both sides' weights sum to 1, so that the mean over members is kept."""
        return True

    @property
    def fixed(self) -> bool:
        """Whether who hears whom is the same in every round."""
        return True

    @property
    def only_met(self) -> bool:
        """Whether nobody ever waits for it: staleness must not be 0."""
        return False

    @property
    def trades(self) -> bool:
        """Whether a partner hears as much as it tells."""
        return False

    @property
    def tells(self) -> bool:
        """Whether values are laid into a partner's inbox."""
        return False

    @property
    def patient(self) -> bool:
        """Whether both ends must be there; if not, a partner takes part without its help."""
        return True

    @abstractmethod
    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        """What `member` hears in `round`."""

    @abstractmethod
    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        """The other members that hear `member` in `round`; empty where everybody or a hub does."""

    @abstractmethod
    def fits(self, world: World) -> None:
        """Refuse a world this topology cannot be laid over."""


def hears(topology: Topology, member: int, round: int, world: World, slot: int) -> Mapping[int, float]:
    """The weights with which `member` hears each member: one row of the mixing matrix."""
    match topology.mixing(member, round, world, slot):
        case Everyone():
            return dict.fromkeys(range(world.size), 1.0 / world.size)
        case Neighbours(weights):
            return weights
        case AtHub():
            return {}
        case Pair(partner):
            return {member: 0.5, partner: 0.5} if partner != member else {member: 1.0}
        case Into():
            return _inbox(topology, member, round, world, slot)


def _inbox(topology: Topology, member: int, round: int, world: World, slot: int) -> Mapping[int, float]:
    """The mean of oneself and of all who chose `member` this round, if all move at once; a self-draw counts as two."""
    counts = {member: 1.0}
    for sender in _chosen(topology, round, world, slot).get(member, ()):
        counts[sender] = counts.get(sender, 0.0) + 1.0
    total = sum(counts.values())
    return {sender: count / total for sender, count in counts.items()}


@lru_cache(maxsize=64)
def _chosen(topology: Topology, round: int, world: World, slot: int) -> dict[int, list[int]]:
    """By target, the members that chose it this round."""
    found: dict[int, list[int]] = {}
    for sender in range(world.size):
        mixing = topology.mixing(sender, round, world, slot)
        assert isinstance(mixing, Into)
        found.setdefault(mixing.target, []).append(sender)
    return found
