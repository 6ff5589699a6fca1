"""Loops of every shape: two optimizers, several losses, scalers, schedulers, copies, checkpointing, compiling."""

from __future__ import annotations

import copy
import io

import torch
from tests.processes.pool import Member, everywhere
from tests.processes.user import close, data, loss_of, net, share
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

from gossamer.engine.loop.prepare import session_of
from gossamer.parts.refusal import Refused

ROUTES = ("allreduce", "allreduce(route=sharded)")


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def halves(member: Member) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A batch, and this member's part of it."""
    whole = data(4 * member.size)[:]
    return whole, share(whole, member.rank, member.size)


def refused(words: str, act: object) -> None:
    """Calling it is refused in these words."""
    try:
        act()  # type: ignore[operator]
    except Refused as refusal:
        assert words in str(refusal), refusal
        return
    raise AssertionError(f"was not refused: {words}")


def duel(maker: nn.Module, judge: nn.Module, first: object, second: object, real: Tensor, step: int) -> None:
    """A step of two rivals: the judge learns twice as often; the maker's backward runs through the judge."""
    for _ in range(2):
        second.zero_grad()  # type: ignore[attr-defined]
        judge(real).sigmoid().mean().neg().backward()
        judge(maker(real).detach()).sigmoid().mean().backward()
        second.step()  # type: ignore[attr-defined]
    first.zero_grad()  # type: ignore[attr-defined]
    judge(maker(real)).sigmoid().mean().neg().backward()
    first.step()  # type: ignore[attr-defined]


@everywhere(strategy=ROUTES, order=(0, 1))
def test_two_models_with_two_optimizers(member: Member, strategy: str, order: int) -> None:
    def pair() -> tuple[nn.Module, nn.Module]:
        torch.manual_seed(5)
        return nn.Linear(5, 5).double(), nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1)).double()

    (maker, judge), (one, two) = pair(), pair()
    first, second, third, fourth = adam(maker), sgd(judge), adam(one), sgd(two)
    member.prepare(*((one, two, third, fourth) if order else (two, fourth, one, third)), strategy=strategy)
    (whole, _), (part, _) = halves(member)
    for step in range(6):
        duel(maker, judge, first, second, whole, step)
        duel(one, two, third, fourth, part, step)
        close(one, maker, 1e-10)
        close(two, judge, 1e-10)
    steps = {id(c.optimizer): c.step for c in session_of(one).courses}
    assert (steps[id(third)], steps[id(fourth)]) == (6, 12)


@everywhere(strategy=ROUTES)
def test_one_optimizer_over_two_models_with_several_rates_and_losses(member: Member, strategy: str) -> None:
    def pair() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer]:
        a, b = net(), net(seed=2)
        held = [{"params": a.parameters(), "lr": 0.1}, {"params": b.parameters(), "lr": 0.02, "weight_decay": 0.1}]
        return a, b, torch.optim.SGD(held, lr=1.0, momentum=0.9)

    (a, b, stepper), (c, d, optimizer) = pair(), pair()
    member.prepare(c, d, optimizer, strategy=strategy)
    whole, part = halves(member)
    for _ in range(6):
        for one, two, o, batch in ((a, b, stepper, whole), (c, d, optimizer, part)):
            o.zero_grad()
            loss_of(one, batch).backward()
            loss_of(two, batch).backward()
            ((one(batch[0]) - two(batch[0])).square().mean() + loss_of(one, batch)).backward()
            o.step()
    close(c, a, 1e-10)
    close(d, b, 1e-10)


@everywhere(clip=(False, True), strategy=(*ROUTES, "parameter_server"))
def test_a_scaler_divides_once_and_skips_everywhere(member: Member, clip: bool, strategy: str) -> None:
    alone, model = net(torch.float32), net(torch.float32)
    stepper, optimizer = adam(alone), adam(model)
    member.prepare(model, optimizer, strategy=strategy)
    scalers = [torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3) for _ in range(2)]
    x, y = data(4 * member.size, torch.float32)[:]
    for step in range(8):
        for m, o, scaler, batch in (
            (alone, stepper, scalers[0], (x, y)),
            (model, optimizer, scalers[1], share((x, y), member.rank, member.size)),
        ):
            o.zero_grad()
            loss = loss_of(m, batch)
            if step == 4 and (m is alone or member.rank == member.size - 1):
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            if clip and strategy != "parameter_server":
                scaler.unscale_(o)
                nn.utils.clip_grad_norm_(m.parameters(), 0.3)
            scaler.step(o)
            scaler.update()
        if clip and strategy == "parameter_server":
            break
        if strategy == "parameter_server" and step == 3:
            break  # whether a member's own scaler sees what a hub passes over is its own affair
        close(model, alone, 1e-5)
        assert scalers[0].get_scale() == scalers[1].get_scale()
    if strategy != "parameter_server":
        assert session_of(model).courses[0].skipped == 1


@everywhere()
def test_an_overflow_on_one_member_does_not_stall_local_sgd(member: Member) -> None:
    model = net(torch.float32)
    optimizer = sgd(model)
    member.prepare(model, optimizer, strategy="local_sgd(every=2)")
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    _, part = halves(member)
    x, y = part[0].float(), part[1].float()
    for step in range(6):
        optimizer.zero_grad()
        loss = loss_of(model, (x, y))
        scaler.scale(loss * float("inf") if step == 2 and member.rank == 1 else loss).backward()
        scaler.step(optimizer)
        scaler.update()
    for p in model.parameters():
        member.same(p)
        assert torch.isfinite(p).all()
    assert scaler.get_scale() == (32.0 if member.rank == 1 else 64.0)


@everywhere(before=(True, False), strategy=(*ROUTES, "parameter_server"))
def test_schedulers_made_before_and_after(member: Member, before: bool, strategy: str) -> None:
    def schedulers(o: torch.optim.Optimizer) -> list[object]:
        return [OneCycleLR(o, max_lr=0.2, total_steps=20), StepLR(o, 3, 0.5), ReduceLROnPlateau(o, patience=0)]

    alone, model = net(), net()
    stepper, optimizer = sgd(alone), sgd(model)
    rates = schedulers(stepper)
    mine = schedulers(optimizer) if before else []
    given = member.prepare(model, optimizer, *mine, strategy=strategy)
    assert list(given) == [model, optimizer, *mine]
    mine = mine or schedulers(optimizer)
    whole, part = halves(member)
    for step in range(8):
        for m, o, held, batch in ((alone, stepper, rates, whole), (model, optimizer, mine, part)):
            o.zero_grad()
            loss_of(m, batch).backward()
            o.step()
            for number, scheduler in enumerate(held):
                scheduler.step(*([1.0 + step] if number == 2 else []))  # type: ignore[attr-defined]
        close(model, alone, 1e-10)
    assert optimizer.param_groups[0]["momentum"] == stepper.param_groups[0]["momentum"] != 0.9
    assert optimizer.param_groups[0]["lr"] == stepper.param_groups[0]["lr"]


@everywhere()
def test_copies_are_inert_and_names_are_plain(member: Member) -> None:
    alone, model = net(), net()
    stepper, optimizer = sgd(alone), sgd(model)
    member.prepare(model, optimizer)
    means = [AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.9)) for m in (alone, model)]
    whole, part = halves(member)

    def step(m: nn.Module, o: torch.optim.Optimizer, batch: object, mean: nn.Module) -> None:
        o.zero_grad()
        loss_of(m, batch).backward()  # type: ignore[arg-type]
        o.step()
        mean.update_parameters(m)  # type: ignore[operator]

    for _ in range(3):
        step(alone, stepper, whole, means[0]), step(model, optimizer, part, means[1])
    other = copy.deepcopy(model)
    before = session_of(model).courses[0].step
    with other.no_sync():
        loss_of(other, part).backward()
    loss_of(other, part).backward()
    if member.rank == 0:
        loss_of(other, part).backward()  # nobody waits for a copy
    assert session_of(model).courses[0].step == before and not session_of(model).courses[0].begun
    assert list(model.state_dict()) == list(alone.state_dict()) and model.module is model
    buffer = io.BytesIO()
    torch.save(model, buffer)
    again = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    close(again, model, 0.0)
    kept, memory = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    old = copy.deepcopy(alone.state_dict()), copy.deepcopy(stepper.state_dict())
    for _ in range(2):
        step(alone, stepper, whole, means[0]), step(model, optimizer, part, means[1])
    model.load_state_dict(kept), optimizer.load_state_dict(memory)
    alone.load_state_dict(old[0]), stepper.load_state_dict(old[1])
    for _ in range(2):
        step(alone, stepper, whole, means[0]), step(model, optimizer, part, means[1])
    close(model, alone, 1e-10)
    close(means[1].module, means[0].module, 1e-10)


@everywhere(worlds=(2,), fabrics=("shared",))
def test_shared_out_memories_are_refused_by_name(member: Member) -> None:
    for strategy, words in (("allreduce(route=sharded)", "remembers its share"), ("parameter_server", "a hub steps")):
        model = net()
        optimizer = sgd(model)
        member.prepare(model, optimizer, strategy=strategy)
        refused(f"optimizer.state_dict(): {words}" if "hub" in words else words, optimizer.state_dict)
        refused("optimizer.load_state_dict()", lambda o=optimizer: o.load_state_dict({}))


class Deep(nn.Module):
    """Two blocks that are computed once more for the backward."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first, self.second, self.reentrant = net(inner=9), nn.Linear(3, 3).double(), reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.first, x, use_reentrant=self.reentrant)
        return checkpoint(self.second, x, use_reentrant=self.reentrant)


@everywhere()
def test_checkpointing_without_reentry(member: Member) -> None:
    alone, model, tail, tail_too = Deep(False), Deep(False), net(seed=6), net(seed=6)
    with torch.no_grad():
        for a, b in zip(alone.parameters(), model.parameters(), strict=True):
            b.copy_(a)
    stepper = torch.optim.SGD([*alone.parameters(), *tail.parameters()], lr=0.1)
    first, second = sgd(model), torch.optim.SGD(tail_too.parameters(), lr=0.1)
    first = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, tail_too, first, second)
    whole, part = halves(member)
    for _ in range(4):
        stepper.zero_grad(), first.zero_grad(), second.zero_grad()
        (checkpoint(alone, whole[0], use_reentrant=False) * tail(whole[0])).square().mean().backward()
        out = checkpoint(tail_too, part[0], use_reentrant=False)  # whole prepared models, computed once more
        (checkpoint(model, part[0], use_reentrant=False) * out).square().mean().backward()
        stepper.step(), first.step(), second.step()
    close(model, alone, 1e-10)
    close(tail_too, tail, 1e-10)


@everywhere(worlds=(2,))
def test_reentrant_checkpointing_is_refused_by_name(member: Member) -> None:
    for outer in (False, True):
        model = Deep(True)
        optimizer = sgd(model)
        member.prepare(model, optimizer)
        x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
        loss = model(x).square().mean() + (sum(p.sum() for p in model.second.parameters()) if outer else 0.0)
        refused("use_reentrant=False", loss.backward)
        member.sessions.pop()  # it is in the midst of a step for ever


@everywhere(worlds=(2,), before=(True, False))
def test_compiled_models(member: Member, before: bool) -> None:
    alone, model = net(), net()
    stepper, optimizer = sgd(alone), sgd(model)
    used = torch.compile(model, backend="aot_eager") if before else model
    member.prepare(used, optimizer)
    used = used if before else torch.compile(model, backend="aot_eager")
    whole, part = halves(member)
    for _ in range(4):
        stepper.zero_grad(), optimizer.zero_grad()
        loss_of(alone, whole).backward()
        loss_of(used, part).backward()  # type: ignore[arg-type]
        stepper.step(), optimizer.step()
    close(model, alone, 1e-10)
    assert session_of(used if before else model).courses[0].step == 4


@everywhere()
def test_gradient_penalties_and_looking_at_the_model_between_steps(member: Member) -> None:
    alone, model = net(), net()
    stepper, optimizer = adam(alone), adam(model)
    member.prepare(model, optimizer)
    whole, part = halves(member)
    for _ in range(4):
        for m, o, (x, y) in ((alone, stepper, whole), (model, optimizer, part)):
            o.zero_grad()
            x = x.clone().requires_grad_()
            out = m(x)
            (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
            ((out - y).square().mean() + slope.square().mean()).backward()
            m.eval()
            with torch.no_grad():
                m(x[: 1 + member.rank])
            with torch.inference_mode():
                m(x[:1])
            m.train()
            o.step()
    close(model, alone, 1e-10)


@everywhere(worlds=(2,), fabrics=("torch",))
def test_a_second_backward_with_a_delay_is_refused(member: Member) -> None:
    model = net()
    optimizer = sgd(model)
    member.prepare(model, optimizer, strategy="Exchange(synchrony=Synchrony(delay=1))")
    _, part = halves(member)
    loss_of(model, part).backward()
    refused("a second backward in one step", loss_of(model, part).backward)
    member.sessions.pop()
