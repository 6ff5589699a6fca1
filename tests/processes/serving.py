"""A script for workers and a server: trains a small model with a rate that changes, and leaves the parameters.

serving.py FOLDER [scarce | wide | halves]
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import nn

import gossamer
from gossamer.engine.counter import Counter

FOLDER, RANK, STEPS = Path(sys.argv[1]), int(os.environ["RANK"]), 12
LIMIT = 1_000_000
SERVER = os.environ.get("GOSSAMER_SERVER")


def batch(step: int, rank: int) -> torch.Tensor:
    """What a worker learns from in a step."""
    return torch.randn(4, 10, generator=torch.Generator().manual_seed(100 * step + rank), dtype=torch.float64)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[torch.Tensor]) -> None:
    """A step with each batch; the rate falls every third."""
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    for x in batches:
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        scheduler.step()


def made(width: int = 16) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and what steps it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, width), nn.Tanh(), nn.Linear(width, 1)).double()
    return model, torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-3)


def die_in_a_push() -> None:
    """Let this process be killed when the first of two servers has its fifth push, and the second has not."""
    push, pushes = Counter.push, count(1)

    def last(self: Counter, *words: Any) -> None:
        push(self, *words)
        if next(pushes) == 9:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)

    Counter.push = last  # type: ignore[method-assign]


def main() -> None:
    torch.set_num_threads(1)
    (FOLDER / f"pid-{RANK}").write_text(str(os.getpid()))
    model, optimizer = made(20_000 if "scarce" in sys.argv or "wide" in sys.argv else 16)
    if SERVER is not None and "scarce" in sys.argv:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))  # one of those that say how much memory there is
    if SERVER is not None:
        with torch.no_grad():
            model[0].weight.zero_()  # type: ignore[union-attr, operator]
    if RANK == 1 and "halves" in sys.argv:
        die_in_a_push()
    model, optimizer = gossamer.prepare(model, optimizer)
    assert SERVER is None, "a server does not come back"
    train(model, optimizer, [batch(step, RANK) for step in range(STEPS)])
    torch.save([p.detach() for p in model.parameters()], FOLDER / f"after-{RANK}.pt")


if __name__ == "__main__":
    main()
