"""Norms over all workers: batch norm over everybody's batch, and fresh statistics that are everybody's mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gossamer.engine.loop.gathering import come
from gossamer.recipes import norms
from gossamer.recipes.norms import BATCH_NORMS


@contextmanager
def fresh_statistics(
    model: nn.Module, batches: Iterable[Any], forward: Callable[[nn.Module, Any], object] | None = None
) -> Iterator[None]:
    """Batch norm without moving averages: for an evaluation, statistics of these batches, the mean over all workers.

    Each worker gives batches of its own; what was there before comes back.
    """
    come()
    with norms.fresh_statistics(model, batches, forward, _everybody):
        yield


def _everybody(tensor: Tensor) -> Tensor:
    if not (dist.is_available() and dist.is_initialized()):
        return tensor
    total = tensor.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


class _Sum(torch.autograd.Function):
    """The sum over all workers; so is what flows back."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group, total = group, mine.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        total = slopes[0].contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class SharedBatchNorm(BATCH_NORMS):
    """Batch norm over the batches of all workers together, on any device; `shared_norms` puts it into a model.

    On a GPU torch's own SyncBatchNorm does the same with fewer kernels.
    """

    group: dist.ProcessGroup | None = None  # those that share it; all, unless told

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, not {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if not self.training or not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
            return super().forward(input)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        sides = [1, -1] + [1] * (input.dim() - 2)
        count = wide.new_full((1,), input.numel() / input.shape[1])
        sums: Tensor = _Sum.apply(torch.cat([wide.sum(axes), count]), self.group)  # type: ignore[no-untyped-call]
        total = sums[-1].detach()
        mean = sums[:-1] / total
        centred = wide - mean.view(sides)  # squares of what is far from zero would swallow the variance
        squares: Tensor = _Sum.apply(centred.square().sum(axes), self.group)  # type: ignore[no-untyped-call]
        var = squares / total
        self._remember(mean.detach(), var.detach() * total / (total - 1).clamp_min(1.0))
        found = centred * (var.view(sides) + self.eps).rsqrt()
        if self.affine:
            found = found * self.weight.view(sides) + self.bias.view(sides)
        made: Tensor = found.to(input.dtype)
        return made

    def _remember(self, mean: Tensor, var: Tensor) -> None:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        rate = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        self.running_var.lerp_(var.to(self.running_var.dtype), rate)


def shared_norms(model: nn.Module, group: dist.ProcessGroup | None = None) -> nn.Module:
    """The same model with every batch norm over the batches of all workers; weights and statistics are kept.

    All of them compute in step from then on. They speak in `group`, if there is one.
    """
    if isinstance(model, BATCH_NORMS) and not isinstance(model, SharedBatchNorm):
        made = SharedBatchNorm(model.num_features, model.eps, model.momentum, model.affine, model.track_running_stats)
        like = next(iter((*model.parameters(), *model.buffers())), torch.empty(0))
        made = made.to(like.device, like.dtype)
        made.group = group
        made.load_state_dict(model.state_dict())
        made.training = model.training
        for mine, theirs in zip(made.parameters(), model.parameters(), strict=True):
            mine.requires_grad_(theirs.requires_grad)
        return made
    for name, part in model.named_children():
        setattr(model, name, shared_norms(part, group))
    return model
