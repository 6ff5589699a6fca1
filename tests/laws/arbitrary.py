"""Random exchanges and strategies, every axis drawn from the specimens. Knows no player."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from tests.laws.specimens import CODECS, MERGES, ROUTES, SELECTIONS, SYNCHRONIES, TOPOLOGIES

from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Dims, Everything
from gossamer.parts.topology import Complete
from gossamer.strategy import AnyStrategy, Exchange, Staged, Strategy

AXES: dict[str, tuple[Any, ...]] = {
    "payload": tuple(Payload),
    "topology": TOPOLOGIES,
    "synchrony": SYNCHRONIES,
    "codec": CODECS,
    "merge": MERGES,
    "order": tuple(Order),
}
steady = settings(max_examples=300, derandomize=True, database=None, deadline=None)


def combinations() -> Iterator[dict[str, Any]]:
    """Every combination of specimens over the axes that bear on each other."""
    return (dict(zip(AXES, values, strict=True)) for values in product(*AXES.values()))


@lru_cache(maxsize=1)
def legal() -> dict[tuple[Payload, type], list[Exchange]]:
    """Every exchange that is not refused, by payload and topology, so that no kind crowds out the others."""
    found: dict[tuple[Payload, type], list[Exchange]] = {}
    for given in combinations():
        try:
            exchange = Exchange(**given)
        except Refused:
            continue
        found.setdefault((exchange.payload, type(exchange.topology)), []).append(exchange)
    return found


@st.composite
def drawn(draw: st.DrawFn) -> dict[str, Any]:
    """The arguments of an exchange, legal or not."""
    given = {name: draw(st.sampled_from(values)) for name, values in AXES.items()}
    return {**given, "where": draw(st.sampled_from(SELECTIONS)), "route": draw(st.sampled_from(ROUTES))}


@st.composite
def exchanges(draw: st.DrawFn) -> Exchange:
    """An exchange that is not refused when built."""
    table = legal()
    exchange = draw(st.sampled_from(table[draw(st.sampled_from(sorted(table, key=str)))]))
    where = draw(st.sampled_from((Everything(), *SELECTIONS)))
    route = draw(st.sampled_from(ROUTES)) if isinstance(exchange.topology, Complete) else exchange.route
    exchange = replace(exchange, where=where)
    return replace(exchange, route=route if exchange.shardable or not route.shards else exchange.route)


@st.composite
def strategies(draw: st.DrawFn) -> AnyStrategy | Refused:
    """One or two exchanges, often on different tensors, at times staged; a refusal when built comes as itself."""
    chosen = tuple(draw(st.lists(exchanges(), min_size=1, max_size=2)))
    if len(chosen) == 2 and draw(st.integers(0, 3)):
        chosen = (replace(chosen[0], where=Dims(least=2)), replace(chosen[1], where=Dims(most=1)))
    try:
        first = Strategy(chosen)
        if draw(st.integers(0, 3)):
            return first
        return Staged(first, draw(st.integers(1, 3)), Strategy((draw(exchanges()),)))
    except Refused as no:
        return no
