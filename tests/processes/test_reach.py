"""Visits in memory that members share: torn reads are noticed, locks outlive nobody, staleness is bounded."""

from __future__ import annotations

import pytest
from tests.processes import reaching
from tests.processes.sharing import together


def test_a_read_while_the_partner_writes_is_torn_and_no_other_is() -> None:
    writing, still = together(2, reaching.torn)[0]
    assert writing > 0 and still == 0


def test_who_dies_in_a_step_frees_its_lock_and_leaves_it_half_applied() -> None:
    first, _, third = together(3, reaching.dies_in_a_step, killed=1)
    assert first[0] + third[0] == 1, "the half of a step must be noticed once"
    assert first[1:] == third[1:] == (True, True)


def test_nobody_runs_ahead_of_the_slowest_by_more_than_its_slack() -> None:
    found = together(4, reaching.bounded, 1000, 3)
    assert max(farthest for farthest, _ in found) == 3, found
    assert sum(waits for _, waits in found) > 0, "the gate never closed, so nothing was tried"


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_members_step_one_centre_with_one_memory(kind: str) -> None:
    wanted = reaching.alone(kind, 12)
    keeper = together(3, reaching.remembers, kind)[0]  # who waits until all have left
    assert keeper == pytest.approx(wanted, rel=1e-5)


def test_who_ends_in_peace_is_not_lost() -> None:
    assert all(found for found in together(3, reaching.listed, killed=2) if found is not None)
