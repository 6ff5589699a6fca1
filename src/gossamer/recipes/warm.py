"""Two ways to begin with a large rate: momentum that is right when the rate changes, and RMSprop that becomes SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach

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
        foreach: bool | None = None,
    ) -> None:
        real("VelocitySGD", "lr", lr, 0.0, 1e6)
        real("VelocitySGD", "momentum", momentum, 0.0, 1.0, open_high=True)
        real("VelocitySGD", "weight_decay", weight_decay, 0.0, 1.0)
        flag("VelocitySGD", "corrected", corrected)
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "corrected": corrected}
        super().__init__(params, settings | {"foreach": foreach})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every tensor that has a gradient."""
        loss = evaluated(closure)
        for group in self.param_groups:
            rate = float(group["lr"])
            for params in _together(group):
                slopes = _decayed(params, group["weight_decay"])
                velocities = _kept(self, params, "momentum_buffer")
                corrected = group["corrected"]  # then what is kept is v over the rate, so that v follows it
                torch._foreach_mul_(velocities, group["momentum"])
                torch._foreach_add_(velocities, slopes, alpha=1.0 if corrected else rate)
                torch._foreach_add_(params, velocities, alpha=-rate if corrected else -1.0)
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
        foreach: bool | None = None,
    ) -> None:
        real("RMSpropToSGD", "lr", lr, 0.0, 1e6)
        real("RMSpropToSGD", "momentum", momentum, 0.0, 1.0, open_high=True)
        real("RMSpropToSGD", "weight_decay", weight_decay, 0.0, 1.0)
        real("RMSpropToSGD", "smoothing", smoothing, 0.0, 1.0, open_high=True)
        real("RMSpropToSGD", "rms", rms, 0.0, 1e6)
        real("RMSpropToSGD", "eps", eps, 0.0, 1.0, open_low=True)
        real("RMSpropToSGD", "share", share, 0.0, 1.0)
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "smoothing": smoothing}
        super().__init__(params, settings | {"rms": rms, "eps": eps, "share": share, "foreach": foreach})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every tensor that has a gradient."""
        loss = evaluated(closure)
        for group in self.param_groups:
            share, smoothing = float(group["share"]), group["smoothing"]
            for params in _together(group):
                slopes = _decayed(params, group["weight_decay"])
                velocities = _kept(self, params, "momentum_buffer")
                squares = _kept(self, params, "square_avg")
                torch._foreach_mul_(squares, smoothing)
                torch._foreach_addcmul_(squares, slopes, slopes, 1 - smoothing)
                torch._foreach_mul_(velocities, group["momentum"])
                if share:
                    torch._foreach_add_(velocities, slopes, alpha=-share)
                if share < 1:
                    roots = torch._foreach_sqrt(squares)
                    torch._foreach_add_(roots, group["eps"])
                    torch._foreach_addcdiv_(velocities, slopes, roots, -(1 - share) * group["rms"])
                torch._foreach_add_(params, velocities, alpha=float(group["lr"]))
        return loss


def _together(group: dict[str, Any]) -> Iterator[list[Tensor]]:
    """The tensors of a group that have a gradient: all of one kind at once, or each by itself. The numbers are alike;
    unless `foreach` says, all at once where torch's own optimizers would."""
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for p in group["params"]:
        if p.grad is not None:
            kinds.setdefault((p.dtype, p.device), []).append(p)
    for params in kinds.values():
        said = group.get("foreach")
        at_once = _default_to_fused_or_foreach(params, differentiable=False)[1] if said is None else said
        yield from [params] if at_once else ([p] for p in params)


def _decayed(params: list[Tensor], decay: float) -> list[Tensor]:
    """Their gradients, and their decay."""
    slopes = [slope(p) for p in params]
    return list(torch._foreach_add(slopes, params, alpha=decay)) if decay else slopes


def _kept(optimizer: torch.optim.Optimizer, params: list[Tensor], name: str) -> list[Tensor]:
    """What is remembered of each under a name, zeros to begin with."""
    for p in params:
        if name not in optimizer.state[p]:
            optimizer.state[p][name] = torch.zeros_like(p)
    return [optimizer.state[p][name] for p in params]


def sgd_share(epoch: float, center: float = 10.0, period: float = 5.0) -> float:
    """How far RMSprop has become SGD: exponentially up to a half at `center`, then straight on to 1 (like an ELU)."""
    real("sgd_share", "period", period, 0.0, 1e6, open_low=True)
    if epoch < center:
        return 0.5 * exp(2.0 * (epoch - center) / period)
    return min(1.0, 0.5 + (epoch - center) / period)
