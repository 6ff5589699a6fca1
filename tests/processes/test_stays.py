"""Gradients of large tensors stay where autograd made them, on the member that sums them; all else is as ever."""

from __future__ import annotations

import warnings
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from tests.processes.pool import Member, everywhere
from tests.processes.test_prepare_sick import spoil
from torch import Tensor, nn

import gossamer
from gossamer.engine.loop.prepare import session_of
from gossamer.engine.loop.stays import Stays
from gossamer.engine.shared import places
from gossamer.strategy import buckets

WIDE = 160  # a square of floats of this width is more than one member sums for all
SHARED = ("shared",)


def wide(seed: int = 0) -> nn.Sequential:
    """Six tensors of which three are large; the last one is used by some batches only."""
    torch.manual_seed(seed)
    return nn.Sequential(*[nn.Linear(WIDE, WIDE) for _ in range(3)])


def batch(rank: int, step: int) -> Tensor:
    return torch.randn(8, WIDE, generator=torch.Generator().manual_seed(100 * rank + step))


def stays_of(model: nn.Module) -> Stays:
    found = session_of(model).courses[0].strands[0].stays
    assert found is not None
    return found


def mean(member: Member, mine: Tensor) -> Tensor:
    """Everybody's numbers added up in the order of members."""
    every = [torch.empty_like(mine) for _ in range(member.size)]
    dist.all_gather(every, mine.contiguous())
    total = every[0].clone()
    for other in every[1:]:
        total += other
    return total * (1.0 / member.size)


@everywhere(worlds=(2, 3), fabrics=SHARED)
def test_means_are_those_of_copies_to_the_bit(member: Member) -> None:
    alone, model = wide(), wide()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    member.prepare(model, optimizer)
    owners = set[int]()
    for step in range(4):
        optimizer.zero_grad(set_to_none=step != 2)
        alone.load_state_dict(model.state_dict())
        alone.zero_grad()
        for each in (alone, model):
            each(batch(member.rank, step)).square().mean().backward()
        stayed = stays_of(model).places
        for place, (p, q) in enumerate(zip(model.parameters(), alone.parameters(), strict=True)):
            assert torch.equal(p.grad, mean(member, q.grad))
            member.same(p.grad)
            slot = stays_of(model).slopes
            inside = 0 <= p.grad.data_ptr() - slot.data_ptr() < slot.nbytes
            assert inside is (place not in stayed)
        owners |= stayed
        optimizer.step()
    counts = torch.zeros(6)
    counts[list(owners)] = 1
    dist.all_reduce(counts)
    assert counts.max() == 1 and counts.sum() >= 3  # every large tensor has one owner


@everywhere(worlds=(2, 3), fabrics=SHARED, bad=[float("nan")])
def test_who_is_sick_is_named_whoever_sums_it(member: Member, bad: float) -> None:
    model = wide()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    member.prepare(model, optimizer)
    names, told = [name for name, _ in model.named_parameters()], list[str]()
    for step, (rank, name) in enumerate((r, n) for r in range(member.size) for n in names):
        if member.rank == rank:
            spoil(model, name, bad)
        before = [p.detach().clone() for p in model.parameters()]
        model(batch(member.rank, step)).square().mean().backward()
        assert not all(torch.isfinite(p.grad).all() for p in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
        told.append(f"step {step}: NaN or infinity in a gradient (rank {rank}, parameter {name}); applied on no rank")
    said = [line.removeprefix("gossamer: ") for line in member.said.getvalue().splitlines() if "NaN" in line]
    assert said == (told if member.rank == 0 else [])
    model(batch(member.rank, 0)).square().mean().backward()  # and it goes on
    optimizer.step()
    assert session_of(model).courses[0].skipped == len(told)


@everywhere(worlds=(2,), fabrics=SHARED)
def test_gathered_weighed_unused_and_clipped_gradients(member: Member) -> None:
    alone, model = wide(), wide()
    steppers = [torch.optim.SGD(each.parameters(), lr=0.01) for each in (alone, model)]
    member.prepare(model, steppers[1])

    def loss(each: nn.Module, rank: int, step: int) -> Tensor:
        used = each if step != 1 else each[:2]  # nobody uses the last two tensors
        return used(batch(rank, step)).square().mean()

    for step in range(5):
        for each in steppers:
            each.zero_grad()
        counts = [3.0, 1.0] if step == 2 else [1.0, 1.0]
        for rank in range(2):
            (loss(alone, rank, step) * counts[rank] / sum(counts)).backward()
            if step == 3:
                (loss(alone, rank, 30) / 2).backward()
        if step == 3:
            with model.no_sync():
                loss(model, member.rank, 30).backward()
        mine = loss(model, member.rank, step)
        if step == 2:
            gossamer.weight(counts[member.rank])
        mine.backward()
        for each in (alone, model):
            nn.utils.clip_grad_norm_(each.parameters(), 0.01)
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            assert p.grad is None or torch.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-8)
        for each in steppers:
            each.step()
    for p in model.parameters():
        member.same(p)


class Aliased(nn.Module):
    """Backward gives two parameters the same memory, and a third what is still to be computed with."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.nothing = nn.Parameter(torch.empty(0))
        self.first = nn.Linear(WIDE, WIDE)
        self.one, self.two, self.three = (nn.Parameter(torch.randn(WIDE, WIDE)) for _ in range(3))
        self.last = nn.Linear(WIDE, WIDE)

    def forward(self, rows: Tensor) -> Tensor:
        inner = self.first(rows)[None]
        inner = torch.tanh(self.last(inner)) + inner + self.three.unsqueeze(0)
        return inner * (self.one[None] + self.two[None])


@everywhere(worlds=(2,), fabrics=SHARED, bucket=[1 << 14, 1 << 20])
def test_memory_that_others_hold_is_left_alone(member: Member, bucket: int) -> None:
    buckets.FIRST, buckets.LATER, before = bucket, bucket, (buckets.FIRST, buckets.LATER)
    alone, model = Aliased(), Aliased()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    member.prepare(model, optimizer)
    buckets.FIRST, buckets.LATER = before
    shared = False
    for step in range(3):
        alone.load_state_dict(model.state_dict())
        alone.zero_grad()
        rows = torch.randn(WIDE, WIDE, generator=torch.Generator().manual_seed(10 * member.rank + step))
        for each in (alone, model):
            each(rows).square().mean().backward()
        pairs = [(p, q) for p, q in zip(model.parameters(), alone.parameters(), strict=True) if p.numel()]
        shared = shared or len({q.grad.data_ptr() for _, q in pairs}) < len(pairs)
        for p, q in pairs:
            assert torch.equal(p.grad, mean(member, q.grad))
        optimizer.step()
        optimizer.zero_grad()
    assert shared and stays_of(model).places  # else this tries nothing


@everywhere(worlds=(2,), fabrics=SHARED)
def test_gradients_with_a_graph_of_their_own_are_copied(member: Member) -> None:
    model = wide()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    member.prepare(model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, that this makes a cycle
        model(batch(member.rank, 0)).square().mean().backward(create_graph=True)
    assert not stays_of(model).places
    assert not any(p.grad.requires_grad for p in model.parameters())
    optimizer.step()


@everywhere(worlds=(2,), fabrics=SHARED)
def test_a_backward_that_breaks_leaves_nothing_that_others_could_read_after_it_was_freed(member: Member) -> None:
    model = wide()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    buckets.FIRST, buckets.LATER, before = 1 << 14, 1 << 14, (buckets.FIRST, buckets.LATER)
    member.prepare(model, optimizer)
    buckets.FIRST, buckets.LATER = before

    def stumble(_: Tensor) -> None:
        raise RuntimeError("stumbled")

    handle = next(model.parameters()).register_hook(stumble)
    with pytest.raises(RuntimeError, match="stumbled"):
        model(batch(member.rank, 0)).square().mean().backward()
    handle.remove()
    optimizer.zero_grad()
    torch.full((1 << 20,), float("nan"))  # whoever freed memory has it written over
    session_of(model).close()
    member.sessions.clear()


def test_whole_tensors_are_shared_out_fairly_or_not_at_all() -> None:
    buckets, ends = [(0, 100), (100, 300), (300, 330)], [40, 100, 300, 310, 330]
    tensors = list(pairwise([0, *ends]))
    shares = places.whole(buckets, tensors, 2)
    assert shares is not None
    assert places.checked(shares, buckets, 2, 4)
    edges = {0, *ends}
    assert all(edge in edges for spans in shares for span in spans for edge in span if span[0] != span[1])
    assert places.whole(buckets, tensors, 4) is None  # one tensor is more than half of all
    even = [(0, 40), (40, 80), (80, 120), (120, 160)]
    found = places.whole(even, even, 4)
    assert found is not None and sorted(sum(b - a for a, b in m) for m in zip(*found, strict=True)) == [40] * 4


def test_shares_that_leave_something_out_are_refused() -> None:
    with pytest.raises(ValueError, match="nobody owns"):
        places.checked([[(0, 40), (40, 90)]], [(0, 100)], 2, 4)
