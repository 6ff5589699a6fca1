"""A shared-out loader with loading processes: counts follow the batch in hand, and an epoch may be left or resumed."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler

from gossamer.engine.loop.loader import counts, shared_out
from gossamer.parts.refusal import Refused


class Noisy(Dataset[torch.Tensor]):
    """Each sample is its index beside what the global generators of its process draw for it."""

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, torch.rand(()).item(), random.random(), numpy.random.random()], dtype=torch.float64)


def loader(workers: int, member: int = 1, **options: Any) -> Any:
    """Member 1 of 4's share of batches of 4, the last of which has 2 samples."""
    plain = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=workers, **options)
    return shared_out(plain, member, 4, seed=5)


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_counts_are_of_the_batch_in_hand_not_of_the_one_read_ahead(workers: int, persistent: bool) -> None:
    last = loader(workers, member=3, persistent_workers=persistent)
    for _ in range(2):
        assert [counts(last) for _ in last] == [(1, 4)] * 7 + [(0, 2)]


@pytest.mark.parametrize("persistent", [False, True])
def test_a_resumed_epoch_draws_in_its_processes_as_if_it_had_never_stopped(persistent: bool) -> None:
    straight = loader(2, persistent_workers=persistent)
    whole = [torch.stack(list(straight)) for _ in range(2)]
    resumed = loader(2, persistent_workers=persistent)
    for given, state in ((3, {"epoch": 0, "given": 3}), (8, {"epoch": 0, "given": 8})):
        resumed.resume(state)
        rest = list(resumed)
        assert len(rest) == 8 - given and all(torch.equal(a, b) for a, b in zip(rest, whole[0][given:], strict=True))
    assert torch.equal(torch.stack(list(resumed)), whole[1])
    assert len(set(torch.cat([*whole[0], *whole[1]])[:, 1:].flatten().tolist())) == 2 * 8 * 3  # no draw comes twice


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_an_epoch_left_early_is_over_and_the_next_one_is_whole(workers: int, persistent: bool) -> None:
    straight = loader(0)
    epochs = [[batch[:, 0].tolist() for batch in straight] for _ in range(2)]
    left = loader(workers, persistent_workers=persistent)
    for given, _ in enumerate(left, 1):
        assert left.state() == {"epoch": 0, "given": given}
        if given == 3:
            break
    assert left.state() == {"epoch": 1, "given": 0}
    assert [batch[:, 0].tolist() for batch in left] == epochs[1]
    assert left.state() == {"epoch": 2, "given": 0}
    left.set_epoch(0)
    assert [batch[:, 0].tolist() for batch in left] == epochs[0]


def test_an_older_iterator_is_refused_and_an_ended_one_stays_ended() -> None:
    one = loader(0)
    older, newer = iter(one), iter(one)
    next(newer)
    with pytest.raises(Refused, match="newer one of the same loader"):
        next(older)
    assert len(list(newer)) == 7
    assert list(newer) == []
    assert one.state() == {"epoch": 2, "given": 0}


def test_set_epoch_keeps_what_was_resumed_in_that_epoch() -> None:
    one = loader(0)
    one.resume({"epoch": 2, "given": 5})
    one.set_epoch(2)
    assert one.state() == {"epoch": 2, "given": 5}
    assert len(one) == 8 and len(list(one)) == 3
    one.resume({"epoch": 2, "given": 5})
    one.set_epoch(3)
    assert len(list(one)) == 8


@pytest.mark.parametrize("state", [{"epoch": 0, "given": 9}, {"epoch": 0}, {"epoch": -1, "given": 0}, {"given": "x"}])
def test_a_state_that_cannot_be_is_refused(state: Any) -> None:
    one = loader(0)
    with pytest.raises(Refused, match="resume"):
        one.resume(state)
        iter(one)


def test_a_sampler_that_forgets_its_order_is_found_on_resume() -> None:
    class Forgetful(SubsetRandomSampler):
        hidden = random.Random(1)

        def __iter__(self) -> Any:
            return iter(self.hidden.sample(range(30), 30))

    one = shared_out(DataLoader(Noisy(), batch_size=4, sampler=Forgetful(range(30))), 0, 1, seed=5)
    assert next(iter(one)).shape == (4, 4)
    hand = iter(one)
    next(hand)
    state = one.state()  # type: ignore[attr-defined]
    assert state.keys() == {"epoch", "given", "order"}
    one.resume(state)  # type: ignore[attr-defined]
    with pytest.raises(Refused, match="another order for epoch 1"):
        iter(one)


def test_what_the_loader_was_built_with_is_kept() -> None:
    def begin(worker: int) -> None:
        numpy.random.seed(worker)

    plain = DataLoader(Noisy(), 6, num_workers=2, prefetch_factor=3, timeout=20, worker_init_fn=begin, drop_last=True)
    kept = shared_out(plain, 0, 2, 0)
    assert isinstance(kept, DataLoader) and kept.dataset is plain.dataset and kept.collate_fn is plain.collate_fn
    for name in ("num_workers", "prefetch_factor", "timeout", "worker_init_fn", "batch_size", "drop_last", "sampler"):
        assert getattr(kept, name) == getattr(plain, name)
    assert len(kept) == len(plain) == 5
