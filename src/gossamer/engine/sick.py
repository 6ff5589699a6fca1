"""Which gradients hold a NaN or an infinity. Knows no member."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def first_sick(places: Sequence[int], grads: Sequence[Tensor | None]) -> int:
    """The first place whose gradient holds a NaN or an infinity, or -1."""
    held = [(place, grad) for place, grad in zip(places, grads, strict=True) if grad is not None and grad.numel()]
    if not held or bool(torch.isfinite(torch.stack([grad.sum() for _, grad in held])).all()):
        return -1  # a sum is quick, and what is no number spoils it
    return next((place for place, grad in held if not bool(torch.isfinite(grad).all())), -1)
