"""A task whose building is the experiment: real workers sum vectors along every route, beside torch's own all-reduce.

What each worker found is left in a file of its own, by case: the largest error, and the bytes sent and heard.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from tests.parity import small
from torch import Tensor

from gossamer.engine import routes
from gossamer.parts.route import (
    BinaryBlocks,
    BySize,
    Doubling,
    HalvingDoubling,
    Hierarchical,
    Move,
    Ring,
    Route,
    ShardedHub,
    Torus,
    Tree,
)
from gossamer.tasks.task import Task

ROUTES: tuple[Route, ...] = (
    Ring(),
    Torus(),
    HalvingDoubling(),
    Doubling(),
    BinaryBlocks(),
    Tree(),
    Hierarchical(per_host=2),
    Hierarchical(per_host=2, among=HalvingDoubling()),
    ShardedHub(),
    BySize(small=Tree(), large=BinaryBlocks(), limit=20),
)


@dataclass(frozen=True, repr=False)
class Forgetful(Ring):
    """Copies where it should add: wrong, and found to be."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return (Move(move.send, move.receive) for move in super().moves(member, size))


LENGTHS = (1, 2, 3, 4, 5, 6, 7, 31, 1001)
DTYPES = (torch.float32, torch.float16)


def task(seed: int = 0, folder: str = "") -> Task:
    """Play all cases in this process, then go on as a small task."""
    group, rank = dist.group.WORLD, dist.get_rank()
    assert group is not None
    found = {name: play(name) for name, play in cases(group)}
    (Path(folder) / f"travelled-{rank}.json").write_text(json.dumps(found))
    return small.task(seed)


def cases(group: dist.ProcessGroup) -> Iterator[tuple[str, Callable[[str], list[float]]]]:
    """Every case by its name."""
    for route in (*ROUTES, Forgetful()):
        for length in LENGTHS:
            for dtype in DTYPES:
                name = f"{route!r} {length} {str(dtype).removeprefix('torch.')}"
                yield name, lambda _, route=route, length=length, dtype=dtype: summed(route, length, dtype, group)
    for length in LENGTHS:
        yield f"operations {length}", lambda _, length=length: operated(length, group)


def drawn(length: int, member: int) -> Tensor:
    """The vector of one member."""
    return torch.randn(length, generator=torch.Generator().manual_seed(1000 * length + member))


def summed(route: Route, length: int, dtype: torch.dtype, group: dist.ProcessGroup) -> list[float]:
    """The largest error against torch's own sum, relative to the largest sum of magnitudes; bytes sent and heard."""
    mine = drawn(length, dist.get_rank(group)).to(dtype)
    wanted = mine.to(torch.float32, copy=True)
    scale = wanted.abs()
    dist.all_reduce(wanted, group=group)
    dist.all_reduce(scale, group=group)
    sent, heard = routes.run(route.suited(mine.nbytes), mine, group, 7)
    return [float((mine - wanted).abs().max() / scale.max()), sent, heard]


def operated(length: int, group: dist.ProcessGroup) -> list[float]:
    """The largest errors of reduce-scatter, all-gather, reduce and broadcast, each against torch's own sum."""
    member, size = dist.get_rank(group), dist.get_world_size(group)
    mine, wanted, root = drawn(length, member), drawn(length, member), length % size
    dist.all_reduce(wanted, group=group)
    scattered = mine.clone()
    share = routes.reduce_scatter(scattered, group)
    own = slice(member * length // size, (member + 1) * length // size)
    errors = [worst(share, wanted[own]), worst(routes.all_gather(scattered, group), wanted)]
    reduced = routes.reduce(mine.clone(), group, root)
    errors.append(worst(reduced, wanted) if member == root else 0.0)
    return [*errors, worst(routes.broadcast(reduced, group, root), wanted)]


def worst(found: Tensor, wanted: Tensor) -> float:
    """The largest difference; vectors of no length do not differ."""
    return float((found - wanted).abs().max()) if wanted.numel() else 0.0
