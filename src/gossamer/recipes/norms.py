"""What large batches need of biases and norms: no decay, a last gamma that begins at 0, statistics of all workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.parts.refusal import Refused, real

NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
BATCH_NORMS = nn.modules.batchnorm._BatchNorm


def decayed(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Two groups for any optimizer: weights with decay; biases, and whatever belongs to a norm, without."""
    real("decayed", "decay", decay, 0.0, 1.0)
    spared = {id(p) for part in model.modules() if isinstance(part, NORMS) for p in part.parameters(recurse=False)}
    trained = [p for p in model.parameters() if p.requires_grad]
    bare = [p for p in trained if p.dim() <= 1 or id(p) in spared]
    rest = [p for p in trained if p.dim() > 1 and id(p) not in spared]
    groups = [{"params": rest, "weight_decay": decay}, {"params": bare, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def zero_last_gamma(blocks: Iterable[nn.Module]) -> int:
    """Let the last norm of each residual block begin with gamma 0, so that the block begins as the identity.

    `blocks` are the residual blocks, as `[m for m in model.modules() if isinstance(m, BasicBlock)]`; how many had one.
    """
    found = 0
    for block in blocks:
        norms = [part for part in block.modules() if isinstance(part, NORMS) and part.weight is not None]
        if norms:
            nn.init.zeros_(norms[-1].weight)
            found += 1
    return found


@contextmanager
def fresh_statistics(
    model: nn.Module,
    batches: Iterable[Any],
    forward: Callable[[nn.Module, Any], object] | None = None,
    average: Callable[[Tensor], Tensor] | None = None,
) -> Iterator[None]:
    """Batch norm without moving averages: for an evaluation, statistics of these batches, the mean over all workers.

    Each worker gives batches of its own. `average` is the mean of a tensor over workers; unless told there is one of
    them (`gossamer.fresh_statistics` knows the others). What was there before comes back.
    """
    norms = [part for part in model.modules() if isinstance(part, BATCH_NORMS) and part.track_running_stats]
    if not norms:
        raise Refused("fresh_statistics: the model has no batch norm that keeps statistics", "evaluate it as it is")
    before = [(norm, norm.momentum, [each.clone() for each in norm.buffers()]) for norm in norms]
    modes = [(part, part.training) for part in model.modules()]
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over the batches
        model.train()
        seen = 0
        with torch.no_grad():
            for batch in batches:
                forward(model, batch) if forward is not None else model(batch)
                seen += 1
        if not seen:
            raise Refused("fresh_statistics: there is no batch to take them from")
        mean = average or (lambda tensor: tensor)
        for norm in norms:
            assert norm.running_mean is not None and norm.running_var is not None
            centre = mean(norm.running_mean.clone())
            apart = (norm.running_mean - centre).square()
            norm.running_var.copy_(mean(norm.running_var + apart))  # of all samples as one batch
            norm.running_mean.copy_(centre)
        for part, was in modes:
            part.training = was
        yield
    finally:
        for part, was in modes:
            part.training = was
        for norm, momentum, kept in before:
            norm.momentum = momentum
            for buffer, was_there in zip(norm.buffers(), kept, strict=True):
                buffer.copy_(was_there)
