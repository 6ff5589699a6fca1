"""Mixes the backend has no single call for: bytes of any length gathered, 16-bit numbers added up in 32 bits.

They block; who calls them decides in which thread. They know no slot and no strategy.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.executor import Executor
from gossamer.parts.route import span

PIECE, MOST = 1 << 18, 8  # bytes that are worth a message of their own; pieces of a chunk


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
    mean: all in all as many bytes as a ring, 2(n-1)/n of the body. All is said in pieces, so that what is added up
    travels on while more comes in. What it takes beside is kept.
    """
    body, size = body.contiguous(), by.size
    chunks = [
        _pieces(span((c, c + 1), size, body.numel()), body.numel() // size * body.element_size()) for c in range(size)
    ]
    others, count = [other for other in range(size) if other != by.member], len(chunks[by.member])
    mine = chunks[by.member]
    rows = by.place("rows", body.dtype, body.device, size * (mine[-1].stop - mine[0].start)).view(size, -1)
    told = by.place("outbox", body.dtype, body.device, body.numel())
    start = mine[0].start

    def heard(member: int, piece: slice) -> Tensor:
        return body[piece] if member == by.member else rows[member, piece.start - start : piece.stop - start]

    coming = [
        by.begin({o: body[chunks[o][n]] for o in others}, {o: heard(o, mine[n]) for o in others}, tag)
        for n in range(count)
    ]
    going = []
    for n, arrived in enumerate(coming):
        arrived()
        own = mean[mine[n]].zero_()
        wide = by.place("widened", mean.dtype, mean.device, own.numel())
        for member in range(size):  # in member order, widened first: adding two types makes a new vector each time
            own.add_(wide.copy_(heard(member, mine[n])), alpha=1.0 / size)
        told[mine[n]].copy_(own)
        going.append(by.begin(dict.fromkeys(others, told[mine[n]]), {o: told[chunks[o][n]] for o in others}, tag))
    for arrived in going:
        arrived()
    return mean.copy_(told)


def _pieces(chunk: slice, nbytes: int) -> list[slice]:
    """A chunk in a few pieces of about the same length, as many on all members, whose chunks are of about `nbytes`."""
    count = max(1, min(MOST, nbytes // PIECE))
    edges = [chunk.start + n * (chunk.stop - chunk.start) // count for n in range(count + 1)]
    return [slice(*pair) for pair in pairwise(edges)]
