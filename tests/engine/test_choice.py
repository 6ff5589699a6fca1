"""The choice of a way between hosts: what was seen decides between what was seen, and one lucky probe not beyond."""

from __future__ import annotations

import pytest

from gossamer.engine.fabrics.across import Way
from gossamer.engine.fabrics.choice import Choice
from gossamer.parts.route import Direct, Doubling, Native

NATIVE, DIRECT, DOUBLING = Way(False, Native()), Way(False, Direct()), Way(False, Doubling())
COLUMNS = Way(True, Native())
LENGTHS, REACH = (1 << 16, 1 << 20), 8 << 20
BYTE = 8e-9  # seconds, at 1 Gbit/s


def choice(seen: dict[Way, tuple[float, float]], add: float = 0.0) -> Choice:
    far = tuple((way, times[1] + BYTE * 1.5 * (REACH - LENGTHS[1])) for way, times in seen.items() if way.among.native)
    return Choice(4, 2, LENGTHS, tuple(seen.items()), add, REACH, far)


SEEN = {NATIVE: (4e-3, 17e-3), DIRECT: (2e-3, 17.5e-3), DOUBLING: (1.5e-3, 30e-3)}


def test_what_was_quickest_is_taken_at_the_lengths_that_were_tried() -> None:
    found = choice(SEEN)
    assert [found.best(length) for length in LENGTHS] == [DOUBLING, NATIVE]
    assert found.seconds(NATIVE, LENGTHS[0]) == pytest.approx(4e-3)
    assert found.best(1 << 18) == DIRECT
    assert found.best(4) == DOUBLING
    assert all(found.seconds(way, nbytes) > 0 for way in SEEN for nbytes in (0, 4, 1 << 10))


def test_the_link_is_what_the_best_way_made_of_it() -> None:
    exact = {way: tuple(1e-3 + BYTE * way.among.passed(4, length) for length in LENGTHS) for way in (NATIVE, DOUBLING)}
    found = choice({way: (times[0], times[1]) for way, times in exact.items()})
    assert found.byte == pytest.approx(BYTE)
    assert found.start == pytest.approx(1e-3 / 6)  # a ring of four has six rounds
    assert "1,000 Mbit/s, 0.17 ms a round" in found.told()


def test_a_probe_that_came_out_well_promises_nothing_for_long_mixes() -> None:
    lucky = choice(
        {NATIVE: (4e-3, 17e-3), DIRECT: (2e-3, 17.5e-3), DOUBLING: (14e-3, 14.1e-3)}
    )  # as if its bytes cost nothing
    assert lucky.best(1 << 20) == DOUBLING
    assert lucky.seconds(DOUBLING, 16 << 20) > lucky.seconds(NATIVE, 16 << 20)
    close = choice({NATIVE: (4e-3, 17e-3), DIRECT: (2e-3, 14e-3)})
    assert (close.best(1 << 20), close.best(2 << 20)) == (DIRECT, NATIVE)
    disturbed = choice({NATIVE: (50e-3, 17e-3), DIRECT: (2e-3, 18e-3)})
    assert disturbed.seconds(NATIVE, 64 << 20) > disturbed.seconds(NATIVE, 16 << 20) > 0


def test_a_far_probe_decides_about_long_mixes() -> None:
    seen = {NATIVE: (4e-3, 17e-3), COLUMNS: (4.1e-3, 16e-3), DIRECT: (2e-3, 14e-3)}
    found = Choice(4, 2, LENGTHS, tuple(seen.items()), 0.0, REACH, ((NATIVE, 0.1), (COLUMNS, 0.12)))
    assert [found.best(nbytes) for nbytes in (1 << 20, 5 << 18, REACH, 64 << 20)] == [DIRECT, COLUMNS, NATIVE, NATIVE]
    assert found.seconds(NATIVE, REACH) == pytest.approx(0.1)
    assert found.seconds(NATIVE, 64 << 20) > 0.1 * 8


def test_columns_share_the_sums_inside_a_host() -> None:
    alike = {NATIVE: (4e-3, 17e-3), COLUMNS: (4.1e-3, 17.1e-3)}
    assert choice(alike).best(64 << 20) == NATIVE
    assert choice(alike, add=1e-10).best(64 << 20) == COLUMNS


def test_the_line_says_what_is_taken_up_to_which_length() -> None:
    told = choice(SEEN).told()
    assert "masters by Doubling() up to 64 KB, masters by Direct() up to 512 KB" in told
    assert told.endswith("masters by the backend's own collective above")
    assert choice({NATIVE: (4e-3, 17e-3)}).told().endswith("masters by the backend's own collective for all")
