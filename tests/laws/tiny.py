"""A task small enough that a step takes a millisecond: two linear layers on random points."""

from __future__ import annotations

import torch
from torch import nn

from gossamer.parts.refusal import Refused
from gossamer.parts.trouble import Script, Slow
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Outcome, Plan
from gossamer.sim.machines import Machines
from gossamer.sim.rehearse import rehearse
from gossamer.strategy import AnyStrategy
from gossamer.tasks.task import Task, classified

torch.set_num_threads(1)  # tensors this small only lose time to a second thread


def task() -> Task:
    """32 points in 3 dimensions, two classes, 14 parameters in 4 tensors."""
    draw = torch.Generator().manual_seed(3)
    points, labels = torch.randn(32, 3, generator=draw), torch.randint(0, 2, (32,), generator=draw)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    return Task(model, (points, labels), (points[:4], labels[:4]), classified)


def fault(strategy: AnyStrategy, size: int, steps: int, jitter: float = 0.5) -> str | Refused | None:
    """What goes wrong when the strategy is rehearsed for real, the last member five times slower than the others.

    None if all is well, Refused if it says no before.
    """
    world, machines, trouble = World(size, seed=5), Machines(jitter=jitter), Script((Slow(rank=size - 1, factor=5.0),))
    plan = Plan(task(), strategy, world, Optimizer(rate=0.02), 2, steps, machines, trouble)
    try:
        outcome = rehearse(plan)
    except Refused as no:
        return no
    return unsound(outcome, size * steps)


def unsound(outcome: Outcome, goal: int) -> str | None:
    """A run is sound when every step was made, nobody stood still, and all numbers are finite."""
    if len(outcome.steps) < goal:
        return f"{len(outcome.steps)} of {goal} steps: {[event.what for event in outcome.events]}"
    if not (outcome.replicas.isfinite().all() and outcome.model.isfinite().all()):
        return "parameters that are not finite"
    return None
