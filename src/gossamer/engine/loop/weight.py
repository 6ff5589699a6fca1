"""`gossamer.weight`: how much the batch in hand counts, where the number of its samples does not say it (tokens)."""

from __future__ import annotations

import torch

from gossamer.engine.loop.average import mean
from gossamer.engine.loop.gathering import come
from gossamer.engine.loop.session import latest
from gossamer.parts.refusal import Refused, real


def weight(n: float) -> None:
    """The batch just computed counts `n`: the next backward's gradients are weighted by n over the sum of all workers'.

    Every worker calls it, between the forward and the backward. One whose n is 0 changes nothing.
    """
    real("weight", "n", n, 0.0, 1e18)
    session = latest()
    if session is None:
        raise Refused("weight: no prepared model has computed anything", "weight(n) between forward and backward")
    if session.size > 1:
        come()
        everybody = float(mean(session.fabric, torch.tensor([float(n)], dtype=torch.float64))) * session.size
        session.weigh(float(n), everybody)
