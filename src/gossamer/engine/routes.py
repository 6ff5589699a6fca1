"""Performs any route's schedule over torch.distributed point-to-point calls, in place."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.parts.route import Route, span


def run(route: Route, vector: Tensor, group: dist.ProcessGroup, tag: int) -> tuple[int, int]:
    """Sum `vector` over all members along the route's moves; returns the bytes this member sent and heard.

    What travels is what is summed: 16-bit numbers are rounded at every hop.
    """
    member, size = dist.get_rank(group), dist.get_world_size(group)
    count, length, sent, heard = route.chunks(size), vector.numel(), 0, 0
    inbox = torch.empty_like(vector)
    for move in route.moves(member, size):
        leaving = vector[span(move.send, count, length)]
        into = span(move.receive, count, length)
        coming = inbox[into] if move.add else vector[into]
        works = []
        if leaving.numel():
            works.append(dist.isend(leaving, move.to, group, tag))
            sent += leaving.nbytes
        if coming.numel():
            works.append(dist.irecv(coming, move.source, group, tag))
            heard += coming.nbytes
        for work in works:
            assert work is not None
            work.wait()
        if move.add:
            vector[into].add_(coming)
    return sent, heard
