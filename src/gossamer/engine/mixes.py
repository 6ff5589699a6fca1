"""Mixes the backend has no single call for: bytes of any length gathered, 16-bit numbers added up in 32 bits.

They block; who calls them decides in which thread. They know no slot and no strategy.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.executor import Executor
from gossamer.parts.route import span


def gathered(body: Tensor, by: Executor, tag: int) -> list[Tensor]:
    """Every member's body in member order; lengths may differ. Bytes travel, so any type of number may.

    Bodies of one length are gathered at once, others are sent one by one: none is filled up.
    """
    member, mine = by.member, body.contiguous().view(torch.uint8)
    length = torch.tensor([mine.numel()], device=body.device)
    lengths = [torch.zeros_like(length) for _ in range(by.size)]
    dist.all_gather(lengths, length, by.group)
    heard = [mine if m == member else mine.new_empty(int(each)) for m, each in enumerate(lengths)]
    others = [m for m in range(by.size) if m != member]
    if len({part.numel() for part in heard}) > 1:
        by.swap(dict.fromkeys(others, mine), {m: heard[m] for m in others}, tag)
    elif mine.numel():
        heard = [torch.empty_like(mine) for _ in lengths]
        dist.all_gather(heard, mine, by.group)
    return [part.view(body.dtype) for part in heard]


def mean_of_short(body: Tensor, mean: Tensor, by: Executor, tag: int) -> Tensor:
    """The mean of all members' 16-bit bodies, rounded once however many members there are; laid into `mean`, wider.

    Each member hears everybody's numbers of its own chunk, adds them up in 32 bits, and tells everybody the rounded
    mean: all in all as many bytes as a ring, 2(n-1)/n of the body. What it takes beside is kept.
    """
    body, size, chunks = body.contiguous(), by.size, [span((c, c + 1), by.size, body.numel()) for c in range(by.size)]
    mine, others = chunks[by.member], [other for other in range(size) if other != by.member]
    own = mean[mine]
    rows = list(by.place("rows", body.dtype, body.device, size * own.numel()).view(size, own.numel()))
    rows[by.member] = body[mine]
    by.swap({other: body[chunks[other]] for other in others}, {other: rows[other] for other in others}, tag)
    wide = by.place("widened", mean.dtype, mean.device, own.numel())
    own.zero_()
    for row in rows:  # in member order, widened first: adding two types makes a new vector each time
        own.add_(wide.copy_(row), alpha=1.0 / size)
    told = by.place("outbox", body.dtype, body.device, body.numel())
    told[mine].copy_(own)
    by.swap(dict.fromkeys(others, told[mine]), {other: told[chunks[other]] for other in others}, tag)
    return mean.copy_(told)
