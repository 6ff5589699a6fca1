"""The torch fabric: collectives and neighbour exchanges over torch.distributed. Knows no strategy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import _get_default_store

from gossamer.engine import mixes
from gossamer.engine.broken import Broken
from gossamer.engine.carrier import Carrier
from gossamer.engine.executor import Executor
from gossamer.engine.fabrics.fabric import Board, Key, Pending, Rows
from gossamer.parts.codec import Each, Heard, Max, Mean, Wire
from gossamer.parts.route import Native, Route, counted, leaving
from gossamer.replica import combine


class OverTorch:
    """One member's hold on the network, through a process group that holds all members of the run.

    The backend's own all-reduce and neighbours' messages use the default process group; what takes several messages
    is performed by a carrier on `group`, where nothing else happens. Bytes count as sent when a mix begins and as
    heard when it ends, always in the main thread.
    """

    looks, local, ordered = False, False, True

    def __init__(self, group: dist.ProcessGroup, far: Collection[int] = (), broken: Broken | None = None) -> None:
        """`far` are the members on other hosts; `broken` names who is gone where torch does not."""
        self.name = f"torch ({dist.get_backend()})"
        self.member, self.size = dist.get_rank(), dist.get_world_size()
        self.sent: Counter[int] = Counter()  # bytes by slot, since whoever records them last took them
        self.heard: Counter[int] = Counter()
        self.crossed: Counter[int] = Counter()
        self._carrier, self._far, self._broken = Carrier(), frozenset(far), broken
        self._executor = Executor(group, store=_get_default_store())
        self._device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        self._lent: dict[tuple[object, ...], Tensor] = {}

    def everyone(self, key: Key, wire: Wire, route: Route) -> Pending:
        """Begin a mix of all members' wires."""
        route = route.suited(wire.body.nbytes)
        match wire:
            case Mean(body) if not route.native:
                return self._along(key, body, route)
            case Mean(body) if body.element_size() == 2:
                return self._short(key, body, route)
            case Mean(body):
                return self._reduce(key, self._part(key, body), dist.ReduceOp.SUM, route)
            case Max(body):
                return self._reduce(key, body.clone(), dist.ReduceOp.MAX, Native())  # no route takes a maximum
            case Each(body):
                return self._gather(key, body)

    def neighbours(self, key: Key, wire: Wire, weights: Mapping[int, float], listeners: tuple[int, ...]) -> Pending:
        """Begin an exchange with neighbours: my wire to all listeners, theirs to me.

        Each wires may differ in length, so their lengths go ahead of them; the others are of one size.
        """
        body, varies = wire.body.contiguous(), isinstance(wire, Each)
        senders = [sender for sender in sorted(weights) if sender != self.member]
        ahead = torch.tensor([body.numel()], device=body.device)
        first = ahead if varies else body
        heads = {sender: torch.empty_like(first) for sender in senders}
        works = [dist.isend(first, listener, tag=key.tag) for listener in listeners]
        works += [dist.isend(body, listener, tag=key.tag) for listener in listeners if varies and body.numel()]
        coming = [dist.irecv(head, sender, tag=key.tag) for sender, head in heads.items()]
        self.sent[key.slot] += body.nbytes * len(listeners)
        self.crossed[key.slot] += body.nbytes * len(self._far.intersection(listeners))

        def wait() -> Heard:
            self._wait(coming)
            theirs = {s: self._body(key, s, body, int(head)) for s, head in heads.items()} if varies else heads
            self._wait(works)
            self.heard[key.slot] += sum(part.nbytes for part in theirs.values())
            return combine([(weights[sender], type(wire)(theirs.get(sender, body))) for sender in sorted(weights)])

        return Pending(wait)

    def lend(self, like: Tensor, cuts: Sequence[int]) -> Tensor:
        """Ordinary memory on the model's device; wires are copied once, scaled."""
        return torch.zeros_like(like)

    def knows(self, there: Tensor) -> bool:
        """Wires are copied."""
        return False

    def load(self, there: Tensor, sources: Sequence[Tensor], scale: float) -> int:
        """Copy tensors into memory; whether they are finite shows in the mix, but for those it replaces."""
        parts = there.split_with_sizes([source.numel() for source in sources])
        torch._foreach_copy_(list(parts), [source.reshape(-1) for source in sources])
        if scale != 1.0:
            there.mul_(scale)
        inside = [n for n, part in enumerate(parts) if part.numel() and part.data_ptr() == sources[n].data_ptr()]
        if not inside:
            return -1
        peaks = torch.stack(torch._foreach_norm([parts[n] for n in inside], float("inf")))
        bad = torch.isfinite(peaks).logical_not().nonzero()
        return inside[int(bad[0])] if len(bad) else -1

    def board(self, width: int) -> Board:
        """Gathered by the backend."""
        return self._tell

    def _tell(self, row: Sequence[int]) -> Callable[[], Rows]:
        mine = torch.tensor(row, dtype=torch.int64, device=self._device)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        work = dist.all_gather(rows, mine, async_op=True)

        def read() -> Rows:
            self._wait([work])
            return [each.tolist() for each in rows]

        return read

    def _part(self, key: Key, body: Tensor) -> Tensor:
        """A copy of one n-th of the body, in at least 32 bits."""
        copy = self._room(key, body)
        same = copy.dtype == body.dtype
        return torch.mul(body, 1.0 / self.size, out=copy) if same else copy.copy_(body).div_(self.size)

    def _room(self, key: Key, body: Tensor) -> Tensor:
        """Memory for a mix of such bodies, in at least 32 bits; that of a bucket lies where the last one did."""
        dtype = torch.promote_types(body.dtype, torch.float32)
        place = (key.slot, key.turn, key.bucket, body.numel(), dtype, body.device)
        if key.bucket is None:
            return torch.empty_like(body, dtype=dtype)
        if place not in self._lent:
            self._lent[place] = torch.empty_like(body, dtype=dtype)
        return self._lent[place]

    def _body(self, key: Key, sender: int, like: Tensor, length: int) -> Tensor:
        """The body that follows its length; none follows a length of 0."""
        theirs = like.new_empty(length)
        if length:
            dist.recv(theirs, sender, tag=key.tag)
        return theirs

    def absent(self) -> list[int]:
        """A process group does not show whom it waits for."""
        return []

    def close(self) -> None:
        """Nothing more will be asked for."""
        self._carrier.close()

    def end(self) -> None:
        """Let go of the process group, which ends with whoever made it."""
        del self._executor

    def _reduce(self, key: Key, mine: Tensor, how: dist.ReduceOp.RedOpType, route: Route) -> Pending:
        """The backend's own all-reduce; it does not tell its bytes, so they are counted as those of the ring."""
        _, into = self._leaves(key, mine, route)
        work = dist.all_reduce(mine, how, async_op=True)

        def wait() -> Heard:
            self._wait([work])
            self.heard[key.slot] += into
            return Heard(whole=mine)

        return Pending(wait)

    def _along(self, key: Key, body: Tensor, route: Route) -> Pending:
        """A sum along a route's own moves; floating numbers travel as they are, whole ones as the n-th they add."""
        mine = self._part(key, body)
        like = body if body.is_floating_point() else mine
        recorded = self._leaves(key, like, route)

        def perform() -> Tensor:
            moved = self._executor.run(route, mine, key.tag, like.dtype)
            if moved != recorded:
                raise RuntimeError(f"{route!r} moved {moved} bytes, out and in, where {recorded} were recorded")
            return mine

        return self._carried(key, perform, recorded[1])

    def _short(self, key: Key, body: Tensor, route: Route) -> Pending:
        """A mean of 16-bit numbers; all members together move as many bytes as along the ring it is counted as."""
        (_, into), mean = self._leaves(key, body, route), self._room(key, body)
        return self._carried(key, lambda: mixes.mean_of_short(body, mean, self._executor, key.tag), into)

    def _gather(self, key: Key, body: Tensor) -> Pending:
        """Hear every member's bytes, which may differ in number from member to member."""
        self.sent[key.slot] += body.nbytes * (self.size - 1)
        self.crossed[key.slot] += body.nbytes * len(self._far)
        future = self._carrier.begin(lambda: mixes.gathered(body, self._executor, key.tag))

        def wait() -> Heard:
            parts = future.result()
            self.heard[key.slot] += sum(part.nbytes for member, part in enumerate(parts) if member != self.member)
            return Heard(apart=tuple((1.0 / self.size, part) for part in parts))

        return Pending(wait)

    def _carried(self, key: Key, perform: Callable[[], Tensor], into: int) -> Pending:
        """A sum that the carrier performs, in at least 32 bits, as `combine` says them."""
        future = self._carrier.begin(perform)

        def wait() -> Heard:
            whole = future.result()
            self.heard[key.slot] += into
            return Heard(whole=whole)

        return Pending(wait)

    def _leaves(self, key: Key, mine: Tensor, route: Route) -> tuple[int, int]:
        """Count what leaves for a sum along the route; returns the bytes that leave and those that will come in."""
        out, into = counted(route, self.member, self.size, mine.numel())
        self.sent[key.slot] += out * mine.element_size()
        self.crossed[key.slot] += leaving(route, self.member, self.size, mine.numel(), self._far) * mine.element_size()
        return out * mine.element_size(), into * mine.element_size()

    def _wait(self, works: Sequence[dist.Work | None]) -> None:
        """Whoever does not come is named."""
        with nullcontext() if self._broken is None else self._broken.named():
            for work in works:
                assert work is not None
                work.wait()
