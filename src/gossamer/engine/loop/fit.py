"""Whether models and optimizers belong together, as they are given to `prepare`: what would drift is refused by name.

Opens nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import torch
from torch import Tensor, nn

from gossamer.engine.loop.due import minds_scale
from gossamer.parts.refusal import Refused
from gossamer.recipes.master import Master
from gossamer.recipes.precision import Scaler
from gossamer.strategy import AnyStrategy, slots

MOST = 4  # names told; the rest are counted
WRAPPERS = {  # what would exchange gradients a second time, and how it comes off
    "DistributedDataParallel": "prepare(model.module, ...)",
    "DataParallel": "prepare(model.module, ...)",
    "FullyShardedDataParallel": "prepare(model, ...) of the model that was wrapped, made anew",
}


SCALERS = (torch.amp.GradScaler, Scaler)


def belong(models: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Refuse an optimizer of other models, and a parameter that trains while no optimizer here steps it.

    A tensor of the user's own that is no `nn.Parameter` is no model's, and may have an optimizer to itself.
    """
    if not models or not optimizers:
        return
    owned = {id(tensor) for model in models for tensor in model.parameters()}
    for number, optimizer in enumerate(optimizers):
        held = _held(optimizer)
        if owned.isdisjoint(map(id, held)) and any(isinstance(tensor, nn.Parameter) for tensor in held):
            which = f"optimizer {number} ({type(optimizer).__name__})" if len(optimizers) > 1 else "the optimizer"
            raise Refused(
                f"prepare: {which} holds no parameter of the model{'s' * (len(models) > 1)}",
                "prepare the model it steps, too; a lone parameter in nn.ParameterList([...])",
            )
    stepped = {id(tensor) for optimizer in optimizers for tensor in _held(optimizer)}
    left = [name for name, tensor in _named(models) if tensor.requires_grad and id(tensor) not in stepped]
    if left:
        told = ", ".join(left[:MOST]) + ", ..." * (len(left) > MOST)
        raise Refused(
            f"prepare: parameters {told} ({len(left)} in all) train, but no optimizer given to prepare steps them",
            "give prepare every optimizer, or requires_grad_(False)",
        )


def bare(model: nn.Module) -> None:
    """Refuse a model that something else already trains on many workers, whole or in part."""
    for inner in model.modules():
        for kind in type(inner).__mro__:
            if kind.__name__ in WRAPPERS and kind.__module__.startswith("torch."):
                raise Refused(f"prepare: take {kind.__name__} off: prepare replaces it", WRAPPERS[kind.__name__])


def scaling(
    things: Sequence[object], optimizers: Sequence[torch.optim.Optimizer], strategy: AnyStrategy
) -> torch.amp.GradScaler | None:
    """The scaler among what was given, whose scale is off while codecs see gradients; none where there is none.

    Refuse several, and gradients that are too short to take a scale off.
    """
    given = [thing.torchs if isinstance(thing, Scaler) else thing for thing in things if isinstance(thing, SCALERS)]
    if not given:
        return None
    if len(given) > 1:
        raise Refused(f"prepare: {len(given)} scalers were given, and a backward has one scale", "one of them")
    short = [o for o in optimizers if not isinstance(o, Master) and any(t.dtype is torch.float16 for t in _held(o))]
    minding = [exchange for exchange in slots(strategy) if minds_scale(exchange)]
    if short and minding:
        raise Refused(
            f"prepare: {minding[0].codec!r} must not see the scale, and 16-bit gradients are too short to take it off",
            "32-bit weights and autocast, or gossamer.recipes.Master",
        )
    return given[0]


def known(mistaken: Sequence[str], keywords: Sequence[str]) -> None:
    """Refuse a keyword that `prepare` does not have."""
    for name in mistaken:
        near = get_close_matches(name, keywords, 1)
        raise Refused(f"prepare: there is no keyword {name!r}", f"{near[0]}=..." if near else ", ".join(keywords))


def _held(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [tensor for each in optimizer.param_groups for tensor in each["params"]]


def _named(models: Sequence[nn.Module]) -> list[tuple[str, Tensor]]:
    """Every parameter by the name its model has for it, after the model's number where there are several."""
    several = len(models) > 1
    return [(f"{m}.{name}" if several else name, p) for m, model in enumerate(models)
            for name, p in model.named_parameters()]  # fmt: skip
