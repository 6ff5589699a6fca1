"""Mixes the backend has no single call for: bytes of any length gathered, 16-bit numbers added up in 32 bits.

They block; who calls them decides in which thread. They know no slot and no strategy.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.parts.codec import Mean
from gossamer.parts.route import span
from gossamer.replica import combine


def gathered(body: Tensor, group: dist.ProcessGroup, tag: int) -> list[Tensor]:
    """Every member's body in member order; lengths may differ. Bytes travel, so any type of number may.

    Bodies of one length are gathered at once, others are sent one by one: none is filled up.
    """
    member, mine = dist.get_rank(group), body.contiguous().view(torch.uint8)
    length = torch.tensor([mine.numel()], device=body.device)
    lengths = [torch.zeros_like(length) for _ in range(dist.get_world_size(group))]
    dist.all_gather(lengths, length, group)
    heard = [mine if m == member else mine.new_empty(int(each)) for m, each in enumerate(lengths)]
    others = [m for m in range(len(lengths)) if m != member]
    if len({part.numel() for part in heard}) > 1:
        _swap(dict.fromkeys(others, mine), {m: heard[m] for m in others}, group, tag)
    elif mine.numel():
        heard = [torch.empty_like(mine) for _ in lengths]
        dist.all_gather(heard, mine, group)
    return [part.view(body.dtype) for part in heard]


def mean_of_short(body: Tensor, group: dist.ProcessGroup, tag: int) -> Tensor:
    """The mean of all members' 16-bit bodies, rounded once however many members there are.

    Each member hears everybody's numbers of its own chunk, adds them up in 32 bits, and tells everybody the rounded
    mean: all in all as many bytes as a ring, 2(n-1)/n of the body.
    """
    member, size = dist.get_rank(group), dist.get_world_size(group)
    body, chunks = body.contiguous(), [span((c, c + 1), size, body.numel()) for c in range(size)]
    others = [other for other in range(size) if other != member]
    inbox = body[chunks[member]].expand(size, -1).contiguous()
    _swap({other: body[chunks[other]] for other in others}, {other: inbox[other] for other in others}, group, tag)
    mean = torch.empty_like(body)
    mean[chunks[member]] = combine([(1.0 / size, Mean(theirs)) for theirs in inbox]).one().to(body.dtype)
    _swap(dict.fromkeys(others, mean[chunks[member]]), {other: mean[chunks[other]] for other in others}, group, tag)
    return mean


def _swap(leaving: Mapping[int, Tensor], coming: Mapping[int, Tensor], group: dist.ProcessGroup, tag: int) -> None:
    """Send to some and hear from some, all at once; nothing of no length travels."""
    works = [dist.isend(part, group=group, tag=tag, group_dst=to) for to, part in leaving.items() if part.numel()]
    works += [
        dist.irecv(part, group=group, tag=tag, group_src=source) for source, part in coming.items() if part.numel()
    ]
    for work in works:
        assert work is not None
        work.wait()
