"""What a step of our optimizers costs beside torch's own, on ResNet-18's tensors.

Run `python benchmarks/optimizers.py` on a quiet machine: one process, one thread. Every repeat steps each optimizer
once, in shuffled order, on tensors of its own. The bars: LARS at most 1.5 times SGD(foreach, momentum, decay), LAMB at
most 1.5 times AdamW(foreach). VelocitySGD is set beside SGD(foreach), and RMSpropToSGD, half way between the two,
beside RMSprop(foreach).
"""

from __future__ import annotations

import random
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from models import MODELS

from gossamer.engine import freed
from gossamer.recipes import LAMB, LARS, RMSpropToSGD, VelocitySGD

REPEATS, EARLY = 40, 5
PAIRS = (("LARS", "SGD"), ("LARS, nesterov", "SGD, nesterov"), ("LAMB", "AdamW"),
         ("VelocitySGD", "SGD"), ("RMSpropToSGD", "RMSprop"))  # fmt: skip


def made() -> dict[str, torch.optim.Optimizer]:
    """Each over tensors of its own, with gradients."""

    def over(make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]) -> torch.optim.Optimizer:
        torch.manual_seed(0)
        tensors = [p.detach().clone().requires_grad_() for p in MODELS["resnet18"]()[0].parameters()]
        for tensor in tensors:
            tensor.grad = torch.randn_like(tensor)
        return make(tensors)

    sgd = {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-4}
    return {
        "SGD": over(lambda held: torch.optim.SGD(held, foreach=True, **sgd)),
        "SGD, nesterov": over(lambda held: torch.optim.SGD(held, foreach=True, nesterov=True, **sgd)),
        "AdamW": over(lambda held: torch.optim.AdamW(held, foreach=True)),
        "LARS": over(lambda held: LARS(held, **sgd)),
        "LARS, nesterov": over(lambda held: LARS(held, nesterov=True, **sgd)),
        "LAMB": over(LAMB),
        "RMSprop": over(lambda held: torch.optim.RMSprop(held, foreach=True, **sgd)),
        "VelocitySGD": over(lambda held: VelocitySGD(held, foreach=True, **sgd)),
        "RMSpropToSGD": over(lambda held: RMSpropToSGD(held, foreach=True, share=0.5, **sgd)),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    freed.keep()
    torch.set_num_threads(1)
    optimizers, draw = made(), random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in optimizers}
    for repeat in range(EARLY + options.repeats):
        for name in draw.sample(list(optimizers), len(optimizers)):
            began = perf_counter()
            optimizers[name].step()
            if repeat >= EARLY:
                times[name].append(perf_counter() - began)
    for name, taken in times.items():
        print(f"{name:16} {1e3 * median(taken):6.2f} ms a step")
    for ours, torchs in PAIRS:
        ratios = sorted(a / b for a, b in zip(times[ours], times[torchs], strict=True))
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        print(f"{ours} / {torchs}: {median(ratios):.2f} ({low:.2f}..{high:.2f}), bar 1.5")


if __name__ == "__main__":
    main()
