"""What cannot be prepared or played is refused by name, and what differs between ranks on every rank."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
import torch.distributed as dist
from msgspec.structs import replace
from tests.processes.pool import Member, everywhere
from tests.processes.user import data, loss_of, net
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import gossamer
from gossamer.engine.loop.agreement import agree, facts
from gossamer.engine.loop.place import join
from gossamer.parts.refusal import Refused


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def refused(words: str, act: Callable[[], Any]) -> None:
    """Calling it is refused in these words."""
    try:
        act()
    except Refused as refusal:
        assert words in str(refusal), refusal
        return
    raise AssertionError(f"was not refused: {words}")


@everywhere(worlds=(2,), fabrics=("shared",))
def test_things_that_cannot_be_prepared(member: Member) -> None:
    prepare = gossamer.prepare
    model = net()
    refused("cannot prepare a int", lambda: prepare(model, sgd(model), 3))
    refused("at least one model and its optimizer", lambda: prepare(model))
    refused("LBFGS needs a closure", lambda: prepare(model, torch.optim.LBFGS(model.parameters())))
    refused("there is no fabric 'pigeons'", lambda: prepare(model, sgd(model), fabric="pigeons"))
    refused("allredcue", lambda: prepare(model, sgd(model), strategy="allredcue"))
    refused("stepped by two optimizers", lambda: prepare(model, sgd(model), sgd(model)))
    refused("no parameter that trains", lambda: _frozen(prepare))
    mesh = init_device_mesh("cpu", (member.size,))
    odd = net(torch.float32)
    odd[0].weight = nn.Parameter(distribute_tensor(odd[0].weight.data, mesh, [Replicate()]))
    refused("parameter 0.weight is a DTensor", lambda: prepare(odd, sgd(odd)))
    optimizer = sgd(model)
    member.prepare(model, optimizer)
    refused("is prepared already", lambda: prepare(model, torch.optim.Adam(model[2].parameters())))
    refused("is prepared already", lambda: prepare(net(), optimizer))
    refused("add_param_group", lambda: optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]}))
    refused("step(closure)", lambda: optimizer.step(lambda: 0.0))


@everywhere(worlds=(2,), fabrics=("shared",))
def test_what_would_drift_apart_is_refused_by_name(member: Member) -> None:
    """Two optimizers of which one is forgotten; an optimizer of another model; a model that was wrapped."""
    prepare, model, other = gossamer.prepare, net(), net()
    first, second = sgd(model[0]), torch.optim.Adam(model[2].parameters())
    left = "prepare: parameters 2.weight, 2.bias (2 in all) train, but no optimizer given to prepare steps them"
    refused(f"{left}; nearest that works: give prepare every optimizer", lambda: prepare(model, first))
    many = nn.Sequential(*(nn.Linear(2, 2) for _ in range(3)), nn.Linear(2, 2))
    refused("0.weight, 0.bias, 1.weight, 1.bias, ... (6 in all) train", lambda: prepare(many, sgd(many[3])))
    refused("parameters 1.0.weight, 1.0.bias, 1.2.weight", lambda: prepare(model, other, first, second))
    refused("the optimizer holds no parameter of the model;", lambda: prepare(model, sgd(other)))
    refused("optimizer 1 (SGD) holds no parameter of the model;", lambda: prepare(model, sgd(model), sgd(other)))
    refused("there is no keyword 'stratgy'; nearest that works: strategy=", lambda: prepare(model, stratgy="x"))
    refused("there is no keyword 'qq'; nearest that works: strategy, world", lambda: prepare(model, qq=1))
    wrapped = DistributedDataParallel(net())
    words = "take DistributedDataParallel off: prepare replaces it; nearest that works: prepare(model.module, ...)"
    refused(words, lambda: prepare(wrapped, sgd(wrapped)))
    refused(words, lambda: prepare(nn.Sequential(wrapped), sgd(wrapped)))
    lone, free = nn.Parameter(torch.ones((), dtype=torch.float64)), torch.ones((), dtype=torch.float64).requires_grad_()
    rates, last = torch.optim.SGD([lone], lr=0.1), torch.optim.SGD([free], lr=0.1)
    refused("optimizer 2 (SGD) holds no parameter", lambda: prepare(model, first, second, rates))
    member.prepare(model, first, second, nn.ParameterList([lone]), rates, last)
    member.prepare(wrapped.module, other, sgd(wrapped.module), sgd(other))
    (loss_of(model, data(4)[member.rank :: 2]) * lone * free).backward()
    for optimizer in (first, second, rates, last):
        optimizer.step()
    for tensor in (*model.parameters(), lone, free):
        member.same(tensor)
    assert lone.item() != 1.0 != free.item()
    loss_of(wrapped.module, data(4)[member.rank :: 2]).backward()
    member.same(wrapped.module[0].weight.grad)


@everywhere(worlds=(2,), fabrics=("shared",))
def test_a_loader_that_is_missing_is_told_once(member: Member) -> None:
    """A frozen half needs no optimizer."""
    model, words = net(), "no loader was prepared: every worker reads what yours gives it\n"
    model[0].requires_grad_(False)
    member.prepare(model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1))
    assert member.said.getvalue().count(words) == (member.rank == 0)
    other = net()
    member.prepare(other, sgd(other), DataLoader(data(4), batch_size=2))
    assert member.said.getvalue().count(words) == (member.rank == 0)


def _frozen(prepare: Callable[..., Any]) -> None:
    model = net().requires_grad_(False)
    prepare(model, sgd(model))


@everywhere(worlds=(2,))
def test_sparse_gradients_are_refused_by_name(member: Member) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    optimizer = sgd(model)
    member.prepare(model, optimizer)
    loss = model(torch.arange(4)).square().mean()
    refused("the gradient of 0.weight is sparse", loss.backward)
    member.sessions.pop()  # it is in the midst of a step for ever


def differing(member: Member, words: str, make: Callable[[bool], tuple[Any, ...]], **how: Any) -> None:
    """The last rank brings something else; every rank says so."""
    odd = member.rank == member.size - 1
    settings = {name: values[odd] for name, values in how.items()}
    where = " on host 1 (127.0.0.1)" if member.fabric == "hosts" else ""
    refused(
        f"rank {member.size - 1}{where} differs from rank 0: {words}",
        lambda: gossamer.prepare(*make(odd), **{"fabric": member.fabric, **settings}),
    )


def _model(odd: bool, change: Callable[[nn.Module], object]) -> tuple[Any, ...]:
    model = net(torch.float32)
    if odd:
        change(model)
    return model, sgd(model)


@everywhere()
def test_what_differs_between_ranks_is_named_on_every_rank(member: Member) -> None:
    plain = lambda odd: _model(odd, lambda m: None)  # noqa: E731
    differing(member, "strategy is", plain, strategy=("allreduce", "local_sgd"))
    differing(member, "seed is 4, not 3", plain, seed=(3, 4))
    differing(member, "things is", lambda odd: (*plain(False), *([net().requires_grad_(False)] if odd else [])))
    wider = lambda odd: _model(odd, lambda m: m.__setitem__(0, nn.Linear(5, 8)))  # noqa: E731
    differing(member, "parameter 0.weight is 8 x 5 float32, not 7 x 5 float32", wider)
    finer = lambda odd: _model(odd, lambda m: m[2].double())  # noqa: E731
    differing(member, "parameter 2.weight is 3 x 7 float64, not 3 x 7 float32", finer)
    colder = lambda odd: _model(odd, lambda m: m[2].weight.requires_grad_(False))  # noqa: E731
    differing(member, "parameter 2.weight is 3 x 7 float32, frozen, not 3 x 7 float32", colder)
    longer = lambda odd: _model(odd, lambda m: m.append(nn.Linear(3, 3)))  # noqa: E731
    differing(member, "it has 6 tensors, not 4: parameter 3.weight is on one of them only", longer)
    buffered = lambda odd: _model(odd, lambda m: m.append(nn.BatchNorm1d(3, affine=False)))  # noqa: E731
    differing(member, "it has 3 tensors, not 0: buffer 3.running_mean", buffered)


@everywhere(worlds=(2, 3), fabrics=("shared", "hosts"))
def test_a_rank_of_another_gossamer_is_named(member: Member) -> None:
    """Whether what it says of itself can still be read, or not."""
    place, last = join(), member.size - 1
    odd = member.rank == last
    where = f"rank {last}" if place.one_host else f"rank {last} on host 1 (127.0.0.1)"
    mine = facts("allreduce", 0, "auto", 0, [], [])
    told = replace(mine, gossamer="0.1") if odd else mine
    refused(f"prepare: {where} differs from rank 0: gossamer is '0.1', not", lambda: agree(place, told))
    older, here = join(), version("gossamer")
    if odd:
        older.store.set(f"facts/{last}", '{"gossamer": "0.1", "model": []}')
        return
    reason = f"prepare: {where} has gossamer 0.1, and here it is {here}: what it says of itself cannot be read"
    refused(reason, lambda: agree(older, mine))


@everywhere(worlds=(3,), fabrics=("shared", "torch", "hosts"))
def test_a_world_that_a_strategy_cannot_be_laid_over(member: Member) -> None:
    """Every rank says so by itself, at once: nobody waits for another who has been refused."""
    model = net()
    for strategy, words in (
        ("dpsgd(Grid())", "3 workers make a torus of 3 x 1, which is a circle; nearest that works: Cycle(), or 4 w"),
        ("dpsgd(Grid(x=2))", "3 workers do not fill rows of 2; nearest that works: Cycle(), or 4 workers"),
        ("backup_workers(3)", "3 backups of 3 workers leave nobody to wait for; nearest that works: AllBut(2)"),
        ("softsync(4)", "one in 4 of 3 workers is nobody; nearest that works: OneIn(3), or 4 workers"),
    ):
        refused(words, lambda strategy=strategy: gossamer.prepare(model, sgd(model), strategy=strategy))  # type: ignore[misc]
    member.prepare(model, sgd(model), strategy="dpsgd")


@everywhere(worlds=(2,), fabrics=("shared",))
def test_worlds(member: Member) -> None:
    whole, part = dist.new_group(), dist.new_group([0])
    model = net()
    prepare = gossamer.prepare
    words = "world holds 1 of 2 processes" if member.rank == 0 else "world is a"  # who is not in it has no such world
    refused(words, lambda: prepare(model, sgd(model), world=part))
    refused("world is a str", lambda: prepare(model, sgd(model), world="all"))
    flat, square = init_device_mesh("cpu", (2,)), init_device_mesh("cpu", (1, 2))
    refused("DeviceMesh of 2 dimensions", lambda: prepare(model, sgd(model), world=square))
    for world in (whole, flat):
        model = net()
        optimizer = sgd(model)
        member.prepare(model, optimizer, world=world)
        loss_of(model, data(4)[member.rank :: 2]).backward()
        optimizer.step()
        member.same(model[0].weight)
