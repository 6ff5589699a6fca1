"""Acts in their order: nobody waits for ever, what is under way is left alone, and everybody ends with the sum.

Played with the least that a network promises: a message is gone only when its other end listens for it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy
import pytest
from tests.laws.specimens import ROUTES
from tests.laws.travel import worlds

from gossamer.parts.route import Direct, Route
from gossamer.parts.route.itinerary import SHORT, meet
from gossamer.parts.route.script import Act, Script, What, script

Pair = tuple[int, int]


@dataclass
class Player:
    """One member: its numbers, what is under way, and how far it has come."""

    plan: Script
    vector: numpy.ndarray
    rounds: bool
    at: int = 0
    coming: deque[tuple[Act, int]] = field(default_factory=deque)  # with its number among those of the pair
    leaving: deque[tuple[Act, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.inbox = numpy.zeros(self.plan.room)
        self.outbox = self.vector.copy() if self.rounds else self.vector

    def idle(self, part: slice, place: slice | None) -> None:
        """Nothing that is under way uses these numbers."""
        for act, _ in self.coming:
            if place is not None and act.place is not None:
                assert not meet(act.place, place), "a place of the inbox is used twice"
            assert act.place is not None or not meet(act.part, part), "what comes writes over other numbers"
        for act, _ in self.leaving if not self.rounds else ():
            assert not meet(act.part, part), "what is leaving is written over"


def ends(plans: list[Script], vectors: numpy.ndarray, rounds: bool) -> list[numpy.ndarray]:
    """What all hold when nobody has anything left to do."""
    players = [Player(plan, vector.copy(), rounds) for plan, vector in zip(plans, vectors, strict=True)]
    posted: dict[Pair, list[numpy.ndarray]] = {}
    listened: dict[Pair, int] = {}
    while any(player.at < len(player.plan.acts) for player in players):
        moved = [_advance(member, player, posted, listened) for member, player in enumerate(players)]
        assert any(moved), "everybody waits for somebody"
    assert not any(player.coming or player.leaving for player in players)
    return [player.vector for player in players]


def _advance(me: int, player: Player, posted: dict[Pair, list[numpy.ndarray]], listened: dict[Pair, int]) -> bool:
    """Act until something has to be waited for; whether there was any act."""
    began = player.at
    for act in player.plan.acts[began:]:
        match act.what:
            case What.LISTEN:
                player.idle(act.part if act.place is None else slice(0, 0), act.place)
                listened[act.member, me] = listened.get((act.member, me), 0) + 1
                player.coming.append((act, listened[act.member, me]))
            case What.SEND:
                sent = posted.setdefault((me, act.member), [])
                sent.append(player.outbox[act.part])
                player.leaving.append((act, len(sent)))
            case What.TAKE:
                _, number = player.coming[0]
                if len(posted.get((act.member, me), [])) < number:
                    break
                player.coming.popleft()
                player.idle(act.part, None)
                news = posted[act.member, me][number - 1]
                player.vector[act.part] = player.vector[act.part] + news if act.add else news
            case What.CLEAR:
                if listened.get((me, act.member), 0) < player.leaving[0][1]:
                    break
                _, number = player.leaving.popleft()
                posted[me, act.member][number - 1] = posted[me, act.member][number - 1].copy()  # has left by now
            case What.WRITE:
                assert not any(meet(other.part, act.part) for other, _ in player.leaving)
                player.outbox[act.part] = player.vector[act.part]
            case What.KEEP:
                player.vector[act.part] = player.outbox[act.part]
        player.at += 1
    return player.at > began


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_all_end_with_the_sum_and_nobody_waits_for_ever(route: Route, rounds: bool) -> None:
    for size in worlds(route, largest=9):
        long = [(SHORT + 60, SHORT // 10)] if size in (2, 3, 6) else []
        for length, longest in ((1, 5), (size - 1, 1), (60, 4), (60, 60), *long):
            vectors = numpy.random.default_rng(size).integers(-99, 99, (size, length)).astype(float)
            plans = [script(route, member, size, length, longest, rounds) for member in range(size)]
            for held in ends(plans, vectors, rounds):
                assert (held == vectors.sum(0)).all(), (size, length, longest)


def moved(plan: Script, what: What, to: int) -> Script:
    """The script with the first act of a kind somewhere else."""
    acts = list(plan.acts)
    acts.insert(to, acts.pop(next(number for number, act in enumerate(acts) if act.what is what)))
    return replace(plan, acts=tuple(acts))


def test_acts_in_a_wrong_order_are_found_out() -> None:
    plans, start = [script(Direct(), member, 3, 9, 9, False) for member in range(3)], numpy.ones((3, 9))
    assert all((held == 3).all() for held in ends(plans, start, False))
    with pytest.raises(AssertionError, match="everybody waits for somebody"):
        ends([moved(plan, What.SEND, len(plan.acts) - 8) for plan in plans], start, False)
    early = [script(Direct(), member, 3, SHORT + 1, SHORT, False) for member in range(3)]
    with pytest.raises(AssertionError, match="written over"):
        ends([moved(plan, What.CLEAR, len(plan.acts) - 1) for plan in early], numpy.ones((3, SHORT + 1)), False)


def test_a_direct_way_waits_for_nothing_until_all_of_its_first_wave_is_under_way() -> None:
    acts = script(Direct(), 1, 4, 4000, 500, False).acts
    kinds = [act.what for act in acts]
    first = next(number for number, what in enumerate(kinds) if what > What.SEND)
    assert kinds[:first].count(What.SEND) == 2 * 3  # two pieces of a chunk to each of the others
    assert len(kinds) - kinds[::-1].index(What.SEND) < len(kinds) - 6  # gathers are under way while others come
    own = slice(1000, 1500)
    left = next(number for number, act in enumerate(acts) if act.what is What.SEND and act.part == own)
    taken = [act for act in acts[:left] if act.what is What.TAKE]
    assert all(act.part == own for act in taken), "a piece waits for another one's numbers"


def test_a_short_vector_listens_for_all_before_it_waits_for_anything() -> None:
    for length, waits in ((4000, True), (SHORT + 4, False)):
        kinds = [act.what for act in script(Direct(), 1, 4, length, length, False).acts]
        first = next(number for number, what in enumerate(kinds) if what > What.SEND)
        assert (kinds[:first].count(What.LISTEN) == 2 * 3) is waits


def test_what_goes_to_many_is_written_once() -> None:
    acts = script(Direct(), 0, 8, 80, 80, True).acts
    assert sum(act.what is What.WRITE for act in acts) == 8
