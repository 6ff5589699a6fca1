"""Where a strategy stands in the taxonomy of paper 2, computed from its fields and never typed in by hand."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.parts.merge import Adopt, Share
from gossamer.parts.payload import Payload
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import AnyStrategy, slots


@dataclass(frozen=True)
class Position:
    """The four axes of paper 2, and what is exchanged and how it is written."""

    parallelism: str
    optimisation: str
    scheduling: str
    pattern: str
    exchanged: str
    compression: str


def position(strategy: AnyStrategy) -> Position:
    """The position; where exchanges differ, each word in order of appearance."""
    exchanges = slots(strategy)

    def told(words: list[str]) -> str:
        return " + ".join(dict.fromkeys(words))

    return Position(
        parallelism="data",
        optimisation=told([_optimisation(ex) for ex in exchanges]),
        scheduling=told([_scheduling(ex) for ex in exchanges]),
        pattern=told([ex.topology.pattern for ex in exchanges]),
        exchanged=told([ex.payload.value for ex in exchanges]),
        compression=told([_compression(ex) for ex in exchanges if ex.codec.compresses] or ["none"]),
    )


def _optimisation(ex: Exchange) -> str:
    """Centralised: one logical optimizer owns the model, fed with gradients or with steps that it adds up."""
    owned = ex.payload is Payload.DELTAS and ex.hub and isinstance(ex.merge, Adopt | Share)
    return "centralised" if ex.payload is Payload.GRADIENTS or owned else "decentralised"


def _scheduling(ex: Exchange) -> str:
    """In step, never further behind than a bound (a delay is one: its answers are that old), or without any."""
    if ex.synchrony.staleness == 0:
        return "bounded asynchronous" if ex.synchrony.delay else "synchronous"
    return "asynchronous" if ex.synchrony.staleness is None else "bounded asynchronous"


def _compression(ex: Exchange) -> str:
    return repr(ex.codec)
