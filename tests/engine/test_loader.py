"""A shared-out loader gives every sample once per epoch over all members, in equal shares, and goes on in mid-epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from gossamer.engine.loop.loader import counts, said, shared_out
from gossamer.engine.loop.order import by_itself
from gossamer.parts.refusal import Refused


class Numbers(Dataset[int]):
    """0, 1, 2 ...; remembers what was asked for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        return index


class Speaking:
    """How members played one after the other in one process are told what member 0 said."""

    def __init__(self) -> None:
        self.said: list[Tensor] = []
        self.heard: dict[int, int] = {}

    def to(self, member: int) -> Any:
        def told(order: Tensor | None) -> Tensor:
            if order is not None:
                self.said.append(order)
            place = self.heard.get(member, 0)
            self.heard[member] = place + 1
            return self.said[place]

        return told


def crew(size: int, make: Any, seed: int = 3) -> list[Any]:
    """The same loader made and shared out on every member."""
    speaking = Speaking()
    return [shared_out(make(), member, size, seed, speaking.to(member)) for member in range(size)]


def epoch(loader: Any) -> list[tuple[list[int], tuple[int, int]]]:
    """All batches of an epoch with their counts, read as a loop does."""
    return [(batch.tolist(), counts(loader)) for batch in loader]


def real(batches: list[tuple[list[int], tuple[int, int]]]) -> list[list[int]]:
    """The samples that count."""
    return [batch[:mine] for batch, (mine, _) in batches]


@settings(max_examples=150, deadline=None)
@given(
    samples=st.integers(1, 60),
    batch=st.integers(1, 25),
    size=st.integers(1, 9),
    drop_last=st.booleans(),
    kind=st.sampled_from(["as it is", "shuffled", "own"]),
    start=st.integers(0, 70),
)
def test_every_sample_comes_once_and_an_epoch_goes_on_in_its_midst(
    samples: int, batch: int, size: int, drop_last: bool, kind: str, start: int
) -> None:
    def make() -> DataLoader[int]:
        data = Numbers(samples)
        sampler = SubsetRandomSampler(range(samples)) if kind == "own" else None
        shuffle = kind == "shuffled" if sampler is None else None
        return DataLoader(data, batch_size=batch, drop_last=drop_last, shuffle=shuffle, sampler=sampler)

    members = crew(size, make)
    first, second = ([epoch(loader) for loader in members] for _ in range(2))
    batches = samples // batch if drop_last else -(-samples // batch)
    for played in (first, second):
        assert {len(read) for read in played} == {batches} == {len(loader) for loader in members}
        found = [sample for read in played for share in real(read) for sample in share]
        assert len(found) == len(set(found)) == min(samples, batches * batch)
        for step in zip(*played, strict=True):
            mine, whole = [own for _, (own, _) in step], {all_ for _, (_, all_) in step}
            assert len(whole) == 1 and sum(mine) == whole.pop()
            assert max(mine) - min(mine) <= 1 and mine == sorted(mine, reverse=True)
            assert all(len(got) == max(1, own) for got, (own, _) in step)
    if kind == "as it is":
        assert [[i for read in step for i in read] for step in zip(*map(real, first), strict=True)] == [
            list(range(at, min(at + batch, samples))) for at in range(0, batches * batch, batch)
        ]
    assert kind == "as it is" or samples < 20 or drop_last or first != second

    start = min(start, batches)
    again = crew(size, make)
    for loader in again:
        loader.resume({"epoch": 1, "given": start})
        assert len(loader) == batches
    assert [epoch(loader) for loader in again] == [read[start:] for read in second]


def test_a_shuffle_needs_no_word_and_does_not_touch_the_global_generator() -> None:
    def unheard(order: Tensor | None) -> Tensor:
        raise AssertionError("nobody needs to be told")

    loader = shared_out(DataLoader(Numbers(20), batch_size=6, shuffle=True), 1, 3, 0, unheard)
    before = torch.get_rng_state()
    assert len(epoch(loader)) == 4
    assert torch.equal(before, torch.get_rng_state())


def test_members_that_may_have_to_go_on_alone_draw_the_same_by_themselves() -> None:
    def made() -> DataLoader[int]:
        return DataLoader(Numbers(20), batch_size=6, sampler=WeightedRandomSampler([1.0] * 20, 20))

    told = [epoch(loader) for loader in crew(3, made)]
    drawn = [epoch(shared_out(made(), member, 3, 3, by_itself)) for member in range(3)]
    assert drawn == told and len(drawn[0]) == 4


def test_a_sampler_of_the_users_own_is_drawn_once_and_moves_nothing_outside() -> None:
    class Odd(Sampler[list[int]]):
        """Batches of growing length, shuffled by whatever generator is at hand."""

        def __iter__(self) -> Iterator[list[int]]:
            order = torch.randperm(15).tolist()
            for length in range(1, 6):
                yield [order.pop() for _ in range(length)]

        def __len__(self) -> int:
            return 5

    members = crew(3, lambda: DataLoader(Numbers(15), batch_sampler=Odd()))
    before = torch.get_rng_state()
    first = [epoch(loader) for loader in members]
    assert torch.equal(before, torch.get_rng_state())
    assert sorted(i for read in first for share in real(read) for i in share) == list(range(15))
    assert [all_ for _, (_, all_) in first[2]] == [1, 2, 3, 4, 5] and [own for _, (own, _) in first[2]] == [
        0,
        0,
        1,
        1,
        1,
    ]
    assert [epoch(loader) for loader in members] != first


def test_replacement_and_weights_are_kept() -> None:
    weights = [0.0] * 50 + [1.0] * 10
    members = crew(2, lambda: DataLoader(Numbers(60), batch_size=8, sampler=WeightedRandomSampler(weights, 40)))
    found = [i for loader in members for share in real(epoch(loader)) for i in share]
    assert len(found) == 40 and min(found) >= 50

    twice = crew(2, lambda: DataLoader(Numbers(10), 5, sampler=RandomSampler(Numbers(10), num_samples=25)))
    found = [i for loader in twice for share in real(epoch(loader)) for i in share]
    assert len(found) == 25 and {found.count(i) for i in range(10)} == {2, 3}


def test_what_breaks_in_member_0s_sampler_is_said_by_all() -> None:
    class Broken(Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            yield 3
            raise ZeroDivisionError

        def __len__(self) -> int:
            return 4

    first, second = crew(2, lambda: DataLoader(Numbers(10), batch_size=2, sampler=Broken()))
    with pytest.raises(ZeroDivisionError):
        iter(first)
    with pytest.raises(Refused, match="member 0's Broken failed"):
        iter(second)


class Endless(Sampler[list[int]]):
    def __iter__(self) -> Iterator[list[int]]:
        while True:
            yield list(range(100_000))


class Named(Sampler[str]):
    def __iter__(self) -> Iterator[str]:
        return iter("abc")


class Hollow(Sampler[list[int]]):
    def __iter__(self) -> Iterator[list[int]]:
        yield [1]
        yield []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch_sampler": Endless()}, "Endless gave .* samples and has not ended"),
        ({"sampler": Named(), "batch_size": 2}, "Named gives .* whole numbers only"),
        ({"batch_sampler": Hollow()}, r"Hollow gives an empty batch \(number 2\)"),
    ],
)
def test_an_order_that_cannot_be_told_is_refused_when_the_epoch_begins(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        iter(shared_out(DataLoader(Numbers(10), **options), 0, 1, 0))


class Mine(DataLoader[int]):
    def __iter__(self) -> Any:
        return iter([1, 2])


def distributed() -> DistributedSampler[int]:
    return DistributedSampler(Numbers(10), num_replicas=2, rank=0)


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (lambda: DataLoader(Numbers(10), sampler=distributed()), "DistributedSampler shares samples out already"),
        (lambda: DataLoader(Numbers(10), batch_sampler=BatchSampler(distributed(), 2, False)), "DistributedSampler"),
        (lambda: shared_out(DataLoader(Numbers(10)), 0, 2, 0), "shared out already"),
        (lambda: Mine(Numbers(10)), "Mine has a __iter__ of its own"),
        (lambda: DataLoader(Numbers(10), num_workers=1, in_order=False), "in_order"),
        (lambda: DataLoader(Numbers(10), sampler=SubsetRandomSampler([1, 2])), "no way to tell it"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_by_name(loader: Any, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        shared_out(loader(), 0, 2, 0)


class Flow(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(7))


def test_what_has_no_indices_passes_through_and_every_sharing_is_said() -> None:
    flow, single = DataLoader(Flow(), batch_size=2), DataLoader(Numbers(7), batch_size=None)
    assert shared_out(flow, 1, 4, 0) is flow and shared_out(single, 1, 4, 0) is single
    assert counts(flow) == (0, 0) and sum(len(batch) for batch in flow) == 7
    assert said(flow, 4) == "Flow is an IterableDataset: every member reads it all; shard it yourself"
    assert said(single, 4).startswith("batch_size=None")
    plain = DataLoader(Numbers(700), batch_size=256, shuffle=True)
    assert said(plain, 4) == said(shared_out(plain, 0, 4, 0), 4) == "batch 256 = 4 x 64"
    assert said(plain, 1) == "batch 256"
    assert said(DataLoader(Numbers(70), batch_size=10), 4) == "batch 10 = 2 x 3 + 2 x 2"
    assert (
        said(DataLoader(Numbers(70), batch_size=3), 5) == "batch 3 = 3 x 1; 2 of 5 members have no sample, and weight 0"
    )
    own = DataLoader(Numbers(70), batch_size=4, sampler=SubsetRandomSampler([1]))
    assert said(own, 2) == "batch 4 = 2 x 2, in the order of member 0's SubsetRandomSampler"
    assert (
        said(DataLoader(Numbers(70), batch_sampler=[[1, 2], [3]]), 2)
        == "batches over 2 members, in the order of member 0's list"
    )


def test_the_weighted_mean_of_member_gradients_is_the_pooled_gradient() -> None:
    torch.manual_seed(0)
    inputs, targets = torch.randn(23, 5, dtype=torch.float64), torch.randn(23, 1, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).double()

    def gradient(rows: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(model(inputs[rows]), targets[rows])
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])

    size, batch = 4, 10  # 10 = 3 + 3 + 2 + 2, then a last batch of 3, in which member 3 has none
    members = crew(size, lambda: DataLoader(Numbers(23), batch_size=batch, shuffle=True))
    for step in zip(*(epoch(loader) for loader in members), strict=True):
        mean = sum((own / all_) * gradient(torch.tensor(read)) for read, (own, all_) in step)
        pooled = torch.tensor([sample for read, (own, _) in step for sample in read[:own]])
        torch.testing.assert_close(mean, gradient(pooled), rtol=1e-12, atol=1e-12)


def test_what_was_given_before_is_not_loaded_again() -> None:
    data = Numbers(40)
    loader: Any = shared_out(DataLoader(data, batch_size=8), 1, 2, 0)
    loader.resume({"epoch": 0, "given": 3})
    assert len(epoch(loader)) == 2
    assert data.asked == [28, 29, 30, 31, 36, 37, 38, 39]
