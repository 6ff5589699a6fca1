"""A script for workers that visit each other: one is lost in the midst of it, the others train to their end.

surviving.py FOLDER HOW RANK
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

import gossamer
from gossamer.engine.loop import average

FOLDER, HOW, WHO = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
RANK = int(os.environ["RANK"])
EPOCHS, PACE, AT = 12, 0.02, 40  # in all; seconds of a step; the step in which one is lost


def main() -> None:
    """Train, and leave the last loss."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    (FOLDER / f"pid-{RANK}").write_text(str(os.getpid()))
    if (HOW, WHO) == ("starts and dies", RANK):
        lose()
    inputs = torch.randn(120, 20)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sampler = WeightedRandomSampler([1.0] * len(data), len(data))  # one that members must agree on by themselves
    model, optimizer, loader = gossamer.prepare(model, optimizer, DataLoader(data, batch_size=12, sampler=sampler))
    step = 0
    for _ in range(EPOCHS):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(PACE)
            step += 1
            if HOW == "dies in an average" and step == AT:
                averages(model, optimizer)
            elif (step, RANK) == (AT, WHO):
                lose()
    (FOLDER / f"done-{RANK}").write_text(f"{step} {loss.item()}")


def averages(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """All but one leave the average of those that are left; that one is gone when all have met for it. Then they save
    for the first time."""
    if RANK == WHO:
        average.mean = lambda *words: lose()
    with gossamer.averaged(model):
        torch.save([p.detach().clone() for p in model.parameters()], FOLDER / f"average-{RANK}")
    gossamer.save(FOLDER / "kept", model, optimizer)


def lose() -> None:
    """As told."""
    if HOW == "raises":
        raise ValueError("the numbers of this rank went wrong")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
