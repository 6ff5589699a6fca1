"""Members that are not in step with each other, and loops that do odd things: nothing silently wrong comes of it."""

from __future__ import annotations

import itertools
import time

import pytest
import torch
import torch.distributed as dist
from tests.processes.pool import Member, everywhere
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gossamer import Refused, weight

SHARDED = "allreduce(route=sharded)"


def flat(model: nn.Module) -> Tensor:
    """All parameters."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def layers(*widths: int) -> nn.Sequential:
    """The same small model on every member."""
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(a, b) for a, b in itertools.pairwise(widths)])


@everywhere(strategy=("allreduce", SHARDED))
def test_nobody_steps_what_a_slow_member_still_looks_at(member: Member, strategy: str) -> None:
    model = layers(400, 400, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    member.prepare(model, optimizer, strategy=strategy)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 400)).square().mean().backward()
        before = flat(model)
        if member.rank == member.size - 1:
            time.sleep(0.1)
        assert torch.equal(before, flat(model)), "somebody stepped before this member did"
        optimizer.step()
        assert not torch.equal(before, flat(model))


@everywhere(strategy=("allreduce", SHARDED))
def test_a_second_loss_computed_before_the_first_step(member: Member, strategy: str) -> None:
    """The oracle is one process that does the same on all members' samples."""
    pairs = [(layers(30, 30, 4), layers(30, 30, 4)) for _ in range(2)]
    rates = [[torch.optim.SGD(m.parameters(), lr=0.3) for m in pair] for pair in pairs]
    member.prepare(*pairs[0], *rates[0], strategy=strategy)
    inputs = torch.randn(3, member.size, 5, 30, generator=torch.Generator().manual_seed(1))
    for step in inputs:
        if member.rank == 1:
            time.sleep(0.05)
        for (one, two), (first, second), x in zip(pairs, rates, (step[member.rank], step.flatten(0, 1)), strict=True):
            first.zero_grad(), second.zero_grad()
            one(x).square().mean().backward()
            (one(x).detach() * two(x)).mean().backward()
            first.step(), second.step()
    for ours, alone in zip(*pairs, strict=True):
        assert (flat(ours) - flat(alone)).abs().max() < 1e-5
        member.same(flat(ours))


class Skew(nn.Module):
    """A model whose last bias only member 0 uses."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, whole: bool) -> Tensor:
        return nn.functional.linear(self.a(x), self.b.weight, self.b.bias if whole else None)


@everywhere(strategy=("Exchange(where=Dims(most=1)) + Exchange(where=Dims(least=2))", "allreduce"))
def test_exchanges_that_fill_in_different_orders_are_not_mixed_up(member: Member, strategy: str) -> None:
    model = Skew()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy=strategy)
    torch.manual_seed(member.rank)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 8), member.rank == 0).square().mean().backward()
        optimizer.step()
        member.same(flat(model))


@everywhere(strategy=('Staged(first=Exchange(where=Named("2.*")), step=1, then=Exchange())', "allreduce"))
def test_a_nan_is_seen_wherever_it_is_copied_to(member: Member, strategy: str) -> None:
    model = layers(8, 8, 8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy=strategy)
    torch.manual_seed(member.rank)
    for step in range(4):
        x = torch.randn(4, 8)
        if step == 2 and member.rank == 1:
            x[0, 0] = float("nan")
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    assert torch.isfinite(flat(model)).all()
    if member.rank == 0:
        assert "rank 1, parameter 0.weight" in member.said.getvalue()


@everywhere(worlds=(2,))
def test_an_evaluation_leaves_no_weight_behind(member: Member) -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    held = DataLoader(TensorDataset(torch.randn(5, 8)), batch_size=4)
    _, _, held = member.prepare(model, optimizer, held)
    for _ in range(2):  # data of the user's own: everybody counts alike
        optimizer.zero_grad()
        model(torch.full((1, 8), float(member.rank + 1))).sum().backward()
        assert model.weight.grad[0, 0].item() == 1.5
        optimizer.step()
        with torch.no_grad():
            for (x,) in held:
                model(x)


@everywhere(worlds=(2,), told=(False, True))
def test_a_loop_that_takes_batches_ahead_never_weighs_the_wrong_one(member: Member, told: bool) -> None:
    model = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = DataLoader(TensorDataset(torch.arange(1.0, 10.0).view(9, 1)), batch_size=4)
    _, _, loader = member.prepare(model, optimizer, loader)
    found, batches = [], iter(loader)
    following = next(batches)
    while following is not None:
        (x,), following = following, next(batches, None)
        optimizer.zero_grad()
        loss = model(x).mean()
        if told:
            weight(len(x) if len(found) < 2 or member.rank == 0 else 0)
        if not told and len(found) == 2:
            with pytest.raises(Refused, match="ahead"):
                loss.backward()
            return
        loss.backward()
        found.append(model.weight.grad.item())
        optimizer.step()
    assert found == [2.5, 6.5, 9.0]


@everywhere(worlds=(2,), strategy=("allreduce", SHARDED, "local_sgd(every=1)"))
def test_parameters_given_other_memory_are_refused_by_name(member: Member, strategy: str) -> None:
    model = layers(4, 4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy=strategy)
    kept = model[1].weight.data
    model[1].weight.data = kept.clone()
    with pytest.raises(Refused, match=r"1\.weight was given other memory"):
        model(torch.ones(2, 4))
    model[1].weight.data = kept  # put back, as after an evaluation of other weights
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    member.same(flat(model))


@everywhere(worlds=(2,), fabrics=("shared",))
def test_an_edit_in_place_of_what_all_share_is_told(member: Member) -> None:
    model = layers(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy=SHARDED)
    for step in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if step == 1:
            dist.barrier()
            with torch.no_grad():
                model[0].weight.mul_(0.5)
            dist.barrier()
    assert member.said.getvalue().count("changed in place") == 1


@everywhere(worlds=(2,), strategy=("allreduce", SHARDED))
def test_hooks_of_the_users_own_on_an_optimizer_are_called(member: Member, strategy: str) -> None:
    model, called = layers(4, 4), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: called.append("before"))
    optimizer.register_step_post_hook(lambda *_: called.append("after"))
    member.prepare(model, optimizer, strategy=strategy)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert called == ["before", "after"] * 3


@everywhere(worlds=(2,), fabrics=("shared",))
def test_an_average_takes_little_shared_memory(member: Member) -> None:
    import gossamer

    model = layers(1500, 1500)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy="local_sgd(every=100)")
    torch.manual_seed(member.rank)
    model(torch.randn(2, 1500)).sum().backward()
    optimizer.step()
    fabric = member.sessions[-1].fabric
    with gossamer.averaged(model):
        member.same(flat(model))
    mapped = sum(slot.nbytes for lane in fabric._opened for slot in lane.slots)
    assert mapped < 3.0 * member.size * flat(model).nbytes, "one model each for gradients, and pieces"
