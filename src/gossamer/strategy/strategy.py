"""Exchanges composed: a strategy, and two strategies one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.world import World
from gossamer.strategy import company
from gossamer.strategy.exchange import Exchange

MOST = 100  # exchanges in one strategy; more is a mistake


@dataclass(frozen=True, repr=False)
class Strategy:
    """What happens at every step: exchanges, in order. Prints as their sum."""

    exchanges: tuple[Exchange, ...]

    def __post_init__(self) -> None:
        if not self.exchanges:
            raise Refused("a strategy without an exchange trains members that never meet", "allreduce()")
        if len(self.exchanges) > MOST:
            raise Refused(
                f"Strategy: {len(self.exchanges)} exchanges are more than {MOST}", "fewer, with wider where=..."
            )
        for exchange in self.exchanges:
            kind("Strategy", "exchange", exchange, Exchange)
        company.check(self.exchanges)

    def __add__(self, other: Exchange | Strategy) -> Strategy:
        if isinstance(other, Exchange):
            return Strategy((*self.exchanges, other))
        kind("Strategy", "what is added", other, Strategy)
        return Strategy((*self.exchanges, *other.exchanges))

    def __repr__(self) -> str:
        return " + ".join(repr(exchange) for exchange in self.exchanges)

    @property
    def survives(self) -> bool:
        """Whether the others can go on when a member is lost."""
        return all(exchange.survives for exchange in self.exchanges)


@dataclass(frozen=True, repr=False)
class Staged:
    """`first` until `step`, then `then`: one switch, one number, one home (post-local SGD)."""

    first: Strategy
    step: int
    then: Strategy

    def __post_init__(self) -> None:
        for name in ("first", "then"):
            part = getattr(self, name)
            if isinstance(part, Exchange):
                object.__setattr__(self, name, Strategy((part,)))
            kind("Staged", name, getattr(self, name), Strategy)
        whole("Staged", "step", self.step, 1)
        for exchange in self.first.exchanges:
            if exchange.synchrony.delay:
                raise Refused("Staged: the first strategy would leave wires in flight when it ends", "delay=0")
        if any(ex.leaves_behind for ex in self.first.exchanges):
            raise Refused(f"Staged: {company.LEFT_BEHIND}", "a first strategy without a quorum")
        for exchange in self.then.exchanges:
            if exchange.hub:
                raise Refused(
                    "Staged: a hub would wake up with the parameters of step 0",
                    "a hub in the first strategy only",
                )

        if any(ex.payload is Payload.DELTAS for ex in self.then.exchanges) and not self._ends_agreed():
            raise Refused(
                "Staged: deltas count from an agreement, and the first strategy ends without one", "payload=PARAMETERS"
            )

    def _ends_agreed(self) -> bool:
        """Whether all members are the same when the first strategy ends."""
        last = self.step - 1
        whole_mixes = [ex for ex in self.first.exchanges if ex.agrees and ex.synchrony.due(last, ex.order)]
        return any(ex.payload is not Payload.GRADIENTS for ex in whole_mixes) or whole_mixes == list(
            self.first.exchanges
        )

    @property
    def survives(self) -> bool:
        """Whether the others can go on when a member is lost, at whatever step."""
        return self.first.survives and self.then.survives

    def __repr__(self) -> str:
        return f"Staged(first={self.first!r}, step={self.step}, then={self.then!r})"


AnyStrategy = Strategy | Staged


def as_strategy(value: Exchange | AnyStrategy) -> AnyStrategy:
    """An exchange alone is a strategy of one."""
    return Strategy((value,)) if isinstance(value, Exchange) else value


def slots(strategy: AnyStrategy) -> tuple[Exchange, ...]:
    """Every exchange with a place of its own for memories; a slot's number is its place here."""
    if isinstance(strategy, Staged):
        return (*strategy.first.exchanges, *strategy.then.exchanges)
    return strategy.exchanges


def at(strategy: AnyStrategy, step: int) -> list[tuple[int, Exchange]]:
    """The exchanges in force at `step`, with their slots."""
    if not isinstance(strategy, Staged):
        return list(enumerate(strategy.exchanges))
    if step < strategy.step:
        return list(enumerate(strategy.first.exchanges))
    return list(enumerate(strategy.then.exchanges, start=len(strategy.first.exchanges)))


def spells(strategy: AnyStrategy) -> list[list[tuple[int, Exchange]]]:
    """The exchanges that are in force together, with their slots, one spell after the other."""
    return [at(strategy, 0), at(strategy, strategy.step)] if isinstance(strategy, Staged) else [at(strategy, 0)]


def since(strategy: AnyStrategy, step: int) -> int:
    """The step at which the strategy in force at `step` came into force."""
    return strategy.step if isinstance(strategy, Staged) and step >= strategy.step else 0


def fits(strategy: AnyStrategy, world: World, servers: int = 0) -> None:
    """Refuse a world in which the strategy cannot be played, and servers to whom nobody would speak."""
    for exchange in slots(strategy):
        exchange.fits(world)
    if servers and not any(exchange.hub for exchange in slots(strategy)):
        count = "a server" if servers == 1 else f"{servers} servers"
        raise Refused(f"{count}, but nobody pushes to a hub in {strategy!r}", "no servers, or a strategy with a hub")
