"""What a user finds in `p.grad`, and may do with it, between backward and step."""

from __future__ import annotations

import torch
from tests.processes.pool import Member, everywhere
from tests.processes.user import close, cycle, data, loader, loss_of, net, share
from torch import Tensor, nn

import gossamer
from gossamer.parts.refusal import Refused

ROUTES = ("allreduce", "allreduce(route=sharded)")


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def rows(count: int) -> tuple[Tensor, Tensor]:
    return data(count)[:]


@everywhere(strategy=ROUTES)
def test_gradients_are_mixed_and_private_and_clipping_counts_once(member: Member, strategy: str) -> None:
    alone = net()
    stepper = sgd(alone)
    model, optimizer, batches = net(), None, loader(43, 8)
    optimizer = sgd(model)
    member.prepare(model, optimizer, strategy=strategy)
    for step, (x, y) in enumerate(cycle(batches, 12)):
        stepper.zero_grad(), optimizer.zero_grad()
        loss_of(alone, (x, y)).backward()
        mine = share((x, y), member.rank, member.size)
        gossamer_weight = len(mine[0])
        loss = loss_of(model, mine)
        gossamer.weight(gossamer_weight)
        loss.backward()
        for p, q in zip(model.parameters(), alone.parameters(), strict=True):
            assert torch.allclose(p.grad, q.grad, rtol=1e-12, atol=1e-14)
            member.same(p.grad)
        if member.rank == 0 and step % 3 == 0:
            kept = [p.grad.clone() for p in model.parameters()]
            for p in model.parameters():
                p.grad.fill_(1e9)  # seen by nobody else
        member.same(torch.zeros(1))
        if member.rank == 0 and step % 3 == 0:
            for p, g in zip(model.parameters(), kept, strict=True):
                p.grad.copy_(g)
        one = nn.utils.clip_grad_norm_(alone.parameters(), 0.2)
        two = nn.utils.clip_grad_norm_(model.parameters(), 0.2)
        assert abs(one.item() - two.item()) <= 1e-12
        stepper.step(), optimizer.step()
        close(model, alone, 1e-12)


WAYS = ("set to none", "zeroed", "model.zero_grad", "p.grad = None", "replaced", "replaced in another order")


@everywhere(worlds=(2,), way=WAYS, strategy=ROUTES)
def test_every_way_to_clear_or_replace_gradients(member: Member, way: str, strategy: str) -> None:
    alone, model = net(), net()
    stepper, optimizer = sgd(alone), sgd(model)
    member.prepare(model, optimizer, strategy=strategy)
    for whole in cycle(loader(24, 6), 8):
        for m, o in ((alone, stepper), (model, optimizer)):
            if way == "set to none":
                o.zero_grad(set_to_none=True)
            elif way == "zeroed":
                o.zero_grad(set_to_none=False)
            elif way == "model.zero_grad":
                m.zero_grad(set_to_none=False)
            else:
                for p in m.parameters():
                    p.grad = None
        for m, part in ((alone, whole), (model, share(whole, member.rank, member.size))):
            loss_of(m, part).backward()
            if way == "replaced":
                for p in m.parameters():
                    p.grad = p.grad * 0.5
            if way == "replaced in another order":
                for p in m.parameters():
                    p.grad = (p.grad * 0.5).t().contiguous().t() if p.dim() == 2 else p.grad * 0.5
        stepper.step(), optimizer.step()
        close(model, alone, 1e-11)


@everywhere(sync=("last", "every", "never"), strategy=ROUTES)
def test_accumulated_gradients_are_the_pooled_ones(member: Member, sync: str, strategy: str) -> None:
    """Three backwards a step, of batches whose shares are uneven, the last one with nobody's sample here and there."""
    alone, model = net(), net()
    stepper, optimizer = sgd(alone), sgd(model)
    batches = loader(13, 4)
    _, _, mine = member.prepare(model, optimizer, loader(13, 4), strategy=strategy)
    for number, (whole, part) in enumerate(zip(cycle(batches, 18), cycle(mine, 18), strict=True)):
        loss_of(alone, whole).backward()
        if sync == "every" or (sync == "last" and number % 3 == 2):
            loss_of(model, part).backward()
        elif number % 2:
            with model.no_sync():
                loss_of(model, part).backward()
        else:
            loss = loss_of(model, part)
            with model.no_sync():
                loss.backward()
        if number % 3 == 2:
            stepper.step(), optimizer.step()
            stepper.zero_grad(set_to_none=number % 2 == 0), optimizer.zero_grad(set_to_none=number % 2 == 0)
            close(model, alone, 1e-10)


@everywhere(worlds=(2, 3, 4), gather=(False, True))
def test_weights_of_tokens(member: Member, gather: bool) -> None:
    alone, model = net(), net()
    stepper, optimizer = sgd(alone), sgd(model)
    member.prepare(model, optimizer)
    x, y = rows(36)
    for step in range(8):
        cut = [*[0, 1 + step % 2, 5, 8][: member.size], 9]
        if step == 5:
            cut[1] = 0  # member 0 has nothing that counts
        for turn in range(2 if gather else 1):
            at = 9 * ((step + turn) % 4)
            loss_of(alone, (x[at : at + 9], y[at : at + 9])).backward()
            left, right = cut[member.rank], cut[member.rank + 1]
            part = (x[at + left : at + right], y[at + left : at + right]) if right > left else (x[:1], y[:1])
            loss = loss_of(model, part)
            if gather and turn == 0:
                with model.no_sync():
                    gossamer.weight(right - left)
                    loss.backward()
            else:
                gossamer.weight(right - left)
                loss.backward()
        stepper.step(), optimizer.step(), stepper.zero_grad(), optimizer.zero_grad()
        close(model, alone, 1e-11)


@everywhere(worlds=(2,), fabrics=("shared",))
def test_weights_that_are_none_are_refused(member: Member) -> None:
    model = net()
    member.prepare(model, sgd(model))
    for wrong in (-1, float("nan"), "many"):
        try:
            gossamer.weight(wrong)  # type: ignore[arg-type]
        except Refused as refusal:
            assert "weight: n must" in str(refusal)
        else:
            raise AssertionError(f"{wrong} was taken")


class Ways(nn.Module):
    """A trunk, a branch that only some use, one that nobody uses, a tied pair and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.trunk, self.branch, self.never = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 5)
        self.tied, self.frozen = nn.Linear(5, 3), nn.Linear(5, 5).requires_grad_(False)
        self.tied_too = nn.Linear(5, 3)
        self.tied_too.weight = self.tied.weight
        self.register_buffer("seen", torch.zeros(()))
        self.double()

    def forward(self, x: Tensor, branch: bool) -> Tensor:
        self.seen += len(x)
        x = torch.tanh(self.frozen(self.trunk(x)))
        x = torch.tanh(self.branch(x)) if branch else x
        return self.tied(x) + self.tied_too(x.flip(0))


@everywhere(strategy=ROUTES)
def test_unused_shared_and_frozen_parameters(member: Member, strategy: str) -> None:
    """Members that do not use the branch count it as zero; the oracle is the mean of losses computed in one process."""
    alone, model = Ways(), Ways()
    stepper = torch.optim.AdamW(alone.parameters(), lr=0.01)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    member.prepare(model, optimizer, strategy=strategy)
    x, y = rows(6)

    def uses(rank: int, step: int) -> bool:
        return step >= 3 and (rank + step) % member.size == 0

    for step in range(12):
        stepper.zero_grad(), optimizer.zero_grad(set_to_none=step % 2 == 0)
        total = sum((alone(x[r:][:3], uses(r, step)) - y[r:][:3]).square().mean() for r in range(member.size))
        (total / member.size).backward()
        r = member.rank
        (model(x[r:][:3], uses(r, step)) - y[r:][:3]).square().mean().backward()
        assert model.never.weight.grad is None and model.frozen.weight.grad is None
        assert (model.branch.weight.grad is None) == (alone.branch.weight.grad is None) == (step < 3)
        stepper.step(), optimizer.step()
        close(model, alone, 1e-10)
    assert model.tied.weight is model.tied_too.weight
    assert model.seen.item() == 36.0  # buffers stay local
    model.frozen.requires_grad_(True)
    (model(x, True) - y).square().mean().backward()
    try:
        optimizer.step()
    except Refused as refusal:
        assert "parameter frozen.weight was frozen when it was prepared" in str(refusal)
    else:
        raise AssertionError("a parameter nobody has laid out was stepped")


class Kinds(nn.Module):
    """Three dtypes and a convolution whose weight lies in another order."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.conv = nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last)
        self.fine, self.short = nn.Linear(4, 4).double(), nn.Linear(4, 3).bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.conv(x.to(memory_format=torch.channels_last))).mean((2, 3))
        return self.short(torch.tanh(self.fine(x.double())).bfloat16()).float()


@everywhere(strategy=ROUTES)
def test_several_dtypes_and_orders_in_memory(member: Member, strategy: str) -> None:
    alone, model = Kinds(), Kinds()
    stepper, optimizer = sgd(alone), sgd(model)
    member.prepare(model, optimizer, strategy=strategy)
    draw = torch.Generator().manual_seed(1)
    for _ in range(6):
        x = torch.randn(member.size * 2, 3, 4, 4, generator=draw)
        stepper.zero_grad(), optimizer.zero_grad()
        alone(x).square().mean().backward()
        model(x[2 * member.rank :][:2]).square().mean().backward()
        assert model.conv.weight.grad.stride() == model.conv.weight.stride() == alone.conv.weight.stride()
        stepper.step(), optimizer.step()
        close(model.conv, alone.conv, 5e-3)
        close(model.fine, alone.fine, 5e-3)
        close(model.short, alone.short, 3e-2)
        for tensor in model.parameters():
            member.same(tensor)


@everywhere()
def test_a_parameter_that_no_model_holds_and_a_model_no_optimizer_steps(member: Member) -> None:
    torch.manual_seed(member.rank)  # everybody starts as member 0 did
    model, scale = net(seed=member.rank), torch.ones(3, dtype=torch.float64, requires_grad=True)
    other = net(seed=member.rank + 9).requires_grad_(False)
    optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)
    member.prepare(model, other, optimizer)
    x, y = rows(6 * member.size)
    for _ in range(3):
        optimizer.zero_grad()
        part = share((x, y), member.rank, member.size)
        (model(part[0]) * scale + other(part[0]) - part[1]).square().mean().backward()
        optimizer.step()
    for tensor in (*model.parameters(), *other.parameters(), scale):
        member.same(tensor)
    assert not torch.equal(scale, torch.ones_like(scale))
