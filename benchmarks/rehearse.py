"""Samples per second of rehearsing digits with 128 virtual workers, against plain training at the same batch of 8.

Run `python benchmarks/rehearse.py`: one thread, every round plays plain training, all strategies and plain training
again, so that a drift of the machine meets all alike. A ratio is against the mean of the round's two plain runs. The
first of them against the second is the control: as far as it strays from 1, any ratio may stray by itself. The bar:
every median ratio at least 0.5.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from statistics import median
from time import perf_counter

import torch

from gossamer import tasks
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Machines, Plan, Rehearsal
from gossamer.strategy import parse

WORKERS, BATCH, ROUNDS, BAR = 128, 8, 5, 0.5
CASES = {
    "mlp": (
        24,
        ["allreduce", "parameter_server", "downpour", "easgd", "local_sgd", "gossip_pull", "sgp", "powersgd", "dgc"],
    ),
    "cnn": (4, ["allreduce", "downpour", "gossip_pull", "dgc"]),
}  # model: (steps per worker, strategies)
RATE = Optimizer("sgd", 0.01)


def plain(model: str, steps: int) -> float:
    """Samples a second of an ordinary training loop: shuffled batches, forward, backward, step."""
    task = tasks.build("digits", 0, {"model": model})
    optimizer = RATE.build(task.model.parameters())
    generator = torch.Generator().manual_seed(0)
    order = torch.cat([torch.randperm(task.size, generator=generator) for _ in range(1 + steps * BATCH // task.size)])
    began = perf_counter()
    for step in range(steps):
        chosen = order[step * BATCH : (step + 1) * BATCH]
        loss, _, _ = task.loss(task.model, tuple(part[chosen] for part in task.train))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # a rehearsal reads every loss too
    return steps * BATCH / (perf_counter() - began)


def rehearsed(model: str, strategy: str, steps: int) -> float:
    """Samples a second of a rehearsal, its last evaluation included; compute times differ, so nobody moves in step."""
    task = tasks.build("digits", 0, {"model": model})
    machines = Machines(jitter=0.2)
    rehearsal = Rehearsal(Plan(task, parse(strategy), World(WORKERS), RATE, BATCH, steps, machines))
    began = perf_counter()
    outcome = rehearsal.run()
    return len(outcome.steps) * BATCH / (perf_counter() - began)


def measure(model: str) -> dict[str, list[float]]:
    """Rates of every case of a model, round by round, after a short one to warm up."""
    steps, strategies = CASES[model]
    play(model, 1, strategies)
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, rate in play(model, steps, strategies).items():
            rates.setdefault(name, []).append(rate)
    return rates


def play(model: str, steps: int, strategies: list[str]) -> dict[str, float]:
    """One round: plain training, every strategy, plain training again."""
    found = {"plain": plain(model, WORKERS * steps)}
    found |= {strategy: rehearsed(model, strategy, steps) for strategy in strategies}
    return found | {"plain again": plain(model, WORKERS * steps)}


def report(model: str, rates: dict[str, list[float]]) -> float:
    """Print the table of a model and return the lowest median ratio of a strategy."""
    first, second = rates.pop("plain"), rates.pop("plain again")
    base = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    print(f"\n{model}, {WORKERS} workers x batch {BATCH}, {ROUNDS} rounds, one thread")
    print(f"{'':18}{'samples/s':>12}{'ratio':>8}   lowest to highest")
    told("plain", base, base)
    told("control: plain", first, second)
    return min(told(name, found, base) for name, found in rates.items())


def told(name: str, found: list[float], base: list[float]) -> float:
    """Print one line; returns the median ratio."""
    ratios = [rate / other for rate, other in zip(found, base, strict=True)]
    print(f"{name:18}{median(found):12,.0f}{median(ratios):8.2f}   {min(ratios):.2f} to {max(ratios):.2f}")
    return median(ratios)


def main() -> int:
    """Measure both models; exit code 1 if the bar is missed."""
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    lowest = min(report(model, measure(model)) for model in CASES)
    print(f"\nlowest ratio {lowest:.2f}, the bar is {BAR}: {'held' if lowest >= BAR else 'MISSED'}")
    return 0 if lowest >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
