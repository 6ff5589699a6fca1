"""One step of a strategy written out as data. This is the only place that knows the order of a step.

Phases give the latest order: a player may do a thing earlier once what it needs is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.parts.payload import Order, Payload
from gossamer.parts.selection import Everything
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import AnyStrategy, at, since


@dataclass(frozen=True, slots=True)
class Compute:
    """Forward and backward on the local batch, not before the slowest member is within `gate` steps (None: no gate)."""

    gate: int | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Put this exchange's first wire on the network; never waits."""

    slot: int


@dataclass(frozen=True, slots=True)
class Settle:
    """Take what was sent at step `sent` and merge it back; waits."""

    slot: int
    sent: int


@dataclass(frozen=True, slots=True)
class Meet:
    """Trade with one partner as it is right now; nobody else waits."""

    slot: int


@dataclass(frozen=True, slots=True)
class Update:
    """Local optimizer step, on whatever no hub updates."""


Phase = Compute | Send | Settle | Meet | Update


def phases(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    """The step in order: compute, gradients, mixes before the update, the update, mixes after it."""
    exchanges, began = at(strategy, step), since(strategy, step)
    yield Compute(_gate([ex for _, ex in exchanges]))
    for slot, ex in exchanges:
        if ex.payload is Payload.GRADIENTS:
            yield from _perform(slot, ex, step, began)
    for slot, ex in exchanges:
        if ex.payload is not Payload.GRADIENTS and ex.order is Order.BEFORE:
            yield from _perform(slot, ex, step, began)
    if not any(ex.updates_at_hub and ex.where == Everything() for _, ex in exchanges):
        yield Update()
    for slot, ex in exchanges:
        if ex.payload is not Payload.GRADIENTS and ex.order is Order.AFTER:
            yield from _perform(slot, ex, step, began)


def _perform(slot: int, ex: Exchange, step: int, began: int) -> Iterator[Phase]:
    """One exchange, in a spell that began at step `began`: nothing that an earlier spell sent is settled in it."""
    due = ex.synchrony.due(step, ex.order)
    if ex.meets:
        if due:
            yield Meet(slot)
        return
    if due:
        yield Send(slot)
    sent = step - ex.synchrony.delay
    if sent >= began and ex.synchrony.due(sent, ex.order):
        yield Settle(slot, sent)


def _gate(exchanges: list[Exchange]) -> int | None:
    """The tightest bound of the exchanges that meet peers; a hub keeps its own gate, in its answer."""
    bounds = [ex.synchrony.staleness for ex in exchanges if ex.meets]
    return min((bound for bound in bounds if bound is not None), default=None)
