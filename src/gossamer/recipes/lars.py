"""LARS and LAMB: each tensor's step is as long as the tensor itself allows, so large batches may take large rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from gossamer.parts.refusal import Refused, flag, real

Params = Iterable[Tensor] | Iterable[dict[str, Any]]


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rates: lambda = trust |w| / (|g| + decay |w|); v = m v + lambda (g + decay w); w -= rate v.

    A sum of norms below `eps` has `eps` added to it, and a tensor shorter than that is stepped with the rate alone (so
    does the framework of the 122-second run). Tensors of one dimension, biases and norms, are stepped with the rate
    alone and without decay, unless a group says `vectors=True`. A rate that changes counts for all of the step at once
    (Goyal's momentum correction); `corrected=False` keeps the rate in v, as that framework does.
    """

    by_tensor = True  # a step of one tensor depends on no other

    def __init__(
        self,
        params: Params,
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        eps: float = 1e-9,
        nesterov: bool = False,
        vectors: bool = False,
        corrected: bool = True,
    ) -> None:
        real("LARS", "lr", lr, 0.0, 1e6)
        real("LARS", "momentum", momentum, 0.0, 1.0, open_high=True)
        real("LARS", "weight_decay", weight_decay, 0.0, 1.0)
        real("LARS", "trust", trust, 0.0, 1e6, open_low=True)
        real("LARS", "eps", eps, 0.0, 1.0)
        for name, value in (("nesterov", nesterov), ("vectors", vectors), ("corrected", corrected)):
            flag("LARS", name, value)
        settings = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "eps": eps}
        super().__init__(params, settings | {"nesterov": nesterov, "vectors": vectors, "corrected": corrected})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every tensor that has a gradient."""
        return _by_kinds(self, self._step, closure)

    def _step(self, group: dict[str, Any], params: list[Tensor], adapts: bool) -> None:
        slopes = [slope(p) for p in params]
        decay = group["weight_decay"] if adapts else 0.0
        scales = _trusted(params, slopes, decay, group["trust"], group["eps"]) if adapts else None
        rate = group["lr"]
        if decay:
            slopes = list(torch._foreach_add(slopes, params, alpha=decay))
        if not group["corrected"]:
            scales = [rate * each for each in scales] if scales else [rate * p.new_ones(()) for p in params]
        last = 1.0 if not group["corrected"] else rate
        velocities = [self.state[p].get("momentum_buffer") for p in params]
        for place, p in enumerate(params):
            if velocities[place] is None:
                velocities[place] = self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        torch._foreach_mul_(velocities, group["momentum"])
        if scales is None:
            torch._foreach_add_(velocities, slopes)
        else:
            torch._foreach_addcmul_(velocities, slopes, scales)
        if not group["nesterov"]:
            _minus(params, velocities, last)
            return
        ahead = list(torch._foreach_mul(velocities, group["momentum"]))
        if scales is None:
            torch._foreach_add_(ahead, slopes)
        else:
            torch._foreach_addcmul_(ahead, slopes, scales)
        _minus(params, ahead, last)


class LAMB(torch.optim.Optimizer):
    """r = m^ / (sqrt(v^) + eps) + decay w; w -= rate (|w| / |r|, or 1 if either is 0) r; m^ and v^ as Adam has them.

    Tensors of one dimension are stepped as Adam steps them, without decay, unless a group says `vectors=True`.
    """

    by_tensor = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        vectors: bool = False,
    ) -> None:
        real("LAMB", "lr", lr, 0.0, 1e6)
        for place, beta in enumerate(betas):
            real("LAMB", f"betas[{place}]", beta, 0.0, 1.0, open_high=True)
        real("LAMB", "eps", eps, 0.0, 1.0)
        real("LAMB", "weight_decay", weight_decay, 0.0, 1.0)
        flag("LAMB", "vectors", vectors)
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "vectors": vectors}
        )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of every tensor that has a gradient."""
        return _by_kinds(self, self._step, closure)

    def _step(self, group: dict[str, Any], params: list[Tensor], adapts: bool) -> None:
        slopes, (first, second) = [slope(p) for p in params], group["betas"]
        for p in params:
            if not self.state[p]:
                self.state[p].update(step=torch.zeros(()), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        means, squares, steps = ([self.state[p][name] for p in params] for name in ("exp_avg", "exp_avg_sq", "step"))
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(means, slopes, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, slopes, slopes, 1 - second)
        counts = [float(step) for step in steps]
        moves = list(torch._foreach_sqrt(squares))
        torch._foreach_div_(moves, [(1 - second**count) ** 0.5 for count in counts])
        torch._foreach_add_(moves, group["eps"])
        moves = list(torch._foreach_div(means, moves))
        torch._foreach_div_(moves, [1 - first**count for count in counts])
        rate = group["lr"]
        if not adapts:
            _minus(params, moves, rate)
            return
        if group["weight_decay"]:
            torch._foreach_add_(moves, params, alpha=group["weight_decay"])
        lengths, taken = _norms(params), _norms(moves)
        ratios = torch.where((lengths > 0) & (taken > 0), lengths / taken, torch.ones_like(lengths))
        torch._foreach_addcmul_(params, moves, _parted(ratios, params), -float(rate))


@torch.no_grad()
def _by_kinds(
    optimizer: torch.optim.Optimizer,
    step: Callable[[dict[str, Any], list[Tensor], bool], None],
    closure: Callable[[], Any] | None,
) -> Any:
    """Step the tensors of each group that have a gradient, kind by kind."""
    loss = evaluated(closure)
    for group in optimizer.param_groups:
        for adapts, params in _kinds(type(optimizer).__name__, group):
            step(group, params, adapts)
    return loss


def _kinds(owner: str, group: dict[str, Any]) -> list[tuple[bool, list[Tensor]]]:
    """The tensors of a group that have a gradient, of one kind each, and whether their step adapts."""
    found: dict[tuple[bool, torch.dtype, torch.device], list[Tensor]] = {}
    for p in group["params"]:
        if p.grad is not None:
            if p.element_size() < 4:
                raise Refused(
                    f"{owner}: a weight is {p.dtype}, too short for the ratio of two lengths",
                    "32-bit weights, and Precision('fp16').casting(...) around forward; or Master around it",
                )
            found.setdefault((p.dim() > 1 or group["vectors"], p.dtype, p.device), []).append(p)
    return [(adapts, some) for (adapts, _, _), some in found.items()]


def _trusted(params: list[Tensor], slopes: list[Tensor], decay: float, trust: float, eps: float) -> list[Tensor]:
    """lambda for each tensor, one number each; nothing is asked of the device."""
    lengths, steep = _norms(params), _norms(slopes)
    both = steep + decay * lengths
    both = torch.where(both < eps, both + eps, both)
    plain = (lengths < eps) | (lengths == 0) | (both == 0)
    return _parted(torch.where(plain, torch.ones_like(both), trust * lengths / both), params)


def _norms(tensors: list[Tensor]) -> Tensor:
    """The length of each, in 32 bits at least."""
    wide = torch.promote_types(tensors[0].dtype, torch.float32)
    return torch.stack(list(torch._foreach_norm(tensors, 2, dtype=wide)))


def _parted(numbers: Tensor, like: list[Tensor]) -> list[Tensor]:
    return [number.to(p.dtype) for number, p in zip(numbers.unbind(), like, strict=True)]


def _minus(params: list[Tensor], moves: list[Tensor], rate: float | Tensor) -> None:
    torch._foreach_add_(params, moves, alpha=-float(rate))


def slope(p: Tensor) -> Tensor:
    """The gradient of a tensor that has one."""
    assert p.grad is not None
    return p.grad


def evaluated(closure: Callable[[], Any] | None) -> Any:
    """What a closure, if there is one, says the loss is."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
