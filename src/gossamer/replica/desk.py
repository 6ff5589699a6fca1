"""What a replica keeps for one slot, and what a hub says to it. Knows no values but its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from gossamer.parts.merge import Adopt
from gossamer.parts.payload import Payload
from gossamer.parts.selection import Tag
from gossamer.replica.layout import Chosen
from gossamer.strategy import Exchange
from gossamer.strategy.suits import places


@dataclass(frozen=True)
class Answer:
    """What a hub says to a push: its values, its version, how many versions old the pushed gradient was, and whether it
    was dropped, or its round was, for somebody's was no number."""

    values: Tensor
    version: int
    staleness: int = 0
    dropped: bool = False
    spoilt: bool = False


@dataclass
class Desk:
    """What a replica keeps for one slot: the tensors it carries, its memories, its mass, its place at the hub."""

    exchange: Exchange
    chosen: Chosen
    memory: dict[str, Tensor]
    mass: float = 1.0
    versions: list[int] = field(default_factory=lambda: [0])  # of the hub, or of each of its shards, as last heard
    pushes: int = 0
    inbox: Tensor | None = None  # the sum of what others laid in, and how many did
    letters: int = 0

    @property
    def adopts(self) -> bool:
        """Whether parameters become what was heard, just so."""
        ex = self.exchange
        at_once = not (ex.carries_mass or ex.synchrony.delay)
        return at_once and ex.payload is Payload.PARAMETERS and type(ex.merge) is Adopt

    def round(self, shard: int = 0) -> int:
        """The hub's round that the next push belongs to: its own count where all must be in, else the hub's version."""
        if self.exchange.synchrony.quorum is None:
            return self.pushes
        return self.versions[shard if shard < len(self.versions) else 0]


def carried(exchange: Exchange, tags: tuple[Tag, ...]) -> Chosen:
    """The tensors of a model that an exchange carries, refused where there must be some."""
    places(exchange, tags)
    return Chosen(tags, exchange.where)
