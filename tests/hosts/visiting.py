"""A worker of one of two hosts that trains by visits or with a hub; started by its test.

visiting.py STRATEGY STEPS PACE
"""

from __future__ import annotations

import sys
import time

import torch
from torch import nn

import gossamer
from gossamer.engine.loop.prepare import session_of


def main() -> None:
    """Train, and say after the first step what carries visits, and in the end how far it came."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(500, 500)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    gossamer.prepare(model, optimizer, strategy=sys.argv[1])
    x = torch.randn(4, 500)
    for step in range(int(sys.argv[2])):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        time.sleep(float(sys.argv[3]))
        if step == 0:
            print(session_of(model).carried, flush=True)
    print(f"done {model(x).square().mean().item():.6f}", flush=True)


if __name__ == "__main__":
    main()
