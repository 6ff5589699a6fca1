"""An optimizer like the user's own, over other tensors: what steps at a hub, or on a shard of the parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from gossamer.parts.refusal import Refused
from gossamer.recipes.optimizer import suited
from gossamer.strategy import AnyStrategy

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PATCHED = ("step", "state_dict", "load_state_dict", "zero_grad", "add_param_group")  # may be put on the user's object
ELEMENTWISE = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "ASGD", "Rprop")


class Borrowed:
    """Builds optimizers of the same kind as one that exists; they follow its rates for ever (schedulers work on it)."""

    def __init__(self, optimizer: torch.optim.Optimizer, tensors: Sequence[Tensor]) -> None:
        homes = {id(p): n for n, held in enumerate(optimizer.param_groups) for p in held["params"]}
        self.optimizer = optimizer
        self.homes = [homes[id(tensor)] for tensor in tensors]

    @property
    def elementwise(self) -> bool:
        """Whether a step of one number depends on its own past alone, so that tensors may be cut anywhere."""
        import torch

        kind = type(self.optimizer)
        return kind.__name__ in ELEMENTWISE and kind is getattr(torch.optim, kind.__name__, None)

    @property
    def by_tensor(self) -> bool:
        """Whether a step of one tensor depends on no other: so it is with all of torch's own, and of ours."""
        kind = type(self.optimizer)
        return kind.__module__.startswith("torch.optim.") or bool(getattr(kind, "by_tensor", False))

    def suits(self, strategy: AnyStrategy) -> None:
        """Refuse a strategy that this optimizer would spoil."""
        held = self.optimizer.param_groups
        momentum = max(float(each.get("momentum") or 0.0) for each in held)
        decay = max(float(each.get("weight_decay") or 0.0) for each in held)
        suited(strategy, type(self.optimizer).__name__.lower(), momentum, decay)

    def build(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """One over as many tensors as there are, each in the place of one of the user's."""
        return self.over(list(zip(self.homes, parameters, strict=True)))

    def over_places(self, placed: Sequence[tuple[int, Tensor]]) -> torch.optim.Optimizer:
        """One over tensors, or pieces of them, each given with its tensor's place."""
        return self.over([(self.homes[place], tensor) for place, tensor in placed])

    def settings(self) -> bytes:
        """The user's param groups as they are now, less their tensors: numbers, words, and tuples of them."""
        return msgspec.json.encode([_plain(_rates(held)) for held in self.optimizer.param_groups])

    def set(self, told: bytes) -> None:
        """Let the optimizer, and so all that follow it, have such settings."""
        for held, said in zip(self.optimizer.param_groups, msgspec.json.decode(told), strict=True):
            held.update({name: _like(held.get(name), value) for name, value in said.items()})

    def over(self, placed: Sequence[tuple[int, Tensor]]) -> torch.optim.Optimizer:
        """One over tensors that are given with the number of the user's param group they belong to."""
        made = copy(self.optimizer)
        for name, value in vars(
            self.optimizer
        ).items():  # an optimizer of the user's own may keep more than torch copies
            if name not in PATCHED:
                vars(made).setdefault(name, value)
        made.state = defaultdict(dict)
        used = sorted({home for home, _ in placed})
        made.param_groups = [
            {**_rates(self.optimizer.param_groups[home]), "params": [t for h, t in placed if h == home]}
            for home in used
        ]

        def follow(*_: Any) -> None:
            for mine, home in zip(made.param_groups, used, strict=True):
                mine.update(_rates(self.optimizer.param_groups[home]))

        made.register_step_pre_hook(follow)
        return made


def refuse_odd(optimizer: torch.optim.Optimizer) -> None:
    """Refuse optimizers whose step needs a closure, or gradients that are not dense."""
    if type(optimizer).__name__ in ("LBFGS", "SparseAdam"):
        raise Refused(f"prepare: {type(optimizer).__name__} needs a closure or sparse gradients", "another optimizer")


def _rates(held: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if name != "params"}


def _plain(rates: dict[str, Any]) -> dict[str, Any]:
    """What can be told in words; a rate may lie in a tensor."""
    told = {name: value.item() if hasattr(value, "item") else value for name, value in rates.items()}
    return {name: value for name, value in told.items() if _told(value)}


def _told(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_told, value))
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value))


def _like(before: Any, value: Any) -> Any:
    """A value of the kind that was there."""
    if isinstance(before, tuple):
        return tuple(value)
    return before.fill_(value) if hasattr(before, "fill_") else value
