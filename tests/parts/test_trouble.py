"""The script of trouble: lines multiply, kill once and for all, and name only ranks that exist."""

from __future__ import annotations

import pytest

from gossamer.parts.refusal import Refused
from gossamer.parts.trouble import Fail, Script, Slow

SCRIPT = Script((Slow(rank=1, factor=5.0), Slow(rank=1, factor=2.0, start=3, stop=5), Fail(rank=2, step=4)))


def test_slowdowns_of_all_lines_multiply() -> None:
    assert [SCRIPT.slowdown(1, step) for step in range(2, 6)] == [5.0, 10.0, 10.0, 5.0]
    assert [SCRIPT.slowdown(0, step) for step in range(6)] == [1.0] * 6
    assert Script().slowdown(1, 0) == 1.0


def test_a_member_dies_at_its_step_and_stays_dead() -> None:
    assert [SCRIPT.fatal(2, step) for step in (3, 4, 5, 100)] == [False, True, True, True]
    assert not any(SCRIPT.fatal(member, 100) for member in (0, 1))
    assert not Script().fatal(0, 0)


def test_a_script_names_only_ranks_there_are() -> None:
    SCRIPT.fits(3)
    with pytest.raises(Refused, match="names rank 2, but the ranks are 0 to 1"):
        SCRIPT.fits(2)


@pytest.mark.parametrize("given", [{"start": 5, "stop": 5}, {"start": 5, "stop": 3}, {"factor": 0.5}, {"factor": 1e7}])
def test_a_slow_line_that_cannot_be_is_refused(given: dict) -> None:
    with pytest.raises(Refused, match="slow: "):
        Slow(**{"rank": 0, "factor": 2.0, **given})
