"""Two ways to begin with a large rate: momentum that is right when the rate changes, and RMSprop that becomes SGD."""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Any

import torch

from gossamer.parts.refusal import flag, real
from gossamer.recipes.lars import Params, evaluated, slope


class VelocitySGD(torch.optim.Optimizer):
    """SGD whose velocity holds the rate: v = m v + rate g; w -= v. When the rate changes v is scaled along with it.

    That is Goyal's momentum correction; torch's own SGD keeps the rate out of v, and so does the same without it.
    `corrected=False` is what the correction is for.
    """

    by_tensor = True

    def __init__(
        self,
        params: Params,
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        corrected: bool = True,
    ) -> None:
        real("VelocitySGD", "lr", lr, 0.0, 1e6)
        real("VelocitySGD", "momentum", momentum, 0.0, 1.0, open_high=True)
        real("VelocitySGD", "weight_decay", weight_decay, 0.0, 1.0)
        flag("VelocitySGD", "corrected", corrected)
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "corrected": corrected}
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every tensor that has a gradient."""
        loss = evaluated(closure)
        for group in self.param_groups:
            rate = float(group["lr"])
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, moved = self.state[p], slope(p)
                if group["weight_decay"]:
                    moved = moved.add(p, alpha=group["weight_decay"])
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(p)
                corrected = group["corrected"]  # then what is kept is v over the rate, so that v follows it
                velocity = (
                    state["momentum_buffer"].mul_(group["momentum"]).add_(moved, alpha=1.0 if corrected else rate)
                )
                p.sub_(velocity, alpha=rate if corrected else 1.0)
        return loss


class RMSpropToSGD(torch.optim.Optimizer):
    """PFN's warm-up: s = b s + (1 - b) g^2; v = m v - (a + (1 - a) rms / (sqrt(s) + eps)) g; w += rate v.

    `share`, a group's setting, is a: 0 is RMSprop, 1 is SGD with momentum; `sgd_share` says it for every epoch. The
    formula and its constants are as we remember Akiba et al. 2017.
    """

    by_tensor = True

    def __init__(
        self,
        params: Params,
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        smoothing: float = 0.99,
        rms: float = 3e-4,
        eps: float = 1e-8,
        share: float = 0.0,
    ) -> None:
        real("RMSpropToSGD", "lr", lr, 0.0, 1e6)
        real("RMSpropToSGD", "momentum", momentum, 0.0, 1.0, open_high=True)
        real("RMSpropToSGD", "weight_decay", weight_decay, 0.0, 1.0)
        real("RMSpropToSGD", "smoothing", smoothing, 0.0, 1.0, open_high=True)
        real("RMSpropToSGD", "rms", rms, 0.0, 1e6)
        real("RMSpropToSGD", "eps", eps, 0.0, 1.0, open_low=True)
        real("RMSpropToSGD", "share", share, 0.0, 1.0)
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "smoothing": smoothing}
        super().__init__(params, settings | {"rms": rms, "eps": eps, "share": share})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every tensor that has a gradient."""
        loss = evaluated(closure)
        for group in self.param_groups:
            share, smoothing = float(group["share"]), group["smoothing"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, moved = self.state[p], slope(p)
                if group["weight_decay"]:
                    moved = moved.add(p, alpha=group["weight_decay"])
                if not state:
                    state.update(momentum_buffer=torch.zeros_like(p), square_avg=torch.zeros_like(p))
                velocity, squares = state["momentum_buffer"], state["square_avg"]
                squares.mul_(smoothing).addcmul_(moved, moved, value=1 - smoothing)
                velocity.mul_(group["momentum"])
                if share:
                    velocity.sub_(moved, alpha=share)
                if share < 1:
                    velocity.addcdiv_(moved, squares.sqrt().add_(group["eps"]), value=-(1 - share) * group["rms"])
                p.add_(velocity, alpha=float(group["lr"]))
        return loss


def sgd_share(epoch: float, center: float = 10.0, period: float = 5.0) -> float:
    """How far RMSprop has become SGD: exponentially up to a half at `center`, then straight on to 1 (like an ELU)."""
    real("sgd_share", "period", period, 0.0, 1e6, open_low=True)
    if epoch < center:
        return 0.5 * exp(2.0 * (epoch - center) / period)
    return min(1.0, 0.5 + (epoch - center) / period)
