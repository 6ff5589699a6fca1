"""All-reduces along any route, and what they are made of, each once on a tensor and a process group."""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor

from gossamer.engine.executor import Executor
from gossamer.parts.route import AllGather, Broadcast, Operation, Reduce, ReduceScatter, Schedule, span


def run(schedule: Schedule, vector: Tensor, group: dist.ProcessGroup, tag: int) -> tuple[int, int]:
    """Play a schedule once; see `Executor.run`."""
    return Executor(group).run(schedule, vector, tag)


def reduce_scatter(vector: Tensor, group: dist.ProcessGroup, tag: int = 0) -> Tensor:
    """The sum over all members of this member's chunk of `vector`, in place; the other chunks are spoilt."""
    _operate(ReduceScatter(), vector, group, tag)
    member, size = dist.get_rank(group), dist.get_world_size(group)
    return vector[span((member, member + 1), size, vector.numel())]


def all_gather(vector: Tensor, group: dist.ProcessGroup, tag: int = 0) -> Tensor:
    """Every member's own chunk of `vector`, each in its place, in place."""
    return _operate(AllGather(), vector, group, tag)


def reduce(vector: Tensor, group: dist.ProcessGroup, root: int = 0, tag: int = 0) -> Tensor:
    """The sum over all members, in place at the root; elsewhere `vector` is spoilt."""
    return _operate(Reduce(root), vector, group, tag)


def broadcast(vector: Tensor, group: dist.ProcessGroup, root: int = 0, tag: int = 0) -> Tensor:
    """The root's vector, in place everywhere."""
    return _operate(Broadcast(root), vector, group, tag)


def _operate(operation: Operation, vector: Tensor, group: dist.ProcessGroup, tag: int) -> Tensor:
    run(operation, vector, group, tag)
    return vector
