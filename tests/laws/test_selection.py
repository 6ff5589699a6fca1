"""Every selection picks by the tags alone, in model order; every line of trouble keeps to its rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import pytest
from tests.laws.specimens import SELECTIONS, TROUBLES

from gossamer.parts.selection import Everything, Except, Selection, Tag
from gossamer.parts.trouble import Fail, Slow, Trouble

TAGS = (
    Tag("0.weight", (4, 3)),
    Tag("0.bias", (4,)),
    Tag("2.weight", (2, 4), 8),
    Tag("2.bias", (2,), 8),
    Tag("scale", ()),
    Tag("conv.weight", (2, 3, 3, 3)),
)


def picks_what_it_takes(selection: Selection) -> str | None:
    """`pick` gives the places that it takes, rising, each once."""
    meant = tuple(place for place, tag in enumerate(TAGS) if selection.takes(place, tag))
    return None if selection.pick(TAGS) == meant else f"{selection.pick(TAGS)} picked, {meant} taken"


def picks_the_same_again(selection: Selection) -> str | None:
    """Pure: all members pick alike."""
    return None if selection.pick(TAGS) == selection.pick(TAGS) else "picks otherwise when asked again"


def is_split_by_its_opposite(selection: Selection) -> str | None:
    """A selection and everything but it share the model out without gap or overlap."""
    both = selection.pick(TAGS) + Except(selection).pick(TAGS)
    return None if sorted(both) == list(range(len(TAGS))) else f"{both} does not share the model out"


@dataclass(frozen=True, repr=False)
class Backwards(Everything):
    def pick(self, tags: Sequence[Tag]) -> tuple[int, ...]:
        return super().pick(tags)[::-1]


@dataclass(frozen=True, repr=False)
class Moody(Selection):
    asked: ClassVar[count[int]] = count()

    def takes(self, place: int, tag: Tag) -> bool:
        return next(self.asked) % 5 < 2


@dataclass(frozen=True, repr=False)
class Greedy(Everything):
    def pick(self, tags: Sequence[Tag]) -> tuple[int, ...]:
        return (*super().pick(tags), 0)


def slows_nobody_down_below_one(trouble: Trouble) -> str | None:
    """Trouble makes nobody faster, and touches nobody above the worst rank it names."""
    for member in range(6):
        for step in range(50):
            slowdown, fatal = trouble.slowdown(member, step), trouble.fatal(member, step)
            if slowdown < 1.0:
                return f"member {member} becomes faster"
            if member > trouble.worst_rank() and (slowdown > 1.0 or fatal):
                return f"member {member} has trouble, though {trouble.worst_rank()} is the largest rank named"
    return None


def the_dead_stay_dead(trouble: Trouble) -> str | None:
    """Whoever dies does not come back at a later step."""
    for member in range(6):
        states = [trouble.fatal(member, step) for step in range(50)]
        if states != sorted(states):
            return f"member {member} comes back"
    return None


@dataclass(frozen=True, repr=False)
class Doping(Slow):
    def slowdown(self, member: int, step: int) -> float:
        return 1.0 / super().slowdown(member, step)


@dataclass(frozen=True, repr=False)
class Ghost(Fail):
    def fatal(self, member: int, step: int) -> bool:
        return member == self.rank and step == self.step


@dataclass(frozen=True, repr=False)
class Contagious(Slow):
    def slowdown(self, member: int, step: int) -> float:
        return self.factor


LAWS = (
    *((law, SELECTIONS) for law in (picks_what_it_takes, picks_the_same_again, is_split_by_its_opposite)),
    *((law, TROUBLES) for law in (slows_nobody_down_below_one, the_dead_stay_dead)),
)
WRONG = (
    (picks_what_it_takes, Backwards()),
    (picks_the_same_again, Moody()),
    (is_split_by_its_opposite, Greedy()),
    (slows_nobody_down_below_one, Doping(rank=1, factor=2.0)),
    (slows_nobody_down_below_one, Contagious(rank=1, factor=2.0)),
    (the_dead_stay_dead, Ghost(rank=1, step=3)),
)


@pytest.mark.parametrize(
    ("law", "specimen"),
    [(law, specimen) for law, table in LAWS for specimen in table],
    ids=lambda one: getattr(one, "__name__", repr(one)),
)
def test_holds(law: Callable[[object], str | None], specimen: object) -> None:
    assert law(specimen) is None


@pytest.mark.parametrize(("law", "wrong"), WRONG, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_rejects(law: Callable[[object], str | None], wrong: object) -> None:
    assert law(wrong) is not None


def test_every_law_rejects_something() -> None:
    assert {law for law, _ in WRONG} == {law for law, _ in LAWS}
