"""What the live noise scale costs: the same prepared loop with looks at its gradients and without, in turns.

    python benchmarks/noise.py [--models cnn mlp resnet18 gpt] [--workers 2] [--turns 15] [--steps 60]

Worker 0 of real processes tells. Turns of so many steps follow each other in a shuffled order, the same on all workers;
shown are medians of the seconds of a turn. `looking` is the share of a turn's seconds that looks took by the clock:
less noisy than the ratio. Bar: at most 1 % of a step.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time

import torch
from models import MODELS
from torch import nn

import gossamer
from gossamer.engine.loop.prepare import session_of

KINDS = ("without", "without again", "looks")
NEVER = 1 << 60


def work(given: argparse.Namespace) -> None:
    """One worker."""
    torch.set_num_threads(1)
    if os.environ["RANK"] == "0":
        print(
            f"{'model':9}{'ms a step':>10}{'A/A':>8}{'looks/without':>15}{'looking':>9}{'looks a turn':>14}", flush=True
        )
    for name in given.models:
        torch.manual_seed(0)
        model, inputs, labels = MODELS[name]()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        gossamer.prepare(model, optimizer, strategy=given.strategy)
        course = session_of(model).courses[0]
        found: dict[str, list[float]] = {kind: [] for kind in KINDS}
        spent, looks = list[float](), list[int]()
        for turn in range(-1, given.turns):
            for kind in random.Random(turn).sample(KINDS, len(KINDS)):
                course.gauge._at = course.step + 1 if kind == "looks" else NEVER
                began, looking, count = time.perf_counter(), 0.0, 0
                for _ in range(given.steps):
                    optimizer.zero_grad()
                    course.counts(len(inputs))
                    nn.functional.cross_entropy(model(inputs), labels).backward()
                    if course.gauge.looking:
                        looking, count = looking + course.gauge._seconds, count + 1
                    optimizer.step()
                if turn >= 0:
                    found[kind].append(time.perf_counter() - began)
                    if kind == "looks":
                        spent.append(looking / found[kind][-1])
                        looks.append(count)
        if os.environ["RANK"] == "0":
            row(name, found, statistics.median(spent), statistics.mean(looks), given.steps)
        session_of(model).close()


def row(name: str, found: dict[str, list[float]], spent: float, looks: float, steps: int) -> None:
    """Print one model."""
    middle = {kind: statistics.median(seconds) for kind, seconds in found.items()}
    again, cost = middle["without again"] / middle["without"], middle["looks"] / middle["without"]
    held = "held" if spent <= 0.01 else "MISSED"
    print(
        f"{name:9}{1e3 * middle['without'] / steps:10.2f}{again:8.3f}{cost:15.3f}{spent:9.2%}{looks:14.1f}  {held}",
        flush=True,
    )


def main() -> None:
    """Start the workers, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--strategy", default="allreduce")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args()
    if "RANK" in os.environ:
        work(given)
        return
    door = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]
    words = [*door, "run", "--nproc-per-node", str(given.workers), *sys.argv]
    sys.exit(subprocess.run(words, check=False).returncode)


if __name__ == "__main__":
    main()
