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


def parts_called(model: nn.Module, kind: str) -> list[nn.Module]:
    """A model's parts of a class by its name, as BasicBlock; refused where there is none with a norm that has gamma."""
    found = _called(model, kind)
    if not found:
        holders = [part for part in model.modules() if any(isinstance(own, NORMS) for own in part.children())]
        names = dict.fromkeys(type(part).__name__ for part in holders if type(part) is not nn.Sequential)
        raise Refused(f"zero-gamma: the model has no part {kind!r} with a norm in it", ", ".join(names) or None)
    return found


def has_parts(model: nn.Module, kind: str) -> bool:
    """Whether a model has parts of a class by that name with a norm that has gamma."""
    return bool(_called(model, kind))


def _called(model: nn.Module, kind: str) -> list[nn.Module]:
    return [part for part in model.modules() if type(part).__name__ == kind and _gammas(part)]


def zero_last_gamma(blocks: Iterable[nn.Module]) -> int:
    """Let the last norm of each residual block begin with gamma 0, so that the block begins as the identity.

    `blocks` are the residual blocks, as `[m for m in model.modules() if isinstance(m, BasicBlock)]`; how many had one.
    A norm inside a part of the block (a shortcut) counts only where the block has none of its own.
    """
    found = 0
    for block in blocks:
        if norms := _gammas(block):
            nn.init.zeros_(norms[-1])
            found += 1
    return found


def _gammas(block: nn.Module) -> list[nn.Parameter]:
    """Of the norms that a block holds itself, or else of all inside it."""
    own, inside = (
        [part.weight for part in parts if isinstance(part, NORMS) and part.weight is not None]
        for parts in (block.children(), block.modules())
    )
    return own or inside


def keeping(model: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """The batch norms of a model that keep statistics."""
    return [part for part in model.modules() if isinstance(part, BATCH_NORMS) and part.track_running_stats]


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
    norms = keeping(model)
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
        _pool(norms, average or (lambda tensor: tensor))
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


@torch.no_grad()
def _pool(norms: list[nn.modules.batchnorm._BatchNorm], mean: Callable[[Tensor], Tensor]) -> None:
    """Means and variances of all workers' samples as one batch, in two averages for all norms together."""
    means, spreads = ([getattr(norm, name) for norm in norms] for name in ("running_mean", "running_var"))
    mine = torch.cat([each.double() for each in means])
    centre = mean(mine)
    spread = mean(torch.cat([each.double() for each in spreads]) + (mine - centre).square())
    sizes = [len(each) for each in means]
    for kept, pooled in ((means, centre), (spreads, spread)):
        torch._foreach_copy_(kept, pooled.split_with_sizes(sizes))
