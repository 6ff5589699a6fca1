"""The printed form of a strategy is its configuration: read again it is the same value, and says the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.arbitrary import exchanges, legal, steady, strategies
from tests.laws.specimens import CODECS, ENTRIES, MERGES, ROUTES, SELECTIONS, SYNCHRONIES, TOPOLOGIES

from gossamer.parts.codec import DGC, ErrorFeedback, TopK
from gossamer.parts.merge import Outer
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Bytes, Dims, Except, Named, Part
from gossamer.parts.synchrony import AllBut, Late, Synchrony
from gossamer.parts.topology import Graph, Hub
from gossamer.strategy import AnyStrategy, Exchange, Misread, Staged, Strategy, parse

ends = st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda edge: edge[0] != edge[1])


def reads_back(strategy: AnyStrategy, write: Callable[[AnyStrategy], str] = repr) -> str | None:
    """parse(repr(s)) == s, and prints the same again."""
    text = write(strategy)
    try:
        found = parse(text)
    except Misread as error:
        return f"{text} cannot be read: {error}"
    if found != strategy or hash(found) != hash(strategy):
        return f"{text} is read as {found!r}"
    return None if repr(found) == repr(strategy) else f"{text} prints as {found!r}"


@pytest.mark.parametrize("text", ENTRIES)
def test_every_entry_reads_back(text: str) -> None:
    assert reads_back(parse(text)) is None


def test_every_specimen_reads_back() -> None:
    """Each part is known to the language by its own name."""
    homes = [Exchange(route=part) for part in ROUTES] + [Exchange(where=part) for part in SELECTIONS]
    built = [exchange for found in legal().values() for exchange in found]
    for axis, table in {"topology": TOPOLOGIES, "codec": CODECS, "merge": MERGES, "synchrony": SYNCHRONIES}.items():
        homes += [next(exchange for exchange in built if getattr(exchange, axis) == part) for part in table]
    assert {reads_back(Strategy((exchange,))) for exchange in homes + built[::20]} == {None}


@settings(steady, max_examples=150)
@given(strategies())
def test_random_strategies_read_back(strategy: AnyStrategy | Refused) -> None:
    assert isinstance(strategy, Refused) or reads_back(strategy) is None


@settings(steady, max_examples=60)
@given(
    st.text(min_size=1, max_size=20),
    st.floats(1e-9, 1.0),
    st.floats(0.0, 1.0, exclude_max=True),
    st.integers(1, 10**6),
    st.lists(ends, min_size=1, max_size=9, unique=True),
    st.booleans(),
)
def test_any_numbers_and_names_read_back(
    glob: str, share: float, momentum: float, count: int, edges: list[tuple[int, int]], word: bool
) -> None:
    where = Except(Named(glob)) if word else Named(glob)
    late, order = (Late.APPLY, Order.BEFORE) if word else (Late.DROP, Order.AFTER)
    many = (
        Exchange(codec=DGC(share, momentum, nesterov=word, masking=not word, warmup=count), where=where),
        Exchange(codec=ErrorFeedback(TopK(share)), where=Part(count - 1, count)),
        Exchange(Payload.DELTAS, merge=Outer(share, momentum, word), where=Dims(1, count), order=order),
        Exchange(Payload.PARAMETERS, topology=Graph(tuple(edges)), synchrony=Synchrony(count), where=Bytes(count)),
        Exchange(
            topology=Hub(),
            where=Bytes(0, count),
            synchrony=Synchrony(1, None, quorum=AllBut(count) if word else count, late=late),
        ),
    )
    assert reads_back(Strategy(many)) is None
    assert reads_back(Staged(Strategy(many), count, Strategy(many[:2]))) is None


@settings(steady, max_examples=100)
@given(exchanges(), exchanges())
def test_equal_means_printed_alike(one: Exchange, other: Exchange) -> None:
    assert (one == other) == (repr(one) == repr(other))
    try:
        both = Strategy((one, other))
    except Refused:
        return
    assert one + other == both == parse(f"{one!r} + {other!r}")


def test_a_graph_of_many_members_reads_back() -> None:
    """128 members that send to 8 neighbours each are no unusual graph."""
    edges = tuple((member, (member + hop) % 128) for member in range(128) for hop in range(1, 9))
    assert reads_back(Strategy((Exchange(Payload.PARAMETERS, topology=Graph(edges)),))) is None


def test_defaults_are_left_out() -> None:
    assert repr(parse("allreduce")) == "Exchange()"
    assert repr(parse("local_sgd(every=4)")) == "Exchange(payload=PARAMETERS, synchrony=Synchrony(every=4))"
    assert repr(parse("powersgd")) == "Exchange(codec=ErrorFeedback(codec=PowerSGD()))"


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda strategy: repr(strategy.exchanges[0]), "is read as"),
        (lambda strategy: repr(strategy).replace("0.25", "0.5"), "is read as"),
        (lambda strategy: repr(strategy).replace("TopK", "topk"), "cannot be read"),
        (lambda strategy: repr(strategy)[:-1], "cannot be read"),
    ],
    ids=["forgets the second", "rounds", "spells otherwise", "cuts off"],
)
def test_the_law_rejects_a_wrong_writer(write: Callable[[AnyStrategy], str], told: str) -> None:
    exchange = Exchange(codec=TopK(keep=0.25))
    found = reads_back(Strategy((exchange, replace(exchange, where=Dims(least=2)))), write)
    assert found is not None and told in found
