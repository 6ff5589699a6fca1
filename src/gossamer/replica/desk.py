"""What a replica keeps for one slot, and what a hub says to it. Knows no values but its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from gossamer.parts.merge import Adopt
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Named, Tag
from gossamer.replica.layout import Chosen
from gossamer.strategy import AnyStrategy, Exchange, Staged, spells


@dataclass(frozen=True)
class Answer:
    """What a hub says to a push: its values, its version, and how many versions old the pushed gradient was."""

    values: Tensor
    version: int
    staleness: int = 0
    dropped: bool = False


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
    """The tensors of a model that an exchange carries.

    None is a mistake where tensors were named, and where somebody keeps them for others. A model without large
    matrices, say, has nothing for the exchange of those, and that one rests.
    """
    chosen, kept = Chosen(tags, exchange.where), exchange.hub or exchange.meets
    if not chosen.places and (kept or isinstance(exchange.where, Named)):
        raise Refused(f"{exchange.where!r} chooses none of the model's tensors", "where=Everything()")
    return chosen


def resting(strategy: AnyStrategy, desks: list[Desk]) -> frozenset[int]:
    """The slots whose exchanges carry nothing; refuses a spell of them alone, in which members would never meet."""
    rest = frozenset(slot for slot, desk in enumerate(desks) if not desk.chosen.places)
    for exchanges in spells(strategy):
        if all(slot in rest for slot, _ in exchanges):
            chosen = ", ".join(dict.fromkeys(repr(ex.where) for _, ex in exchanges))
            raise Refused(f"{chosen} chooses none of the model's tensors", "where=Everything()")
    return rest


def check_agreed(strategy: AnyStrategy, desks: list[Desk]) -> None:
    """Refuse deltas of tensors on which the members do not agree when their spell begins."""
    if not isinstance(strategy, Staged):
        return
    switch = len(strategy.first.exchanges)
    mixed = {place for desk in desks[:switch] if desk.exchange.agrees for place in desk.chosen.places}
    for desk in desks[switch:]:
        where, alone = desk.exchange.where, set(desk.chosen.places) - mixed
        if desk.exchange.payload is Payload.DELTAS and alone:
            raise Refused(
                f"Staged: deltas count from an agreement, and the first strategy never mixes all of {where!r}",
                "payload=PARAMETERS",
            )
