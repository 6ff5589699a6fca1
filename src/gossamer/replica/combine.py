"""What is heard of several wires: the meaning of Mean, Max and Each, in one place for every player."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gossamer.parts.codec import Each, Heard, Max, Mean, Wire


def combine(wires: Sequence[tuple[float, Wire]]) -> Heard:
    """What a receiver hears of weighted wires, given in sender order."""
    first = wires[0][1]
    match first:
        case Mean():
            return Heard(whole=_sum([(weight, wire.body) for weight, wire in wires]))
        case Max():
            return Heard(whole=torch.stack([wire.body for _, wire in wires]).amax(0))
        case Each():
            return Heard(apart=tuple((weight, wire.body) for weight, wire in wires))


def _sum(parts: list[tuple[float, Tensor]]) -> Tensor:
    """The weighted sum; 16-bit bodies are added up in 32 bits."""
    body = parts[0][1]
    wide = torch.promote_types(body.dtype, torch.float32)
    total = body.to(wide) * parts[0][0]
    for weight, part in parts[1:]:
        total.add_(part, alpha=weight)
    return total
