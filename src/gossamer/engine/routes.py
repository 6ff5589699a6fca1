"""Performs any schedule over torch.distributed point-to-point calls, in place: routes, and what they are made of.

A process group here holds all processes of the run, in their order.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.parts.route import AllGather, Broadcast, Hop, Operation, Reduce, ReduceScatter, Schedule, span


def run(schedule: Schedule, vector: Tensor, group: dist.ProcessGroup, tag: int) -> tuple[int, int]:
    """Play the schedule's moves on `vector` with all members; returns the bytes this member sent and heard.

    A route leaves the sum over all members. What travels is what is summed: 16-bit numbers are rounded at every hop.
    """
    member, size = dist.get_rank(group), dist.get_world_size(group)
    count, length, sent, heard = schedule.chunks(size), vector.numel(), 0, 0
    inbox = torch.empty_like(vector)

    def part(of: Tensor, hop: Hop | None) -> Tensor:
        return of[:0] if hop is None else of[span(hop.chunks, count, length)]

    for send, receive, add in schedule.moves(member, size):
        leaving, coming = part(vector, send), part(inbox if add else vector, receive)
        works = []
        if send is not None and leaving.numel():
            works.append(dist.isend(leaving, group=group, tag=tag, group_dst=send.member))
            sent += leaving.nbytes
        if receive is not None and coming.numel():
            works.append(dist.irecv(coming, group=group, tag=tag, group_src=receive.member))
            heard += coming.nbytes
        for work in works:
            assert work is not None
            work.wait()
        if add:
            part(vector, receive).add_(coming)
    return sent, heard


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
    operation.fits(dist.get_world_size(group))
    run(operation, vector, group, tag)
    return vector
