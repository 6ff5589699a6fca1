"""k workers with a prepared loop are one process on the pooled batch."""

from __future__ import annotations

import torch
from tests.processes.pool import Member, everywhere
from tests.processes.user import Build, close, cycle, loader, loss_of, net
from torch import nn

OPTIMIZERS: dict[str, Build] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}
ROUTES = ("allreduce", "allreduce(route=sharded)")


def pair(build: Build, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = net(dtype)
    return model, build(model.parameters())


def both(member: Member, build: Build, *, count: int, batch: int, steps: int, within: float, **how: object) -> None:
    """Train alone on whole batches, and prepared on shares; end alike."""
    dtype = torch.float64 if within < 1e-6 else torch.float32
    alone, stepper = pair(build, dtype)
    for whole in cycle(loader(count, batch, dtype), steps):
        stepper.zero_grad()
        loss_of(alone, whole).backward()
        stepper.step()
    model, optimizer = pair(build, dtype)
    model, optimizer, batches = member.prepare(model, optimizer, loader(count, batch, dtype), **how)
    for part in cycle(batches, steps):
        optimizer.zero_grad()
        loss_of(model, part).backward()
        optimizer.step()
    close(model, alone, within)
    for tensor in model.parameters():
        member.same(tensor)


@everywhere(optimizer=tuple(OPTIMIZERS), strategy=ROUTES)
def test_fifty_steps_with_an_uneven_last_batch(member: Member, optimizer: str, strategy: str) -> None:
    both(member, OPTIMIZERS[optimizer], count=43, batch=8, steps=50, within=1e-10, strategy=strategy)


@everywhere()
def test_ten_steps_in_single_precision(member: Member) -> None:
    both(member, OPTIMIZERS["sgd"], count=24, batch=8, steps=10, within=1e-5)


@everywhere(worlds=(3,))
def test_a_batch_smaller_than_the_world_gives_somebody_weight_0(member: Member) -> None:
    both(member, OPTIMIZERS["sgd"], count=11, batch=2, steps=30, within=1e-10)


WAYS = ("Torus(x=2)", "Hierarchical(per_host=2)", "Hierarchical(per_host=2, among=Doubling())", "Ring()", "Native()")


@everywhere(worlds=(4,), fabrics=("hosts",), route=("Auto()", *WAYS))
def test_every_way_between_two_hosts(member: Member, route: str) -> None:
    both(member, OPTIMIZERS["sgd"], count=43, batch=8, steps=10, within=1e-10, strategy=f"Exchange(route={route})")
