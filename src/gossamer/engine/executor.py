"""Performs any schedule among the members of a process group, in memory that is kept. Knows no order of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from gossamer.engine.blame import Blame
from gossamer.engine.lost import MemberLost
from gossamer.engine.trip import Grouped, Trip
from gossamer.parts.route import Schedule


class Executor:
    """Performs schedules among the members of a process group, numbered as the group numbers them.

    What it needs beside the vector is kept: after the first time, a vector that is no longer takes no new memory.
    Messages of a pair are told apart by their order alone, so one thread at a time uses an executor and its group.
    A peer that is silent for `patience` seconds (unless told, as long as the group waits) is lost; with a `store` that
    all members share, each names the one that is gone, not the one that only misses it.
    """

    def __init__(self, group: dist.ProcessGroup, patience: float | None = None, store: Store | None = None) -> None:
        self.group, self.ranks = group, dist.get_process_group_ranks(group)
        self.member, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.patience = None if patience is None else timedelta(seconds=patience)
        self._blame = None if store is None else Blame(store, group.group_name, dist.get_rank())
        self._kept: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def run(self, schedule: Schedule, vector: Tensor, tag: int = 0, wire: torch.dtype | None = None) -> tuple[int, int]:
        """Play the schedule's moves on `vector` with all members; returns the bytes this member sent and heard.

        A route leaves the sum over all members, the same on all to the bit. Numbers travel as `wire`, the vector's own
        type unless told, and are rounded once a hop; 16-bit vectors are added up in 32 bits here.
        """
        schedule.fits(self.size)
        wire = vector.dtype if wire is None else wire
        if not vector.is_floating_point() or vector.element_size() >= 4:
            return self._trip(schedule, vector, tag, wire).play()
        wide = self.place("sums", torch.float32, vector.device, vector.numel())
        moved = self._trip(schedule, wide.copy_(vector), tag, wire).play()
        vector.copy_(wide)
        return moved

    def swap(self, leaving: Mapping[int, Tensor], coming: Mapping[int, Tensor], tag: int) -> None:
        """Send to some members and hear from some, all at once; nothing of no length travels."""
        self.begin(leaving, coming, tag)()

    def begin(self, leaving: Mapping[int, Tensor], coming: Mapping[int, Tensor], tag: int) -> Callable[[], None]:
        """Begin to; who calls what comes back waits for it. What is begun first arrives first."""
        sends = [(dist.isend, part, to) for to, part in leaving.items() if part.numel()]
        hears = [(dist.irecv, part, source) for source, part in coming.items() if part.numel()]
        calls = [dist.P2POp(what, part, self.ranks[m], self.group, tag) for what, part, m in (*hears, *sends)]
        works = dist.batch_isend_irecv(calls) if calls else []

        def wait() -> None:
            for work, call in zip(works, calls, strict=False):  # where they are grouped, one work stands for all
                self.wait(work, call.peer)

        return wait

    def place(self, name: str, dtype: torch.dtype, device: torch.device, length: int) -> Tensor:
        """Memory of this name for so many numbers; it lies where it did the last time."""
        key = (name, dtype, device)
        if key not in self._kept or self._kept[key].numel() < length:
            self._kept[key] = torch.empty(length, dtype=dtype, device=device)
        return self._kept[key][:length]

    def wait(self, work: dist.Work, rank: int) -> None:
        """Wait for a message; whoever does not send or take it is named."""
        try:
            work.wait() if self.patience is None else work.wait(self.patience)
        except RuntimeError as error:
            gone, why = rank if self._blame is None else self._blame.behind(rank), str(error).splitlines()[0]
            raise MemberLost(f"member {gone} ended or fell silent in the middle of a mix: {why}", [gone]) from error

    def _trip(self, schedule: Schedule, vector: Tensor, tag: int, wire: torch.dtype) -> Trip:
        """NCCL runs messages one after the other, in the order they were asked for, unless they are asked for at once:
        two members that both send first would wait for each other."""
        backend: str = self.group._get_backend(vector.device).name()
        return (Grouped if backend == "nccl" else Trip)(self, schedule, vector, tag, wire)
