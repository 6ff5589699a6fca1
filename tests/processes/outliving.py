"""A worker that pushes to a hub over messages until its test lets it end; started by its test."""

from __future__ import annotations

import sys
import threading

import torch
from torch import nn

import gossamer


def main() -> None:
    """Train as long as standard input is open, and say how far it came."""
    torch.manual_seed(0)
    model = nn.Linear(250, 250)  # shards of 20,916 elements for three members
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    gossamer.prepare(model, optimizer, strategy="downpour(every=1)", fabric="messages")
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    x, steps = torch.randn(4, 250), 0
    while not over.is_set():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        steps += 1
        if steps % 20 == 0:
            print(f"visits {steps}", flush=True)
    print("closed", flush=True)


if __name__ == "__main__":
    main()
