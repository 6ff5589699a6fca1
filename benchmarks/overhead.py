"""What we cost where there is nothing to exchange: a world of one against the bare loop, and the journal.

    python benchmarks/overhead.py [--models cnn mlp resnet18 gpt] [--repeats 150]

One process, one thread. Variants take turns step by step in a shuffled order, and ratios are taken within each round,
so that what slows the machine down for a while slows all of them; shown are medians with quartiles. Bars: `prepare`
costs at most 2 %, the journal at most 1 % more.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from models import MODELS
from torch import nn

import gossamer

Turn = Callable[[], None]
VARIANTS = ("bare", "bare again", "prepared", "journal")


def variant(name: str, kind: str, folder: str) -> Turn:
    """One step of a variant."""
    torch.manual_seed(0)
    model, inputs, labels = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    if kind in ("prepared", "journal"):
        gossamer.prepare(model, optimizer, journal=f"{folder}/{name}" if kind == "journal" else None)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def timed(step: Turn) -> float:
    """Seconds of a step."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--repeats", type=int, default=150)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'model':9}{'ms bare':>9}  {'A/A':>22}  {'prepared/bare':>22}  {'journal/prepared':>22}")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.models:
            turns = {kind: variant(name, kind, folder) for kind in VARIANTS}
            found: dict[str, list[float]] = {kind: [] for kind in VARIANTS}
            for repeat in range(-5, given.repeats):  # the first few only warm up
                order = list(VARIANTS)
                random.Random(repeat).shuffle(order)
                for kind in order:
                    taken = timed(turns[kind])
                    found[kind] += [taken] if repeat >= 0 else []
            row(name, found)


def row(name: str, found: dict[str, list[float]]) -> None:
    """Print one model: how many times as long each takes, and whether the bars hold."""

    def ratio(kind: str, base: str) -> tuple[float, str]:
        each = [k / b for k, b in zip(found[kind], found[base], strict=True)]
        low, middle, high = statistics.quantiles(each)
        return middle, f"{middle:.3f} ({low:.3f}..{high:.3f})"

    cost, prepared = ratio("prepared", "bare")
    more, journal = ratio("journal", "prepared")
    bars = f"{'held' if cost <= 1.02 else 'MISSED'}, {'held' if more <= 1.01 else 'MISSED'}"
    bare = 1e3 * statistics.median(found["bare"])
    print(
        f"{name:9}{bare:9.2f}  {ratio('bare again', 'bare')[1]:>22}  {prepared:>22}  {journal:>22}  {bars}", flush=True
    )


if __name__ == "__main__":
    main()
