"""Lanes between real processes: every mix exact, members that go missing named, nothing left behind."""

from __future__ import annotations

import os

import pytest
import torch
from tests.processes import sharing
from tests.processes.sharing import together

from gossamer.engine.shared import kernel

KINDS = pytest.mark.parametrize("kind", ["compiled", "torch"])
DTYPES = (torch.float64, torch.bfloat16, torch.float16)


@KINDS
@pytest.mark.parametrize("size", range(1, 6))
def test_every_mix_is_the_mean_and_alike_on_all(size: int, kind: kernel.Kind) -> None:
    dtype = DTYPES[size % 3]
    first, *others = together(size, sharing.mixes, kind, [torch.float32, dtype])
    assert isinstance(first, list), first
    assert len(first) == 72 and all(other == first for other in others)  # bit by bit, in every slot


@KINDS
@pytest.mark.parametrize("size", [2, 3])
def test_no_result_is_torn(size: int, kind: kernel.Kind) -> None:
    assert together(size, sharing.hurried, kind, 1000) == [0] * size


def test_both_ways_to_write_one_result_are_tried_and_give_the_same() -> None:
    for wrong, tries in together(2, sharing.written_once):
        assert wrong == 0 and sum(tries) == 14 and min(tries) == 5


@KINDS
@pytest.mark.parametrize("phase", ["announced", "done"])
def test_a_missing_member_is_named(kind: kernel.Kind, phase: str) -> None:
    first, _, third = together(3, sharing.absent, kind, phase)
    for told, said, seconds in (first, third):
        assert told == [([1], 0, phase)] * 2
        assert "bucket 0" in said and "member 1 " in said
        assert 0.9 < seconds < 5


@KINDS
def test_signals_are_heard_while_waiting(kind: kernel.Kind) -> None:
    assert all(0.2 < seconds < 1.5 for seconds in together(2, sharing.interrupted, kind))


@KINDS
def test_a_killed_member_leaves_nothing(kind: kernel.Kind) -> None:
    before = set(os.listdir("/dev/shm"))
    _, *survivors = together(3, sharing.killed, kind, killed=0)
    for said, left, total in survivors:
        assert "member 0 " in said and left == [] and total == 3_000_000
    assert set(os.listdir("/dev/shm")) <= before


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("absurd", "NoRoom: shared memory needs 12,000,000,"),
        ("file size", "NoRoom: shared memory needs 12,"),
        ("address space", "Unshared: member 1 cannot reach the memory that members share: /proc/"),
        ("different", "Unshared: member 1 cannot reach the memory that members share: it wants "),
    ],
)
def test_memory_that_cannot_be_had_is_told_to_all_alike(how: str, says: str) -> None:
    first, *others = together(3, sharing.crowded, how)
    assert first[0].startswith(says), first
    assert others == [first, first]
    assert says.startswith("Unshared") or first[1] > first[2] > 0


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_loading_copies_scales_and_finds_what_is_no_number(kind: kernel.Kind, dtype: torch.dtype) -> None:
    assert together(1, sharing.loads, kind, dtype) == [[-1, 1, 1, 0, 0, -1, 1, -1]]


@KINDS
def test_nothing_is_allocated_after_the_first_mix(kind: kernel.Kind) -> None:
    assert all(spent < 100_000 for spent in together(2, sharing.allocated, kind))


@KINDS
def test_what_cannot_be_meant_is_refused(kind: kernel.Kind) -> None:
    (said,) = together(1, sharing.misused, kind)
    assert [one.split(":")[0] for one in said] == ["RuntimeError"] * 3 + ["ValueError"] * 3
    assert "announce, reduce, done, settle" in said[0] and "shared=True" in said[3] and "10 numbers, and 9" in said[5]
