"""Whether a strategy can be played on the tensors of a model, and what of it rests there. Knows no values."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Named, Tag
from gossamer.strategy import company
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import AnyStrategy, Staged, slots, spells

Places = Sequence[int]


def suits(strategy: AnyStrategy, tags: Sequence[Tag]) -> frozenset[int]:
    """The slots whose exchanges carry nothing of these tensors; refuses what cannot be played on them."""
    carried = [places(ex, tags) for ex in slots(strategy)]
    for exchanges in spells(strategy):
        company.check_tensors([(ex, carried[slot]) for slot, ex in exchanges])
    _agreed(strategy, carried)
    return _resting(strategy, carried)


def places(exchange: Exchange, tags: Sequence[Tag]) -> Places:
    """The tensors of a model that an exchange carries.

    None is a mistake where tensors were named, and where somebody keeps them for others. A model without large
    matrices, say, has nothing for the exchange of those, and that one rests.
    """
    found = exchange.where.pick(tags)
    if not found and (exchange.hub or exchange.meets or isinstance(exchange.where, Named)):
        raise _none(repr(exchange.where))
    return found


def _resting(strategy: AnyStrategy, carried: Sequence[Places]) -> frozenset[int]:
    """Refuses a spell of resting exchanges alone, in which members would never meet."""
    rest = frozenset(slot for slot, found in enumerate(carried) if not found)
    for exchanges in spells(strategy):
        if all(slot in rest for slot, _ in exchanges):
            raise _none(", ".join(dict.fromkeys(repr(ex.where) for _, ex in exchanges)))
    return rest


def _agreed(strategy: AnyStrategy, carried: Sequence[Places]) -> None:
    """Refuse deltas of tensors on which the members do not agree when their spell begins."""
    if not isinstance(strategy, Staged):
        return
    pairs, switch = list(zip(slots(strategy), carried, strict=True)), len(strategy.first.exchanges)
    mixed = {place for ex, found in pairs[:switch] if ex.agrees for place in found}
    for ex, found in pairs[switch:]:
        if ex.payload is Payload.DELTAS and set(found) - mixed:
            raise Refused(
                f"Staged: deltas count from an agreement, and the first strategy never mixes all of {ex.where!r}",
                "payload=PARAMETERS",
            )


def _none(chosen: str) -> Refused:
    return Refused(f"{chosen} chooses none of the model's tensors", "where=Everything()")
