"""Every element of a lane has one owner, nobody's words share a cache line, and only our own library is loaded."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as any_

from gossamer.engine.shared import kernel, room
from gossamer.engine.shared.places import Places, bounds, checked, equal
from gossamer.parts.library import loaded


@given(any_.integers(0, 5000), any_.integers(0, 5000), any_.integers(1, 33), any_.sampled_from([2, 4, 8]))
def test_equal_shares_follow_each_other_and_end_on_lines(start: int, length: int, size: int, width: int) -> None:
    spans = equal((start, start + length), size, width)
    assert (len(spans), spans[0][0], spans[-1][1]) == (size, start, start + length)
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert all((stop - start) * width % 64 == 0 or stop == start + length for _, stop in spans)
    longest = max(stop - first for first, stop in spans)
    assert longest <= -(-length // size) + 64 // width


@given(any_.integers(1, 9), any_.integers(0, 100_000), any_.integers(1, 40), any_.booleans())
def test_nothing_overlaps(size: int, count: int, buckets: int, shared: bool) -> None:
    where = Places(size, count, 4, buckets, shared)
    assert where.words >= 16 and where.apart >= 8 * buckets and where.apart % 64 == 0
    assert where.counters >= where.words + size * where.apart and where.says >= where.counters + buckets * 3 * 64
    assert where.slots >= where.says + size * 64 and where.slots % 4096 == 0 == where.stride % 64
    assert where.stride >= 4 * count and where.whole >= where.slots + size * where.stride and where.whole % 64 == 0
    assert where.total >= where.whole + 4 * count * shared


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ([[(0, 5), (5, 9)]], "nobody owns the elements from 9 to 10"),
        ([[(0, 6), (5, 10)]], "element 6 must have one owner"),
        ([[(0, 10)]], "one span for each of 2 members in each of 1 buckets"),
        ([[(0, 10), (10, 12)]], "nobody owns the elements from 12 to 10"),
    ],
)
def test_shares_that_leave_or_double_an_element_are_refused(shares: list[list[tuple[int, int]]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        checked(shares, bounds(10, ()), 2, 4)


def test_cuts_must_rise() -> None:
    assert bounds(10, (3, 3, 7)) == ((0, 3), (3, 3), (3, 7), (7, 10))
    for cuts in ((7, 3), (11,), (-1,)):
        with pytest.raises(ValueError, match="must rise from 0 to 10"):
            bounds(10, cuts)


def test_a_library_that_is_not_ours_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "no.so").write_bytes(b"\x7fELF and nothing")
    source = tmp_path / "loops.c"
    source.write_text("int64_t lane_stamp(void) { return 1; }")
    assert loaded(source, "lane_stamp") is None  # there is none
    library = tmp_path / f"_loops{EXTENSION_SUFFIXES[0]}"
    library.write_bytes(b"\x7fELF and nothing")
    assert loaded(source, "lane_stamp") is None
    library.unlink()
    ours = Path(kernel.__file__).parent
    library.symlink_to(next(ours.glob("_kernel*")) if kernel.library() else ours)
    assert loaded(source, "lane_stamp") is None  # built from another source
    assert loaded(source, "no_such_stamp") is None


def test_the_kind_of_loops_can_be_forced_and_chosen_again() -> None:
    kernel.force("torch")
    assert kernel.in_use() == "torch"
    kernel.force(None)
    assert kernel.in_use() == ("torch" if kernel.library() is None else "compiled")


def test_available_memory_is_no_more_than_the_host_has() -> None:
    host = Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
    assert 0 < room.available() <= int(host) * 1024
