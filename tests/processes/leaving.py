"""A task whose workers will not go on computing before what they sent a step ago has left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from gossamer.tasks.task import Batch, Task, classified


def written() -> int:
    """Bytes this process has written, as the kernel counts them."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def task(seed: int = 0, expect: int = 0, patience: float = 20.0) -> Task:
    """From the second step on a loss is only told once `expect` bytes have left since the last one was."""
    inputs, labels = torch.randn(64, 200, generator=torch.Generator().manual_seed(1)), torch.arange(64) % 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(200, 1951), nn.ReLU(), nn.Linear(1951, 4))
    last: list[int] = []

    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        deadline = time.monotonic() + patience
        while last and written() - last[-1] < expect:
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {written() - last[-1]} of {expect} bytes left while this member computed")
            time.sleep(0.005)
        last.append(written())
        return classified(model, batch)

    return Task(model, (inputs, labels), (inputs, labels), loss)
