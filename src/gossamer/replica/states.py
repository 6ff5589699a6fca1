"""What an optimizer remembers of tensors, taken out and put back. Knows no member, and which tensors is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

States = list[dict[str, Any]]  # one entry for each tensor, empty where it was never stepped


def taken(optimizer: torch.optim.Optimizer, tensors: Sequence[Tensor]) -> States:
    """What it remembers of each tensor: the very tensors, not copies."""
    return [dict(optimizer.state.get(tensor, {})) for tensor in tensors]


@torch.no_grad()
def put(optimizer: torch.optim.Optimizer, tensors: Sequence[Tensor], states: States) -> None:
    """Let it remember this, to the bit; `load_state_dict` would cast to the dtype of the tensors."""
    for tensor, state in zip(tensors, states, strict=True):
        optimizer.state.pop(tensor, None)
        if state:
            optimizer.state[tensor] = {name: _placed(optimizer, tensor, name, value) for name, value in state.items()}


def rates(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Its settings, without the tensors they are for."""
    return [{name: value for name, value in held.items() if name != "params"} for held in optimizer.param_groups]


def set_rates(optimizer: torch.optim.Optimizer, told: Sequence[dict[str, Any]]) -> None:
    """Let it have these settings."""
    for held, said in zip(optimizer.param_groups, told, strict=True):
        held.update(said)


def _placed(optimizer: torch.optim.Optimizer, tensor: Tensor, name: str, value: Any) -> Any:
    """A value where its tensor is; a count of steps stays on the CPU unless the optimizer wants it elsewhere."""
    if not isinstance(value, Tensor):
        return value
    held = next(each for each in optimizer.param_groups if any(p is tensor for p in each["params"]))
    here = name == "step" and not (held.get("capturable") or held.get("fused"))
    return value.clone(memory_format=torch.preserve_format).to("cpu" if here else tensor.device)
