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

    Each worker gives batches of its own. `average` is the mean of a tensor over workers: unless told, that of
    torch.distributed if there is a process group, else the tensor itself. What was there before comes back.
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
        mean = average or _everybody
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


def _everybody(tensor: Tensor) -> Tensor:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return tensor
    total = tensor.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


class _Sum(torch.autograd.Function):
    """The sum over all workers; so is what flows back."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor) -> Tensor:
        import torch.distributed as dist

        total = mine.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        import torch.distributed as dist

        total = slopes[0].contiguous().clone()
        dist.all_reduce(total)
        return total


class SharedBatchNorm(BATCH_NORMS):
    """Batch norm over the batches of all workers together, on any device; `shared_norms` puts it into a model.

    On a GPU torch's own SyncBatchNorm does the same with fewer kernels.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2 dimensions, not {input.dim()}")

    def forward(self, input: Tensor) -> Tensor:
        import torch.distributed as dist

        self._check_input_dim(input)
        if not self.training or not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
            return super().forward(input)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        sides = [1, -1] + [1] * (input.dim() - 2)
        count = wide.new_full((1,), input.numel() / input.shape[1])
        sums: Tensor = _Sum.apply(torch.cat([wide.sum(axes), count]))  # type: ignore[no-untyped-call]
        total = sums[-1].detach()
        mean = sums[:-1] / total
        centred = wide - mean.view(sides)  # squares of what is far from zero would swallow the variance
        squares: Tensor = _Sum.apply(centred.square().sum(axes))  # type: ignore[no-untyped-call]
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


def shared_norms(model: nn.Module) -> nn.Module:
    """The same model with every batch norm over the batches of all workers; weights and statistics are kept."""
    if isinstance(model, BATCH_NORMS) and not isinstance(model, SharedBatchNorm):
        made = SharedBatchNorm(model.num_features, model.eps, model.momentum, model.affine, model.track_running_stats)
        like = next(iter((*model.parameters(), *model.buffers())), torch.empty(0))
        made = made.to(like.device, like.dtype)
        made.load_state_dict(model.state_dict())
        made.training = model.training
        for mine, theirs in zip(made.parameters(), model.parameters(), strict=True):
            mine.requires_grad_(theirs.requires_grad)
        return made
    for name, part in model.named_children():
        setattr(model, name, shared_norms(part))
    return model
