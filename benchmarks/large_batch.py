"""What large batches need: MNIST with batches of 64 and 4,096, plain and by the recipes, in one process.

    python benchmarks/large_batch.py MNIST_FOLDER [--model mlp] [--epochs 5] [--seeds 0 1 2] [--lars 8] [--out FILE]

A synchronous step of many workers is the step of one with all their samples, so one process tells what they would come
to. All rows train the same model for the same epochs. The rate of batch 64 is 0.005: linear scaling makes it 64 times
as much, and diverges from 0.01 or 0.02. That of LARS was chosen on seed 0 among 1, 2, 4, 8, 16 and 32. The noise scale
is taken from the norms of eight parts of a batch and of the whole, and what it says of samples is held against how many
were needed to reach the accuracy that the large batch reached.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from gossamer.parts.world import World
from gossamer.recipes import LARS, Batches, Constant, NoiseScale, Pace, Polynomial, Schedule, Warmup
from gossamer.tasks import Stream, Task, build, evaluate

SMALL, LARGE, BASE, MOMENTUM = 64, 4096, 0.005, 0.9
LOOKS = 4  # evaluations in an epoch of small batches
PARTS = 8


@dataclass(frozen=True)
class Row:
    """Who trains, and how."""

    name: str
    batches: Batches
    rate: float
    schedule: Schedule = Constant()
    lars: bool = False
    smoothing: float = 0.0
    rule: str = "constant"


def rows(epochs: float, lars: float) -> list[Row]:
    """The five of them."""
    small, large = Batches(((0, SMALL),)), Batches(((0, LARGE),))
    grow = Batches(((0, LARGE // 4), (epochs / 2, LARGE)))
    warm, scaled = epochs / 5, BASE * LARGE / SMALL
    return [
        Row("64, plain", small, BASE),
        Row("4,096, plain", large, BASE),
        Row("4,096, linear scaling and warm-up", large, scaled, Warmup(warm, SMALL / LARGE)),
        Row("4,096, LARS", large, lars, Warmup(warm, 0.0, Polynomial(2.0)), lars=True),
        Row("1,024 -> 4,096, LARS, smoothing", grow, lars, Warmup(warm, 0.0, Polynomial(2.0)), True, 0.1),
    ]


def trained(task: Task, row: Row, epochs: float, seed: int) -> Iterator[dict[str, float]]:
    """Train, and say now and then how far it has come."""
    pace = Pace(row.batches, row.schedule, task.size, epochs, row.rate, row.rule)
    model = task.model.train()
    optimizer: torch.optim.Optimizer
    if row.lars:
        optimizer = LARS(model.parameters(), momentum=MOMENTUM, trust=0.01, weight_decay=5e-5)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=row.rate, momentum=MOMENTUM)
    stream, noise = Stream(task.size, 1, World(1, seed), pace.table), NoiseScale(0.9)
    every = max(1, pace.steps // int(LOOKS * epochs))
    for step in range(pace.steps):
        pace.set(optimizer, step)
        chosen = stream.indices(0, step)
        optimizer.zero_grad()
        look = (step + 1) % every == 0 or step + 1 == pace.steps
        squares = [_backward(task, model, part, row.smoothing, PARTS) for part in chosen.chunk(PARTS)]
        whole = sum(float(p.grad.square().sum()) for p in model.parameters() if p.grad is not None)
        noise.saw(len(chosen) // PARTS, statistics.mean(squares), len(chosen), whole)
        optimizer.step()
        if look:
            loss, accuracy = evaluate(task, model)
            read = pace.table.start(step) + len(chosen)
            yield {"samples": read, "accuracy": accuracy, "loss": loss, "noise": noise.scale or 0.0}


def _backward(task: Task, model: nn.Module, part: Tensor, smoothing: float, of: int) -> float:
    """Add the gradient of a part of a batch, and say how long it is by itself, squared."""
    inputs, labels = (each[part] for each in task.train)
    before = [p.grad.clone() if p.grad is not None else None for p in model.parameters()]
    loss = nn.functional.cross_entropy(model(inputs), labels, label_smoothing=smoothing)
    (loss / of).backward()
    added = [
        p.grad if was is None else p.grad - was
        for p, was in zip(model.parameters(), before, strict=True)
        if p.grad is not None
    ]
    return of**2 * sum(float(each.square().sum()) for each in added)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=Path, metavar="MNIST_FOLDER")
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--lars", type=float, default=8.0, help="LARS's rate")
    parser.add_argument("--rows", nargs="+", type=int, default=range(5), help="only these, by number")
    parser.add_argument("--epochs", type=float, default=5.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="every look is added to it as a line of JSON")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[list[dict[str, float]]]] = {}
    for seed in given.seeds:
        for row in [rows(given.epochs, given.lars)[number] for number in given.rows]:
            task = build("idx", seed, {"path": str(given.mnist), "model": given.model})
            looks = list(trained(task, row, given.epochs, seed))
            found.setdefault(row.name, []).append(looks)
            print(
                f"{row.name}, seed {seed}: {looks[-1]['accuracy']:.4f}, noise scale {looks[-1]['noise']:,.0f}",
                flush=True,
            )
            if given.out is not None:
                with given.out.open("a") as file:
                    file.writelines(json.dumps({"row": row.name, "seed": seed, **look}) + "\n" for look in looks)
    print("\n| who | accuracy, % |\n|---|---:|")
    for name, runs in found.items():
        last = [100 * looks[-1]["accuracy"] for looks in runs]
        print(f"| {name} | {statistics.mean(last):.2f} ({min(last):.2f}..{max(last):.2f}) |")
    if len(found) == len(rows(given.epochs, given.lars)):
        predicted(found)


def predicted(found: dict[str, list[list[dict[str, float]]]]) -> None:
    """What the noise scale of the small batch says 4,096 costs, and what it cost to reach the same accuracy."""
    small, large = (found[name] for name in ("64, plain", "4,096, linear scaling and warm-up"))
    for few, many in zip(small, large, strict=True):
        reached = many[-1]["accuracy"]
        needed = next((look["samples"] for look in few if look["accuracy"] >= reached), None)
        scale = statistics.median(look["noise"] for look in few if look["noise"] > 0)
        said = (1 + LARGE / scale) / (1 + SMALL / scale)
        told = (
            "never reached by 64" if needed is None else f"{many[-1]['samples'] / needed:.1f}x as many samples needed"
        )
        print(f"to {reached:.4f}: {told}; the noise scale of 64 ({scale:,.0f}) says {said:.1f}x")


if __name__ == "__main__":
    main()
