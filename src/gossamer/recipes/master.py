"""Masters: the 32-bit weights that are stepped of a model that is 16 bits itself. Knows no scale and no exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from gossamer.parts.refusal import Refused


class Master(torch.optim.Optimizer):
    """For a model that is 16 bits itself: an optimizer steps 32-bit masters of its weights, which are rounded to them.

    `make` builds that optimizer, as in `Master(model.parameters(), lambda held: torch.optim.SGD(held, lr=0.1))`; of
    groups it is given groups. The masters are in the state, so in checkpoints, too; rates are set on this one's groups,
    and followed. Where somebody changes a weight in place, so that its master no longer rounds to it, the master
    follows. After `gossamer.prepare` masters are what members exchange, average, step at hubs and keep.

    Gradients are clipped in 32 bits after `take`, or where the loss was scaled after the `unscale` of our scaler:
    `clip_grad_norm_(optimizer.masters, 1.0)`.
    """

    _step_supports_amp_scaling = True  # a scaler leaves the scale to us: 16 bits are too short to take it off in

    def __init__(
        self, params: Iterable[Tensor] | Iterable[dict[str, Any]], make: Callable[[list[Any]], torch.optim.Optimizer]
    ) -> None:
        weights = dict[int, Tensor]()  # by the id of each one's master

        def master_of(p: Tensor) -> Tensor:
            master = p.detach().clone().float()
            weights[id(master)] = p
            return master

        held = [_each(given, master_of) for given in params]
        self.inner = make(held)
        stepped = [master for group in self.inner.param_groups for master in group["params"]]
        if {id(master) for master in stepped} != weights.keys():
            raise Refused("Master: its optimizer does not step what it was given, all of it", "lambda held: SGD(held)")
        self.pairs = [(weights[id(master)], master) for master in stepped]
        super().__init__([_each(group, lambda master: weights[id(master)]) for group in self.inner.param_groups], {})
        self.taken = False  # whether gradients of masters are what the next step takes, not those of weights
        for p, master in self.pairs:
            self.state[p]["master"] = master
        self._seen = {
            id(p): p._version for p, _ in self.pairs
        }  # how often each weight had been written to when it was rounded

    @property
    def masters(self) -> list[Tensor]:
        """All of them, in the order of the groups."""
        return [master for _, master in self.pairs]

    @torch.no_grad()
    def take(self, by: float = 1.0) -> None:
        """Let masters have the gradients of weights, times `by`, in 32 bits: the next step takes what is left there."""
        for p, master in self.pairs:
            master.grad = None if p.grad is None else p.grad.float() * by
        self.taken = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients of weights begin anew."""
        super().zero_grad(set_to_none)
        self.taken = False

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step the masters with the gradients as 32 bits, and round the weights to them."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        scale, found = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        taken, self.taken = self.taken, False
        if found is not None and float(found):
            return loss
        self.follow()
        if not taken:
            self.take(1.0 if scale is None else 1.0 / float(scale))
            self.taken = False
        self.inner.step()
        self.round(self.masters)
        return loss

    @torch.no_grad()
    def follow(self) -> None:
        """Masters of weights that somebody wrote to, where they no longer round to them, are what the weights are; the
        optimizer within has this one's settings."""
        for p, master in self.pairs:
            if p._version != self._seen[id(p)]:
                master.copy_(torch.where(master.to(p.dtype) == p, master, p.float()))
                self._seen[id(p)] = p._version
        _follow(self.inner.param_groups, self.param_groups)

    def heed(self) -> None:
        """This one's settings are those of the optimizer within."""
        _follow(self.param_groups, self.inner.param_groups)

    @torch.no_grad()
    def round(self, masters: Iterable[Tensor]) -> None:
        """Round the weights of these masters to them."""
        chosen = {id(master) for master in masters}
        for p, master in self.pairs:
            if id(master) in chosen:
                p.copy_(master)
                self._seen[id(p)] = p._version

    def state_dict(self) -> dict[str, Any]:
        """Masters, and all that the optimizer within remembers."""
        return {**super().state_dict(), "inner": self.inner.state_dict()}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there, with weights that are the masters rounded."""
        self.inner.load_state_dict(state_dict["inner"])
        masters = [state_dict["state"][number]["master"] for number in range(len(self.pairs))]
        for (_, mine), theirs in zip(self.pairs, masters, strict=True):
            mine.copy_(theirs)
        _follow(self.param_groups, state_dict["param_groups"])
        self.round(self.masters)


def _each(given: Any, made: Callable[[Tensor], Tensor]) -> Any:
    """What becomes of a tensor, or of a group of some, when `made` is asked for each."""
    if not isinstance(given, dict):
        return made(given)
    held = given["params"]
    return {**given, "params": [made(p) for p in ([held] if isinstance(held, Tensor) else held)]}


def _follow(groups: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """The settings of groups are those of others."""
    for mine, theirs in zip(groups, others, strict=True):
        mine.update({name: value for name, value in theirs.items() if name != "params"})
