"""A combination of parts either trains or is refused when built, with a reason; none fails later."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.arbitrary import combinations, drawn, legal, steady, strategies
from tests.laws.specimens import CODECS, ENTRIES, MERGES, ROUTES, SELECTIONS, TABLE, TOPOLOGIES
from tests.laws.tiny import fault

from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Conversation, Dense, Mean, Memory
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Cycle, Mixing, Neighbours
from gossamer.parts.world import World
from gossamer.strategy import AnyStrategy, Exchange, Staged, Strategy, parse

tally: Counter[str] = Counter()  # how the strategies tried so far ended


def trains_or_says_no(strategy: AnyStrategy | Refused, size: int, steps: int) -> str | None:
    """Rehearsed for real it trains, or it was refused before the first step with a reason."""
    try:
        found = strategy if isinstance(strategy, Refused) else fault(strategy, size, steps)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    tally["refused" if isinstance(found, Refused) else "trained"] += 1
    if isinstance(found, Refused):
        return None if found.reason else "refused without a reason"
    return found


def test_every_combination_is_built_or_refused_with_a_reason() -> None:
    outcomes: Counter[str] = Counter()
    for given_parts in combinations():
        try:
            Exchange(**given_parts)
            outcomes["built"] += 1
        except Refused as no:
            assert no.reason
            outcomes["refused"] += 1
            if outcomes["refused"] % 101 == 0:  # looking for the nearest choice costs far more than saying no
                outcomes["advised"] += bool(no.nearest)
                assert no.nearest != ""
    assert outcomes["built"] >= 1000 and outcomes["refused"] >= 1000 and outcomes["advised"] >= 100


def test_random_strategies_train_or_are_refused() -> None:
    @steady
    @given(strategies(), st.sampled_from((3, 4, 2, 1)), st.integers(1, 20))
    def tried(strategy: AnyStrategy | Refused, size: int, steps: int) -> None:
        assert trains_or_says_no(strategy, size, steps) is None

    tally.clear()
    tried()
    assert tally["trained"] >= 80 and tally["refused"] >= 10, tally


@steady
@given(drawn(), st.integers(1, 4))
def test_random_parts_train_or_are_refused(parts: dict, size: int) -> None:
    try:
        strategy = Strategy((Exchange(**parts),))
    except Refused as no:
        assert no.reason
        return
    assert trains_or_says_no(strategy, size, 14) is None


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("text", ENTRIES)
def test_every_entry_trains_or_is_refused(text: str, size: int) -> None:
    assert trains_or_says_no(parse(text), size, 14) is None


@pytest.mark.parametrize("kind", sorted(legal(), key=str), ids=str)
def test_every_kind_of_legal_exchange_trains_two_at_a_time(kind: tuple[Payload, type]) -> None:
    found = legal()[kind]
    for exchange in found[:: max(1, len(found) // 8)]:
        try:
            twice = Strategy((exchange, exchange))
        except Refused:
            continue
        assert trains_or_says_no(twice, 3, 14) is None


@pytest.mark.parametrize("axis", ["topology", "route", "codec", "merge", "where"])
def test_every_part_has_a_legal_home(axis: str) -> None:
    """A part that every exchange refuses would be dead."""
    table = {"topology": TOPOLOGIES, "codec": CODECS, "merge": MERGES, "route": ROUTES, "where": SELECTIONS}[axis]
    if axis in ("route", "where"):
        homes = [getattr(Exchange(**{axis: part}), axis) for part in table]
    else:
        homes = [getattr(exchange, axis) for found in legal().values() for exchange in found]
    assert [part for part in table if part not in homes] == []
    assert any(table is known for known in TABLE.values())


@dataclass(frozen=True, repr=False)
class Broken(Dense):
    """Fails in the middle of a conversation."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        yield Mean(block.flat)
        raise RuntimeError("broken")


@dataclass(frozen=True, repr=False)
class Poisoned(Dense):
    """Hands back what is not a number."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        heard = yield Mean(block.flat)
        return heard.one() * float("nan"), block.flat


@dataclass(frozen=True, repr=False)
class Waiting(Cycle):
    """Waits for a member that does not exist."""

    pattern: ClassVar[str] = "never"

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return Neighbours({member: 0.5, world.size: 0.5})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (Exchange(codec=Broken()), "RuntimeError: broken"),
        (Exchange(codec=Poisoned()), "not finite"),
        (Exchange(topology=Waiting()), "stands still"),
    ],
    ids=["broken", "poisoned", "waiting"],
)
def test_the_law_rejects_what_fails_later(wrong: Exchange, told: str) -> None:
    found = trains_or_says_no(Strategy((wrong,)), 3, 2)
    assert found is not None and told in found


def test_the_law_rejects_a_refusal_without_a_reason() -> None:
    assert trains_or_says_no(Refused(""), 3, 2) == "refused without a reason"


@pytest.mark.parametrize(("delay", "switch"), [(1, 2), (2, 1), (2, 3)])
def test_a_delayed_second_stage_trains(delay: int, switch: int) -> None:
    """Nothing the second stage did not send itself is waited for."""
    later = parse(f"Exchange(synchrony=Synchrony(delay={delay}))")
    assert isinstance(later, Strategy)
    staged = Staged(Strategy((Exchange(),)), switch, later)
    assert trains_or_says_no(staged, 3, 6) is None
