"""A NaN or infinity in one member's gradient is applied on no member, said once, and training goes on."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from tests.processes.pool import Member, everywhere
from tests.processes.user import close, data, loss_of, net, share
from torch import nn

from gossamer.engine.loop.prepare import session_of
from gossamer.records import Event, read

SYNC = ("allreduce", "allreduce(route=sharded)", "allreduce(route=ring)", "Exchange(codec=Half())")
CODED = ("powersgd", "dgc(where=Matrices(0))", "qsgd(where=Matrices(0))", "Exchange(codec=ErrorFeedback(TopK(0.5)))")


def spoil(model: nn.Module, name: str, bad: float) -> None:
    """The next backward gives this parameter a gradient with one bad number."""
    tensor = dict(model.named_parameters())[name]

    def hook(grad: torch.Tensor) -> torch.Tensor:
        handle.remove()
        grad = grad.clone()
        grad.view(-1)[-1] = bad
        return grad

    handle = tensor.register_hook(hook)


def train(member: Member, strategy: str, bad: float, folder: Path) -> None:
    alone, model = net(torch.float32), net(torch.float32)
    stepper, optimizer = torch.optim.SGD(alone.parameters(), lr=0.1), torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy=strategy, journal=folder)
    whole = data(4 * member.size, torch.float32)[:]
    exact = strategy in SYNC
    for step in range(6):
        stepper.zero_grad(), optimizer.zero_grad(set_to_none=step % 2 == 0)
        before = [p.detach().clone() for p in model.parameters()]
        sick = step in (2, 3)
        if sick and member.rank == step - 2:
            spoil(model, "2.weight", bad)
        loss_of(model, share(whole, member.rank, member.size)).backward()
        loss_of(alone, whole).backward()
        if sick:
            assert not all(torch.isfinite(p.grad).all() for p in model.parameters())  # a scaler would see it
        optimizer.step()
        moved = any(not torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
        assert moved is not sick, f"step {step}"
        if not sick:
            stepper.step()
        for p in model.parameters():
            assert torch.isfinite(p).all()
            member.same(p)
    if exact:
        close(model, alone, 1e-3 if "Half" in strategy else 1e-5)
    assert session_of(model).courses[0].skipped == 2
    said = [line for line in member.said.getvalue().splitlines() if "NaN or infinity" in line]
    told = "gossamer: step {}: NaN or infinity in a gradient (rank {}, parameter 2.weight); applied on no rank"
    expected = [told.format(step, step - 2) for step in (2, 3)]
    assert said == (expected if member.rank == 0 else []), said
    session_of(model).close()
    events = [r for r in read(folder / f"journal-{member.rank}.jsonl") if isinstance(r, Event)]
    assert [(e.member, e.what.split(";")[1]) for e in events] == (
        [(0, " applied on no rank"), (1, " applied on no rank")] if member.rank == 0 else []
    )


@everywhere(strategy=SYNC)
def test_a_sick_gradient_is_applied_nowhere(member: Member, strategy: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(member, strategy, float("nan"), Path(folder))


@everywhere(worlds=(2,), strategy=("allreduce",))
def test_so_is_an_infinite_one(member: Member, strategy: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(member, strategy, float("inf"), Path(folder))


@everywhere(worlds=(2,), strategy=CODED)
def test_codecs_do_not_remember_it(member: Member, strategy: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(member, strategy, float("nan"), Path(folder))


@everywhere(worlds=(2,), strategy=("local_sgd(every=2)", "parameter_server", "gossip_pull"))
def test_who_is_sick_alone_says_so_and_nobody_waits(member: Member, strategy: str) -> None:
    model = net(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy=strategy)
    part = share(data(4 * member.size, torch.float32)[:], member.rank, member.size)
    for step in range(6):
        optimizer.zero_grad()
        if step == 2 and member.rank == 1:
            spoil(model, "0.bias", float("nan"))
        loss_of(model, part).backward()
        optimizer.step()
        assert all(torch.isfinite(p).all() for p in model.parameters())
    said = [line for line in member.said.getvalue().splitlines() if "NaN or infinity" in line]
    told = "gossamer: step 2: NaN or infinity in a gradient (rank 1, parameter 0.bias); "
    told += "applied on no rank" if strategy == "parameter_server" else "left out, the others go on"
    assert said == ([told] if member.rank == 1 else [])
