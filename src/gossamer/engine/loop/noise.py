"""`gossamer.noise`: what looks at the gradients of a prepared model say of its noise scale."""

from __future__ import annotations

from torch import nn

from gossamer.engine.loop.prepare import session_of
from gossamer.recipes import NoiseScale


def noise(model: nn.Module, optimizer: int = 0) -> NoiseScale:
    """The noise scale so far, the same on every worker; `optimizer`: which of those prepared with the model.

    `gossamer.noise(model).told(256)` says what a batch of 256 costs. Nothing is known where workers do not average
    their gradients as they are: of one worker alone, at hubs, with lossy codecs, where parameters are mixed instead.
    """
    return session_of(model).courses[optimizer].gauge.noise
