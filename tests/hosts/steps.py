"""One worker on a host of a lab: prepares a model, then makes steps when it is told to, and says what it saw."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import gossamer
from gossamer.engine.loop.prepare import session_of

LAYERS = 16  # of a megabyte each


class Slow(torch.autograd.Function):
    """Takes its time on the way back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        time.sleep(ctx.seconds)
        return slopes[0], None


class Layers(nn.Module):
    """Square layers of a megabyte, each followed by some computing in backward."""

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__()
        self.layers, self.seconds = nn.ModuleList(nn.Linear(512, 512, bias=False) for _ in range(count)), seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = Slow.apply(layer(x), self.seconds / len(self.layers))
        return x


def memories() -> list[int]:
    """Inodes of the memory this process shares with others."""
    found = re.findall(r" (\d+) +/memfd:gossamer ", Path("/proc/self/maps").read_text())
    return sorted({int(inode) for inode in found})


class Training:
    """A model in a loop under some strategy."""

    def __init__(self, strategy: str, seconds: float) -> None:
        torch.manual_seed(0)
        self.model = Layers(LAYERS, seconds)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        gossamer.prepare(self.model, self.optimizer, strategy=strategy)
        self.session, self.crossed = session_of(self.model), list[int]()
        self.session.watches.append(lambda _, record: self.crossed.append(sum(record.crossed.values())))
        self.x = torch.randn(4, 512)
        self.step()

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(self.x).square().mean().backward()
        self.optimizer.step()

    def steps(self, count: int) -> dict[str, Any]:
        """Make so many and say what was seen."""
        self.crossed.clear()
        began = time.perf_counter()
        for _ in range(count):
            self.step()
        spent = time.perf_counter() - began
        total = sum(p.detach().double().sum().item() for p in self.model.parameters())
        return {"seconds": spent / max(1, count), "crossed": sum(self.crossed), "total": total, "memories": memories()}


def main() -> None:
    """A line on stdin is a strategy, seconds of computing in a step, and how many steps to make; 0 prepares."""
    torch.set_num_threads(1)
    known: dict[tuple[str, float], Training] = {}
    for line in sys.stdin:
        strategy, seconds, count = json.loads(line)
        training = known.get((strategy, seconds)) or known.setdefault((strategy, seconds), Training(strategy, seconds))
        print(json.dumps(training.steps(count)), flush=True)


if __name__ == "__main__":
    main()
