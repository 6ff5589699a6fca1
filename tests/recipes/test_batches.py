"""Batch-size control: the published sizes, how workers meet them, and every sample once per epoch through it all."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.recipes import Batches, Portion, Timetable, portion
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
    [(64, 4, None, Portion(16)), (64, 4, 16, Portion(16)), (64, 4, 8, Portion(8, 2)), (60, 4, 8, Portion(5, 3)),
     (28, 4, 6, Portion(1, 7)), (2176 * 56, 2176, 32, Portion(28, 2))],
)  # fmt: skip
def test_workers_meet_a_size(size: int, workers: int, most: int | None, share: Portion) -> None:
    assert portion(size, workers, most) == share
    assert share.batch * share.times * workers == size


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
    assert len(flat) == table.read >= (starts[-1] + 2.0) * samples
    for epoch in range(len(flat) // samples):
        assert sorted(flat[epoch * samples : (epoch + 1) * samples]) == list(range(samples))
    assert max(Counter(flat[len(flat) // samples * samples :]).values(), default=1) == 1
    for step in range(table.steps):
        epoch = table.epoch(step)
        assert table.size(step) == sizes.at(epoch + 1e-9) == workers * len(heard[step * workers])


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
