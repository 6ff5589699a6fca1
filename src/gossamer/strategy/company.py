"""Which exchanges may carry the same tensors at the same time: each rule with its reason. Knows no model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Everything
from gossamer.strategy.exchange import Exchange

LEFT_BEHIND = "who a quorum leaves behind is at another round, and others would wait for it for ever"
APART = "one of them alone, or where=... that keeps them apart"


def check(exchanges: Sequence[Exchange]) -> None:
    """Refuse exchanges that cannot be in force together, as far as that shows without a model."""
    waiting = [ex for ex in exchanges if ex.synchrony.staleness == 0]
    if len(waiting) > 1 and any(ex.leaves_behind for ex in waiting):
        raise Refused(f"Strategy: {LEFT_BEHIND}", "a hub with a quorum alone, or quorum=None")
    for one, other in permutations(exchanges, 2):
        everything = Everything() in (one.where, other.where)
        reason = clash(one, other) if everything or one.where == other.where else None
        if reason:
            raise Refused(f"Strategy: {reason}", APART)


def check_tensors(carried: Sequence[tuple[Exchange, Sequence[int]]]) -> None:
    """Refuse exchanges in force together that clash on a tensor of the model at hand."""
    for (one, mine), (other, theirs) in permutations(carried, 2):
        reason = clash(one, other) if set(mine) & set(theirs) else None
        if reason:
            raise Refused(f"{one.where!r} and {other.where!r} overlap: {reason}", APART)


def clash(one: Exchange, other: Exchange) -> str | None:
    """Why these two cannot carry the same tensor; asked both ways round."""
    payloads = {one.payload, other.payload}
    if one.updates_at_hub and other.payload is Payload.GRADIENTS:
        return "a hub steps these tensors; a second exchange of their gradients steps them twice"
    if one.updates_at_hub:
        return "a hub steps these tensors and hands them back whole; what others made of them would be lost"
    if one.hub and other.hub:
        return "two hubs keep these tensors, and each would count what the other did as the members' own steps"
    if payloads == {Payload.DELTAS}:
        return "deltas would be counted twice: what one exchange agreed on is a gain to the other"
    if one.carries_mass and not one.topology.balanced and other.payload is not Payload.GRADIENTS:
        return "masses differ on an unbalanced graph; a second mix that does not carry them moves the mean"
    if one.topology.trades and other.payload is not Payload.GRADIENTS and (other.hub or not other.meets):
        return "a trade that comes while the other exchange is under way would be overwritten"
    if one.merge.lookahead and other.meets and not other.hub:
        return "who looks ahead for its gradient must not be read or traded with meanwhile"
    if payloads == {Payload.GRADIENTS} and one.synchrony.delay:
        return "a delayed gradient would be mixed again with the next one"
    if payloads == {Payload.GRADIENTS} and one.codec.owns_momentum and other.codec.owns_momentum:
        return "both codecs apply the momentum, which would count twice"
    return None
