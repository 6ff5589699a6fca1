"""Batch-size control: the published sizes, how workers meet them, and every sample once per epoch through it all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.recipes import Batches, Portion, Timetable, portion
from gossamer.recipes.batches import nearest_size
from gossamer.recipes.recipe import read, written
from gossamer.tasks import Stream


@pytest.mark.parametrize(("each", "total"), [(16, "34K"), (32, "68K"), (56, "119K")])
def test_2176_workers(each: int, total: str) -> None:
    """C58: as P5 counts, in units of 1,024; and 3,456 workers of v2."""
    assert f"{2176 * each // 1024}K" == total
    assert portion(2176 * each, 2176) == Portion(each)
    assert 3456 * 16 // 1024 == 54


@pytest.mark.parametrize(
    ("size", "workers", "most", "share"),
    [(64, 4, None, Portion(16)), (64, 4, 16, Portion(16)), (64, 4, 8, Portion(16, 2)), (60, 4, 8, Portion(15, 2)),
     (28, 4, 6, Portion(7, 2)), (2176 * 56, 2176, 32, Portion(56, 2)), (4 * 997, 4, 512, Portion(997, 2))],
)  # fmt: skip
def test_workers_meet_a_size(size: int, workers: int, most: int | None, share: Portion) -> None:
    """In as few pieces as can be, also of a prime share, which are all but equally long."""
    assert portion(size, workers, most) == share
    assert sum(share.pieces) * workers == size
    assert max(share.pieces) - min(share.pieces) <= 1 and max(share.pieces) <= (most or size)


def test_portions_are_told() -> None:
    assert [str(each) for each in (Portion(16), Portion(16, 2), Portion(31, 2))] == [
        "16",
        "16 (2 x 8)",
        "31 (2 x 15-16)",
    ]


@pytest.mark.parametrize(
    ("size", "workers", "most", "times", "near"),
    [(62, 4, 1198, 1, 64), (66, 4, 1198, 1, 68), (10, 4, 1198, 1, 12), (1, 4, 1198, 1, 4), (2000, 4, 1198, 1, 1196),
     (1000, 4, 1198, 2, 596), (64, 4, 50, 2, 24), (64, 4, 7, 2, 0)],
)  # fmt: skip
def test_the_nearest_size_is_one_that_works(size: int, workers: int, most: int, times: int, near: int) -> None:
    assert nearest_size(size, workers, most, times) == near


@pytest.mark.parametrize(
    ("size", "workers", "most", "accumulate", "nearest"),
    [(65, 4, None, True, "64"), (67, 4, None, True, "68"), (3, 4, None, True, "4"), (64, 4, 8, False, "32, or acc")],
)
def test_what_workers_cannot_meet_is_refused(
    size: int, workers: int, most: int | None, accumulate: bool, nearest: str
) -> None:
    with pytest.raises(Refused) as caught:
        portion(size, workers, most, accumulate)
    assert str(caught.value.nearest).startswith(nearest)


plans = st.integers(1, 6).flatmap(
    lambda workers: st.tuples(
        st.just(workers),
        st.lists(st.integers(1, 9), min_size=1, max_size=4),  # samples of a worker, from one change to the next
        st.lists(st.floats(0.3, 3.0), min_size=3, max_size=3),  # epochs between changes
        st.integers(60, 300),
        st.integers(0, 5),
    )
)


@settings(max_examples=60, deadline=None)
@given(plans)
def test_each_sample_comes_once_per_epoch(plan: tuple[int, list[int], list[float], int, int]) -> None:
    workers, shares, gaps, samples, seed = plan
    starts = [sum(gaps[:number]) for number in range(len(shares))]
    sizes = Batches(tuple((start, share * workers) for start, share in zip(starts, shares, strict=True)))
    table = Timetable(sizes, samples, starts[-1] + 2.0)
    stream = Stream(samples, 1, World(workers, seed), table)
    heard = [stream.indices(member, step).tolist() for step in range(table.steps) for member in range(workers)]
    flat = [sample for part in heard for sample in part]
    assert len(flat) == table.read >= (starts[-1] + 2.0) * samples - 1e-6
    for epoch in range(len(flat) // samples):
        assert sorted(flat[epoch * samples : (epoch + 1) * samples]) == list(range(samples))
    assert max(Counter(flat[len(flat) // samples * samples :]).values(), default=1) == 1
    for step in range(table.steps):
        epoch = table.epoch(step)
        assert table.size(step) == sizes.at(epoch + 1e-9) == workers * len(heard[step * workers])


def test_a_run_that_goes_on_with_other_sizes_reads_what_comes_next() -> None:
    """Nothing twice, nothing dropped: also with other workers."""
    before, after = Stream(60, 3, World(4, 1)), Stream(60, 5, World(2, 1))
    after.begin(3, before.cuts.start(3))
    heard = [before.indices(member, step).tolist() for step in range(3) for member in range(4)]
    heard += [after.indices(member, step).tolist() for step in range(3, 11) for member in range(2)]
    flat = [sample for part in heard for sample in part][:60]
    assert sorted(flat) == list(range(60))
    assert len(after.indices(0, 0)) == 5  # whoever looks back further than it goes


def test_a_new_size_begins_with_the_first_step_of_its_epoch() -> None:
    table = Timetable(read("0:32, 1:64"), 100, 2.0)
    assert [table.size(step) for step in range(table.steps)] == [32, 32, 32, 32, 64, 64]
    assert [table.start(step) for step in range(table.steps)] == [0, 32, 64, 96, 128, 192]


def test_batches_are_read_and_written() -> None:
    sizes = read("0:256, 30:512,60.5:1024")
    assert sizes == Batches(((0.0, 256), (30.0, 512), (60.5, 1024))) and read(written(sizes)) == sizes
    assert read("256") == Batches(((0.0, 256),))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: read("0:a"), "is no epoch and size"),
        (lambda: read("5:32"), "begins at epoch 0"),
        (lambda: read("0:32, 0:64"), "epochs must rise"),
        (lambda: read("0:0"), "size must"),
        (lambda: Timetable(read("0:32, 9:64"), 100, 9.0), "begins at epoch 9 of a run of 9"),
        (lambda: Timetable(read("0:32, 1:640"), 100, 9.0), "a step of 640 samples, and there are 100"),
    ],
)
def test_what_cannot_be_is_refused(make: object, told: str) -> None:
    with pytest.raises(Refused, match=told):
        make()  # type: ignore[operator]
