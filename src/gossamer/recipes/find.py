"""The learning-rate range test: the rate grows from step to step, and the loss tells where it is too large."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite, log
from typing import Any

import torch
from torch import nn

from gossamer.parts.refusal import Refused, real, whole

SMOOTH = 0.9  # of the loss, from one step to the next
BROKEN = 4.0  # times the lowest loss: it has diverged


@dataclass(frozen=True)
class Range:
    """Rates in rising order, and the loss at each, smoothed; `diverged`: it ended before its time."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    diverged: bool

    @property
    def steepest(self) -> float:
        """The rate at which the loss falls fastest, over a tenth of the test: a good one to train with."""
        span = max(1, len(self.rates) // 10)
        if len(self.rates) <= 2 * span:
            raise Refused("lr-find: the loss diverged at once", "a lower first rate")
        falls = [
            (self.losses[k + span] - self.losses[k - span]) / (log(self.rates[k + span]) - log(self.rates[k - span]))
            for k in range(span, len(self.rates) - span)
        ]
        return self.rates[span + min(range(len(falls)), key=falls.__getitem__)]

    @property
    def lowest(self) -> float:
        """The rate with the lowest loss: beyond it is too much; a tenth of it is what is often taken."""
        return self.rates[min(range(len(self.losses)), key=self.losses.__getitem__)]


def range_test(
    model: nn.Module,
    make: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    loss_of: Callable[[nn.Module, int], torch.Tensor],
    low: float = 1e-5,
    high: float = 10.0,
    steps: int = 100,
    watch: Callable[[int], Any] | None = None,
) -> Range:
    """Train a copy of the model for so many steps, from the lowest rate to the highest, each so many times the last.

    `loss_of(model, step)` is the loss of the step's batch; the model itself stays as it is.
    """
    real("lr-find", "low", low, 0.0, 1e6, open_low=True)
    real("lr-find", "high", high, low, 1e6, open_low=True)
    whole("lr-find", "steps", steps, 10, 10**6)
    tried = deepcopy(model).train()
    optimizer = make(p for p in tried.parameters() if p.requires_grad)
    rates, losses, mean, weight = list[float](), list[float](), 0.0, 0.0
    for step in range(steps):
        rate = low * (high / low) ** (step / (steps - 1))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = loss_of(tried, step)
        seen = loss.item()
        mean, weight = SMOOTH * mean + (1 - SMOOTH) * seen, SMOOTH * weight + 1 - SMOOTH
        if not isfinite(seen) or (losses and mean / weight > BROKEN * min(losses)):
            return Range(tuple(rates), tuple(losses), True)
        rates.append(rate)
        losses.append(mean / weight)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if watch is not None:
            watch(step)
    return Range(tuple(rates), tuple(losses), False)
