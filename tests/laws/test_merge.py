"""Every merge keeps its promises: it writes to nothing lent, leaves agreement alone, and moves fairly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from tests.laws.specimens import MERGES
from torch import Tensor

from gossamer.parts.merge import Adopt, Elastic, Memory, Merge, Outer, Share
from gossamer.parts.payload import Payload

Law = Callable[[Merge], str | None]


def numbers(key: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(key))


def writes_to_nothing_lent(merge: Merge) -> str | None:
    """Neither side writes to what it is handed: others were handed the same."""
    mine, heard, memory = numbers(1, 8), numbers(2, 8), Memory()
    for _ in range(3):
        merge.member(mine, heard, memory, 4)
        merge.hub(mine, heard, memory, 0.5)
    same = torch.equal(mine, numbers(1, 8)) and torch.equal(heard, numbers(2, 8))
    return None if same else "what was handed over has changed"


def memories_are_private(merge: Merge) -> str | None:
    """What a merge remembers does not lie in the storage of what it was handed."""
    for side in ("member", "hub"):
        mine, heard, memory = numbers(1, 8), numbers(2, 8), Memory()
        for _ in range(2):
            getattr(merge, side)(mine, heard, memory, 1)
            if {t.data_ptr() for t in memory.values()} & {mine.data_ptr(), heard.data_ptr()}:
                return f"{side}: remembers a tensor that belongs to others"
    return None


def agreement_is_left_alone(merge: Merge) -> str | None:
    """Where all hold the same parameters nothing moves; where nobody gained anything the deltas stay zero."""
    same, zero, memory = numbers(1, 8), torch.zeros(8, dtype=torch.float64), Memory()
    for size in (1, 2, 7):
        if Payload.PARAMETERS in merge.payloads:
            ends = [merge.member(same, same, memory, size), merge.hub(same, same, memory, 1 / size)]
            if any(not torch.equal(end, same) for end in ends):
                return f"{size} members that agree are moved apart"
        else:
            ends = [merge.member(zero, zero, memory, size), merge.hub(same, zero, memory, 1 / size)]
            if any(end.any() for end in ends):
                return f"{size} members: something comes of nothing"
    return None


def opposite_moves_cancel(merge: Merge) -> str | None:
    """Where members hear the centre as it was, all their moves and the centre's together are nothing (EASGD)."""
    if not merge.answers_with_before:
        return None
    for size in (1, 2, 5):
        members, centre, memory = numbers(3, size, 8), numbers(4, 8), Memory()
        moves = sum(merge.member(one, centre, memory, size) - one for one in members)
        moves = moves + merge.hub(centre, members.mean(0), memory, 1.0) - centre
        if float(moves.abs().max()) > 1e-12:
            return f"{size} members: the moves add up to {float(moves.abs().max()):g}"
    return None


def gentle_means_gentle(merge: Merge) -> str | None:
    """A merge that calls itself gentle lets one of n contributions take the centre no further than 1/n of the way."""
    if not merge.moves_centre_gently:
        return None
    centre, one = numbers(5, 8), numbers(6, 8)
    for size in (2, 5):
        way = (merge.hub(centre, one, {}, 1 / size) - centre) / (one - centre)
        if float(way.max()) > 1 / size + 1e-12 or float(way.min()) <= 0:
            return f"one of {size} takes the centre {float(way.max()):g} of the way"
    return None


def deals_with_all_elements_alike(merge: Merge) -> str | None:
    """Elementwise: a vector merged in two pieces is the vector merged whole, so buckets may be cut anywhere."""
    for side in ("member", "hub"):
        mine, heard = numbers(7, 9), numbers(8, 9)
        whole, pieces = Memory(), (Memory(), Memory())
        for _ in range(3):
            full = getattr(merge, side)(mine, heard, whole, 1)
            cut = [
                getattr(merge, side)(m, h, memory, 1)
                for m, h, memory in zip(mine.split([4, 5]), heard.split([4, 5]), pieces, strict=True)
            ]
            if not torch.equal(full, torch.cat(cut)):
                return f"{side}: pieces merge otherwise than the whole"
    return None


LAWS = (
    writes_to_nothing_lent,
    memories_are_private,
    agreement_is_left_alone,
    opposite_moves_cancel,
    gentle_means_gentle,
    deals_with_all_elements_alike,
)


@dataclass(frozen=True, repr=False)
class Grabbing(Adopt):
    """Scales what everybody heard."""

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return heard.mul_(0.5)


@dataclass(frozen=True, repr=False)
class Clinging(Outer):
    """Remembers the mean itself, not a copy."""

    def hub(self, centre: Tensor, mean: Tensor, memory: Memory, share: float) -> Tensor:
        memory["outer momentum"] = mean
        return mean


@dataclass(frozen=True, repr=False)
class Shrinking(Adopt):
    """Takes most of what was heard."""

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return 0.9 * heard


@dataclass(frozen=True, repr=False)
class Selfish(Elastic):
    """Moves the members by the rate and not by rate/n: the first reading of the paper that many make."""

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return mine - self.rate * (mine - heard)


@dataclass(frozen=True, repr=False)
class Brash(Adopt):
    """Lets whoever spoke last overwrite the centre, and calls that gentle."""

    moves_centre_gently: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Clipped(Adopt):
    """Limits the norm of whatever piece it is given."""

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return heard / heard.norm().clamp_min(1.0)


WRONG = (
    (writes_to_nothing_lent, Grabbing()),
    (memories_are_private, Clinging()),
    (agreement_is_left_alone, Shrinking()),
    (opposite_moves_cancel, Selfish()),
    (gentle_means_gentle, Brash()),
    (deals_with_all_elements_alike, Clipped()),
)


@pytest.mark.parametrize("merge", MERGES, ids=repr)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_holds(law: Law, merge: Merge) -> None:
    assert law(merge) is None


@pytest.mark.parametrize(("law", "wrong"), WRONG, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_rejects(law: Law, wrong: Merge) -> None:
    assert law(wrong) is not None


def test_every_law_rejects_something() -> None:
    assert {law for law, _ in WRONG} == set(LAWS)


def test_shares_of_all_workers_add_up_to_the_mean() -> None:
    said = numbers(9, 5, 8)
    apart = sum(Share().hub(said[0], one, {}, 1 / 5) for one in said)
    torch.testing.assert_close(apart, Adopt().hub(said[0], said.mean(0), {}, 1.0))


def test_elastic_moves_by_rate_over_n() -> None:
    mine, centre = torch.tensor([4.0]), torch.tensor([0.0])
    assert Elastic(rate=0.5).member(mine, centre, {}, 4).item() == 4.0 - 0.125 * 4.0
    assert Elastic(rate=0.5).hub(centre, mine, {}, 1.0).item() == 2.0


@pytest.mark.parametrize("nesterov", [False, True])
def test_outer_is_momentum_along_the_mean_delta(nesterov: bool) -> None:
    outer, memory, velocity = Outer(rate=0.5, momentum=0.9, nesterov=nesterov), Memory(), 0.0
    for delta in (1.0, -2.0, 0.5):
        velocity = 0.9 * velocity + delta
        wanted = 0.5 * (delta + 0.9 * velocity if nesterov else velocity)
        found = outer.member(torch.zeros(1), torch.tensor([delta], dtype=torch.float64), memory, 3)
        assert found.item() == pytest.approx(wanted, abs=1e-12)


def test_outer_without_momentum_at_rate_one_adopts() -> None:
    delta = numbers(10, 8)
    torch.testing.assert_close(Outer(rate=1.0, momentum=0.0).member(delta, delta, {}, 2), delta)
