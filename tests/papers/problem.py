"""The tiny float64 problem that oracles and rehearsals both solve, and how to play it, rehearsed or in plain torch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan, Rehearsal
from gossamer.strategy import AnyStrategy
from gossamer.tasks import Batch, Stream, Task
from gossamer.tasks.digits import digits

SAMPLES, BATCH = 97, 4  # a prime, so that batches straddle the seam between epochs
RATE = 0.2
EXACT = 1e-10  # how near a rehearsal in float64 must come to its oracle
WRONG = 1e-6  # how far a wrong specimen must stay away


def squared(model: object, batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
    """The mean over the batch of half the squared error."""
    inputs, wanted = batch
    assert callable(model)
    wrong = model(inputs) - wanted
    return 0.5 * wrong.square().sum(-1).mean(), len(wanted), {}


def tiny(seed: int = 0, dtype: torch.dtype = torch.float64) -> Task:
    """A new 5-4-3 tanh network and samples of a noisy teacher, drawn from the seed alone."""
    dice = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)).to(dtype)
    for parameter in model.parameters():
        parameter.data = 0.7 * torch.randn(parameter.shape, generator=dice, dtype=dtype)
    inputs = torch.randn(SAMPLES, 5, generator=dice, dtype=dtype)
    teacher = torch.randn(5, 3, generator=dice, dtype=dtype)
    wanted = (inputs @ teacher).sin() + 0.3 * torch.randn(SAMPLES, 3, generator=dice, dtype=dtype)
    return Task(model, (inputs, wanted), (inputs[:8], wanted[:8]), squared)


def small_digits() -> Task:
    """Real digits in single precision, and a network small enough to rehearse many times."""
    return digits(hidden=16)


def tiny_32() -> Task:
    """The tiny task in single precision."""
    return tiny(dtype=torch.float32)


def start(task: Task) -> np.ndarray:
    """The parameters before the first step, flat."""
    return torch.cat([p.detach().reshape(-1) for p in task.model.parameters()]).numpy()


def batches(task: Task, world: World, steps: int, batch: int = BATCH) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """data[m][t]: the samples of member m's own step t."""
    stream, (inputs, wanted) = Stream(task.size, batch, world), task.train
    read = [[stream.indices(member, step) for step in range(steps)] for member in range(world.size)]
    return [[(inputs[at].numpy(), wanted[at].numpy()) for at in mine] for mine in read]


def given(size: int, steps: int, seed: int = 0) -> tuple[np.ndarray, list[list[tuple[np.ndarray, np.ndarray]]]]:
    """What every oracle is given: the start and the batches of each member and step."""
    task = tiny()
    return start(task), batches(task, World(size, seed), steps)


def played(
    strategy: AnyStrategy,
    size: int,
    steps: int = 0,
    *,
    momentum: float = 0.0,
    order: tuple[int, ...] | None = None,
    seed: int = 0,
) -> Rehearsal:
    """The rehearsal of a new tiny task, played to its end."""
    optimizer = Optimizer("sgd", RATE, momentum)
    plan = Plan(tiny(), strategy, World(size, seed), optimizer, BATCH, steps, order=order)
    rehearsal = Rehearsal(plan)
    rehearsal.run()
    return rehearsal


def gap(found: Tensor, wanted: np.ndarray | Tensor) -> float:
    """The largest difference between what was rehearsed and what was wanted; NaN counts as infinite."""
    difference = (found - torch.as_tensor(wanted)).abs().max().item()
    return difference if difference == difference else float("inf")


def trained(task: Task, strategy: AnyStrategy, size: int, steps: int, mu: float = 0.0) -> Tensor:
    """One of the replicas, having made sure that they are all the same."""
    plan = Plan(task, strategy, World(size), Optimizer("sgd", RATE, mu), BATCH, steps)
    found = Rehearsal(plan).run().replicas
    assert all(torch.equal(found[0], replica) for replica in found)
    return found[0]


def in_one_process(task: Task, size: int, steps: int, mu: float = 0.0) -> Tensor:
    """Plain torch: one model, one optimizer, the batches of all workers pooled."""
    stream, (inputs, wanted) = Stream(task.size, size * BATCH, World(1)), task.train
    optimizer = torch.optim.SGD(task.model.parameters(), lr=RATE, momentum=mu)
    for step in range(steps):
        at = stream.indices(0, step)
        found = task.model(inputs[at])
        if wanted.dtype.is_floating_point:
            loss = 0.5 * (found - wanted[at]).square().sum(-1).mean()
        else:
            loss = nn.functional.cross_entropy(found, wanted[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in task.model.parameters()])
