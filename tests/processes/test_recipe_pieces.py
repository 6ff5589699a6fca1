"""Pieces of recipes on real workers: an overflow of one skips all, norms over all batches, LARS at hubs."""

from __future__ import annotations

import torch
import torch.distributed as dist
from tests.processes.pool import Member, everywhere
from torch import Tensor, nn

from gossamer.engine.norms import fresh_statistics, shared_norms
from gossamer.recipes import LAMB, LARS, Precision


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))


@everywhere(worlds=(4,), strategy=("allreduce", "one_bit(where=Matrices(0))", "local_sgd(every=2)"))
def test_an_overflow_on_one_worker_skips_all_and_the_scale_stays_equal(member: Member, strategy: str) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy=strategy)
    scaler = Precision("fp16").scaler(torch.device("cpu"))
    first, moved = scaler.scale, []
    for step in range(4):
        before = [p.detach().clone() for p in model.parameters()]
        optimizer.zero_grad()
        x = torch.full((4, 6), 0.1 * (member.rank + 1))
        loss = model(x).square().mean()
        scaler.backward(loss * float("inf") if step == 1 and member.rank == 2 else loss)
        scaler.step(optimizer)
        moved.append(any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)))
    alike = strategy.partition("(")[0] != "local_sgd"
    if alike:  # where members step alone, only the one with the overflow knows of it, and its scale is its own
        assert moved == [True, False, True, True]
        assert scaler.scale == first / 2
        member.same(torch.tensor(scaler.scale))
        member.same(nn.utils.parameters_to_vector(model.parameters()))
    else:
        assert all(p.isfinite().all() for p in model.parameters())
        assert scaler.scale == (first / 2 if member.rank == 2 else first)


@everywhere(worlds=(2, 3), fabrics=("torch",))
def test_a_shared_norm_is_that_of_all_batches_as_one(member: Member) -> None:
    """Outputs, statistics and gradients against one process with everybody's samples."""
    torch.manual_seed(1)
    inputs = torch.randn(member.size * 5, 3, 4, 4) * torch.arange(1, member.size + 1).repeat_interleave(5).view(
        -1, 1, 1, 1
    )

    def made() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Tanh())

    whole, shared = made(), shared_norms(made())
    mine = slice(member.rank * 5, member.rank * 5 + 5)
    wanted = whole(inputs)
    found = shared(inputs[mine])
    assert torch.allclose(found, wanted[mine], atol=1e-5)
    wanted.square().mean().backward()
    found.square().mean().backward()
    for (name, p), q in zip(whole.named_parameters(), shared.parameters(), strict=True):
        assert p.grad is not None and q.grad is not None
        dist.all_reduce(q.grad)
        assert torch.allclose(q.grad / member.size, p.grad, atol=1e-5), name
    for a, b in zip(whole.buffers(), shared.buffers(), strict=True):
        assert torch.allclose(a.float(), b.float(), atol=1e-5)


@everywhere(worlds=(2,), fabrics=("torch",))
def test_statistics_before_an_evaluation_are_those_of_all_workers(member: Member) -> None:
    model = nn.BatchNorm1d(3)
    part = torch.randn(64, 3, generator=torch.Generator().manual_seed(member.rank)) + 5.0 * member.rank
    with fresh_statistics(model, [part]):
        member.same(model.running_mean)
        member.same(model.running_var)
        parts = [torch.randn(64, 3, generator=torch.Generator().manual_seed(rank)) + 5.0 * rank for rank in (0, 1)]
        whole = torch.cat(parts)  # two workers that lie apart: alone each has a variance of about 1
        assert torch.allclose(model.running_mean, whole.mean(0), atol=1e-5)
        assert torch.allclose(model.running_var, whole.var(0), rtol=0.02) and model.running_var.min() > 5.0


@everywhere(worlds=(2,), fabrics=("torch",))
def test_a_shared_norm_of_numbers_far_from_zero(member: Member) -> None:
    """Of 1000 give or take a tenth the variance is not lost."""
    drawn = torch.randn(2, 64, 3, generator=torch.Generator().manual_seed(0))
    inputs = 1000 + 0.1 * drawn
    found = shared_norms(nn.BatchNorm1d(3, eps=1e-9))(inputs[member.rank])
    wanted = nn.BatchNorm1d(3, eps=1e-9)(inputs.view(-1, 3)).view(2, 64, 3)[member.rank]
    assert torch.allclose(found, wanted, atol=1e-2) and 0.9 < found.std() < 1.1


def stepped(member: Member, strategy: str, make: str) -> Tensor:
    model = net()
    optimizer = LARS(model.parameters(), lr=0.5) if make == "LARS" else LAMB(model.parameters(), lr=0.01)
    member.prepare(model, optimizer, strategy=strategy)
    for step in range(5):
        optimizer.zero_grad()
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(10 * step + member.rank))
        model(x).square().mean().backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@everywhere(worlds=(2,), make=("LARS", "LAMB"))
def test_optimizers_by_tensor_step_alike_everywhere(member: Member, make: str) -> None:
    """At every member, in shares of it, and at a hub."""
    wanted = stepped(member, "allreduce", make)
    for strategy in ("allreduce(sharded)", "parameter_server"):
        assert (stepped(member, strategy, make) - wanted).abs().max() < 1e-6, strategy
    member.same(wanted)
