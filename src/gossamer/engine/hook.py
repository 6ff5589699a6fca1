"""Codecs inside DistributedDataParallel: a communication hook that lets a codec speak for every bucket of gradients.

DDP owns buckets and their order; here is who remembers what for each of them, and a thread that speaks.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]

from gossamer.engine import freed, mixes
from gossamer.engine.carrier import Carrier
from gossamer.engine.executor import Executor
from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Codec, Dense, Each, Heard, Max, Mean, Memory, Wire
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused, whole
from gossamer.parts.selection import Everything, Tag
from gossamer.parts.topology import Complete
from gossamer.replica.layout import dense, flat_of
from gossamer.strategy import Exchange, Strategy, as_strategy, parse

PATIENCE = 5.0  # seconds for a talk that is under way when python ends
SETTLED = 2  # steps after which DDP has laid its buckets out for good


def as_comm_hook(
    codec: Codec | str, group: dist.ProcessGroup | None = None, seed: int = 0, dense_steps: int = SETTLED
) -> CommHook:
    """What `DistributedDataParallel.register_comm_hook(None, ...)` takes: gradients travel as the codec writes them.

    `codec` may be the text of a strategy, if that is nothing but all-reduces of gradients through codecs. All members
    of `group` (unless told, of the default one) call this alike. The first steps are dense, for DDP lays its buckets
    out anew after the first, and what a codec remembers belongs to a bucket.
    """
    if not dist.is_initialized():
        raise Refused("as_comm_hook: there is no process group yet", "call it after init_process_group")
    whole("as_comm_hook", "dense_steps", dense_steps, 0, 2**31)
    freed.keep()
    return CommHook(_exchanges(codec), group, seed, dense_steps)


class CommHook:
    """Averages each bucket of gradients through a codec. Its memories are kept by bucket, and may be saved.

    All talks are held one after the other in a thread of its own, on a process group of its own: buckets come in one
    order everywhere, answers do not. With a GPU they are held at once instead, where their kernels are put in order.
    """

    # DDP looks at the names, and takes only types that are no text
    __signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("state", "bucket")])

    def __init__(
        self, exchanges: tuple[Exchange, ...], group: dist.ProcessGroup | None, seed: int, dense_steps: int
    ) -> None:
        self.__name__ = self.__qualname__ = "gossamer"  # DDP asks for them
        self.exchanges, self.step, self._begun = exchanges, 0, 0
        self._seed, self._dense_steps, self._failed = seed, dense_steps, None  # type: int, int, Exception | None
        self._memories: dict[int, list[Memory]] = {}
        self.shapes: dict[int, tuple[tuple[int, ...], ...]] = {}  # of the tensors in each bucket, once they stay
        self._executor, self._carrier = Executor(_apart(group)), Carrier()
        weakref.finalize(self, self._carrier.close, PATIENCE)  # a thread that is still at it cannot end with python

    def __call__(self, state: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        """Begin to average a bucket; DDP waits for it before the optimizer steps."""
        flat, number, step = bucket.buffer(), bucket.index(), self.step
        shapes = tuple(tuple(parameter.shape) for parameter in bucket.parameters())
        beside = None
        if any(exchange.codec.looks_beside for exchange in self.exchanges):
            beside = torch.cat([_lying(parameter.detach()) for parameter in bucket.parameters()])
        self.step += bucket.is_last()
        devices: list[int | str | torch.device] | None = [flat.device] if flat.is_cuda else None
        ended: torch.futures.Future[Tensor | Exception] = torch.futures.Future(devices=devices)

        def talk() -> None:
            try:
                if self._failed is not None:  # nobody knows what the others are at
                    raise self._failed
                if flat.layout is not torch.strided:
                    raise Refused("as_comm_hook: a gradient is sparse", "nn.Embedding(..., sparse=False)")
                ended.set_result(self._averaged(Block(flat, shapes, beside, self._executor.size), number, step))
            except Exception as error:
                self._failed = error
                ended.set_result(error)

        if flat.is_cuda:
            talk()
        else:
            self._carrier.begin(talk)
        return ended.then(_outcome)

    def state_dict(self) -> dict[str, Any]:
        """A copy of what was kept back so far in which bucket, and how many steps were taken."""
        memories = {number: _copied(kept) for number, kept in self._memories.items()}
        return {"written": repr(self.exchanges), "step": self.step, "shapes": dict(self.shapes), "memories": memories}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` told, with the same model and number of workers; the first steps are dense."""
        if state["written"] != repr(self.exchanges):
            raise Refused(f"as_comm_hook: this was kept by {state['written']}", "as_comm_hook with the same")
        self.step = self._begun = int(state["step"])
        self.shapes = {int(number): tuple(map(tuple, shapes)) for number, shapes in state["shapes"].items()}
        self._memories = {int(number): _copied(kept) for number, kept in state["memories"].items()}

    def _averaged(self, block: Block, number: int, step: int) -> Tensor:
        chance = Chance(self._seed, number, step, self._executor.member)
        if step < self._begun + self._dense_steps:
            return self._talk(Dense(), block, {}, chance)
        if self.shapes.setdefault(number, block.shapes) != block.shapes:
            loaded = " since what was loaded was kept" if self._begun else ""
            raise RuntimeError(f"DDP has laid bucket {number} out anew in step {step}{loaded}; raise dense_steps")
        memories = self._memories.setdefault(number, [{} for _ in self.exchanges])
        for memory in memories:
            memory |= {
                name: kept.to(block.flat.device) for name, kept in memory.items()
            }  # loaded ones may lie elsewhere
        first, *more = self.exchanges
        if isinstance(first.where, Everything) and not more:
            return self._talk(first.codec, block, memories[0], chance)
        tags = [Tag("", shape, block.flat.element_size()) for shape in block.shapes]
        picked = [exchange.where.pick(tags) for exchange in self.exchanges]
        if sorted(place for places in picked for place in places) != list(range(len(tags))):
            raise Refused(
                "as_comm_hook: some gradients are carried by no exchange, or by two",
                "exchanges whose where= take each tensor once, as Dims(least=2) and Dims(most=1)",
            )
        for exchange, places, memory in zip(self.exchanges, picked, memories, strict=True):
            if places:
                heard = self._talk(exchange.codec, _chosen(block, places), memory, chance)
                shapes = tuple(block.shapes[place] for place in places)
                into = list(block.tensors())  # whose gradients nobody asks for any more
                for place, part in zip(places, Block(heard, shapes).tensors(), strict=True):
                    into[place].copy_(part)
        return block.flat

    def _talk(self, codec: Codec, block: Block, memory: Memory, chance: Chance) -> Tensor:
        """One conversation with all members; the mix."""
        talking = codec.converse(block, memory, chance)
        wire, turn = next(talking), 0
        while True:
            try:
                wire = talking.send(self._heard(wire, turn))
                turn += 1
            except StopIteration as end:
                mixed: Tensor = end.value[0]
                return mixed.to(block.flat.dtype).view(block.flat.shape)

    def _heard(self, wire: Wire, tag: int) -> Heard:
        """Play one turn with all members."""
        by, body = self._executor, wire.body
        match wire:
            case Each():
                return Heard(apart=tuple((1.0 / by.size, part) for part in mixes.gathered(body, by, tag)))
            case Max():
                most = body.clone()
                dist.all_reduce(most, dist.ReduceOp.MAX, by.group)
                return Heard(whole=most)
            case Mean() if body.element_size() == 2:
                return Heard(whole=mixes.mean_of_short(body, torch.empty_like(body, dtype=torch.float32), by, tag))
            case Mean():
                part = body / by.size
                dist.all_reduce(part, dist.ReduceOp.SUM, by.group)
                return Heard(whole=part)


def _apart(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """A process group of the same members, with the same backend and as patient; only they need to call this."""
    parent = group or dist.group.WORLD
    ranks, kind = dist.get_process_group_ranks(parent), dist.get_backend(parent)
    options = parent._get_backend(torch.device("cuda" if kind == "nccl" else "cpu")).options  # type: ignore[union-attr]
    alone = len(ranks) < dist.get_world_size()
    made = dist.new_group(ranks, options._timeout, kind, use_local_synchronization=alone)
    assert isinstance(made, dist.ProcessGroup)
    return made


def _lying(tensor: Tensor) -> Tensor:
    """A parameter as DDP lays its gradient: in the order in which it lies, if it lies densely."""
    return flat_of(tensor) if dense(tensor) else tensor.reshape(-1)


def _copied(memories: Sequence[Memory]) -> list[Memory]:
    return [{name: tensor.clone() for name, tensor in memory.items()} for memory in memories]


def _outcome(ended: torch.futures.Future[Tensor | Exception]) -> Tensor:
    """The mix; or what went wrong, raised where DDP hears of it."""
    found = ended.value()
    if isinstance(found, Exception):
        raise found
    return found


def _chosen(block: Block, places: Sequence[int]) -> Block:
    """Some tensors of a block, one after the other."""
    shapes = tuple(block.shapes[place] for place in places)

    def of(flat: Tensor) -> Tensor:
        parts = list(block.tensors(flat))
        return torch.cat([parts[place].reshape(-1) for place in places])

    beside = None if block.beside is None else of(block.beside)
    return Block(of(block.flat), shapes, beside, block.members)


def _exchanges(given: Codec | str) -> tuple[Exchange, ...]:
    """The all-reduces of gradients that a codec, or the text of a strategy, stands for."""
    strategy = as_strategy(Exchange(codec=given)) if isinstance(given, Codec) else parse(given)
    exchanges = strategy.exchanges if isinstance(strategy, Strategy) else ()
    if not exchanges or not all(map(_plain, exchanges)):
        raise Refused(
            f"as_comm_hook: {given} is more than all-reduces of gradients at every step",
            "as_comm_hook('Exchange(codec=...)'), or gossamer.prepare, which plays any strategy",
        )
    return exchanges


def _plain(ex: Exchange) -> bool:
    """Whether it is what DDP does, but for the codec; DDP tells no names of tensors."""
    usual = Exchange()
    return (
        ex.payload is Payload.GRADIENTS
        and isinstance(ex.topology, Complete)
        and ex.where.by_shape
        and ex.synchrony == usual.synchrony
        and ex.merge == usual.merge
    )
