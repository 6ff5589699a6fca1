"""The states of the random number generators a training loop draws from. Knows no file."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def rng_state() -> dict[str, Any]:
    """A tree of what torch (CPU and every CUDA device), numpy's global and Python's `random` draw from next."""
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": np.random.get_state(legacy=True),
        "python": random.getstate(),
    }


def set_rng_state(tree: dict[str, Any]) -> None:
    """Draw on from where `rng_state` was taken; devices that are not here are passed over."""
    torch.set_rng_state(tree["torch"])
    for device, state in enumerate(tree["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    np.random.set_state(tree["numpy"])
    random.setstate(tree["python"])
