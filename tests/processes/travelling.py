"""What cases of routes on real processes share: the routes, numbers to sum, and one sum beside torch's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.executor import Executor
from gossamer.engine.trip import Grouped, Trip
from gossamer.parts.route import (
    BinaryBlocks,
    BySize,
    Direct,
    Doubling,
    HalvingDoubling,
    Hierarchical,
    Move,
    Ring,
    Route,
    ShardedHub,
    Torus,
    Tree,
    counted,
)

ROUTES: tuple[Route, ...] = (
    Ring(),
    Torus(),
    Torus(x=2),
    HalvingDoubling(),
    Doubling(),
    BinaryBlocks(),
    Tree(),
    Hierarchical(per_host=2),
    Hierarchical(per_host=3, among=HalvingDoubling()),
    ShardedHub(),
    Direct(),
    Hierarchical(per_host=2, among=Direct()),
    BySize(small=Doubling(), large=BinaryBlocks(), limit=400),
)
WITHIN = {torch.float32: 1e-6, torch.float64: 1e-14, torch.float16: 1e-3, torch.bfloat16: 8e-3}  # three bits less


@dataclass(frozen=True, repr=False)
class Forgetful(Ring):
    """Copies where it should add: wrong, and found to be."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return (Move(move.send, move.receive) for move in super().moves(member, size))


@dataclass(frozen=True, repr=False)
class Overstated(Ring):
    """Announces a number more than it sends."""

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        sent, heard = super().tally(member, size, length)
        return sent + 1, heard


class AtOnce(Executor):
    """Asks for a round's messages at once, as NCCL needs it."""

    def _trip(self, *given: Any) -> Trip:
        return Grouped(self, *given)


def first(size: int) -> dist.ProcessGroup | None:
    """A process group of the first members; the others get none, and have nothing to do."""
    made = dist.new_group(list(range(size)))
    return made if dist.get_rank() < size else None


def drawn(length: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """This member's numbers."""
    seed = torch.Generator().manual_seed(1000 * length + dist.get_rank())
    return torch.randn(length, generator=seed, dtype=torch.float64 if dtype is torch.float64 else None).to(dtype)


class Sum:
    """Torch's own sum of what members drew, in at least 32 bits, and how far along a route came from it."""

    def __init__(self, length: int, dtype: torch.dtype, group: dist.ProcessGroup) -> None:
        self.mine, self.group, self.size = drawn(length, dtype), group, dist.get_world_size(group)
        self.wanted = self.mine.to(torch.promote_types(dtype, torch.float32), copy=True)
        scale = self.wanted.abs()
        dist.all_reduce(self.wanted, group=group)
        dist.all_reduce(scale, group=group)
        self.scale = scale.max()

    def error(self, found: Tensor) -> float:
        """The largest error, relative to the largest sum of magnitudes."""
        return float((found - self.wanted).abs().max() / self.scale)

    def check(self, by: Executor, route: Route) -> None:
        """The sum is torch's, the same on all members to the bit, and its bytes were known beforehand."""
        found, what = self.mine.clone(), f"{route!r} {self.mine.numel()} {self.mine.dtype} {self.size} members"
        chosen = route.suited(found.nbytes)
        moved = by.run(chosen, found, 7)
        assert self.error(found) < WITHIN[found.dtype], f"{what}: {self.error(found)}"
        theirs = found.clone()
        dist.broadcast(theirs, 0, self.group)
        assert torch.equal(found, theirs), f"{what}: member {by.member} ends with other bits than member 0"
        counts = counted(chosen, by.member, by.size, found.numel())
        assert moved == tuple(count * found.element_size() for count in counts), what
