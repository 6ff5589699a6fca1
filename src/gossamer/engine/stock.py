"""Any communication hook of DDP as a codec: what it asks a process group for becomes wires of a conversation."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Codec, Conversation, Each, Heard, Max, Mean, Memory, Size, Wire, alone
from gossamer.parts.codec.wire import Shapes
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused

Hook = Callable[[Any, Any], "torch.futures.Future[Any]"]
Make = Callable[[dist.ProcessGroup], object]
KEPT = "hook."  # begins the names of what is kept of a hook's state
MARK = f"{KEPT}mark"  # what is in the memory of the state that lives in this process
_states: Any = WeakIdKeyDictionary()  # by mark: the group, and the state
TRIED = 4  # steps after which a hook has begun to do what it is for (PowerSGD's are dense at first)


def from_comm_hook(hook: Hook, state: Make | None = None) -> StockHook:
    """What an exchange takes as its codec, of what `DistributedDataParallel.register_comm_hook` takes.

    `state` makes the hook's state for a process group, as `lambda group: PowerSGDState(group, 2)`; without it the group
    itself is the state, as torch's simple hooks have it. A checkpoint has its tensors and numbers, and those in its
    dictionaries; what else it holds, random draws say, begins anew there, and all of it in a world of another size.
    """
    if not callable(hook):
        raise Refused(f"from_comm_hook: {hook!r} cannot be called", "a function of (state, bucket)")
    return StockHook(hook, state)


class StockHook(Codec):
    """A hook of DDP, which speaks by all-reduce and all-gather; it keeps to itself what the others hear of it.

    It is no dataclass, so no word of the language: expressions name no functions.
    """

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.GRADIENTS})
    remembers: ClassVar[bool] = True  # or not: nobody can see

    def __init__(self, hook: Hook, state: Make | None = None) -> None:
        self.hook, self.state = hook, state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StockHook) and (self.hook, self.state) == (other.hook, other.state)

    def __hash__(self) -> int:
        return hash((self.hook, self.state))

    def __repr__(self) -> str:
        made = "" if self.state is None else f", state={_name(self.state)}"
        return f"StockHook({_name(self.hook)}{made})"

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        asked: SimpleQueue[Wire | Tensor | BaseException] = SimpleQueue()
        answers: SimpleQueue[Heard | None] = SimpleQueue()
        group, state = self._alive(memory, chance.member, block.members)
        group.asked, group.answers = asked, answers
        bucket = _Bucket(block.flat.clone(), block)

        @torch.no_grad()
        def play() -> None:
            try:
                mixed = _result(self.hook(state, bucket).wait())
                memory.update(_kept(state) if self.state is not None else {})
                asked.put(mixed)
            except BaseException as error:
                asked.put(error)

        threading.Thread(target=play, daemon=True).start()  # one that is never answered must hold nobody up
        try:
            while not isinstance(said := asked.get(), Tensor | BaseException):
                answers.put((yield said))
        finally:
            answers.put(None)  # whoever still waits for an answer waits in vain
        if isinstance(said, BaseException):
            raise said
        mixed = said.to(block.flat.dtype).view(block.flat.shape)
        return mixed, mixed

    def _alive(self, memory: Memory, member: int, size: int) -> tuple[_Group, object]:
        """The group and the state that this memory belongs to; from a checkpoint, what was kept of the state."""
        mark = memory.get(MARK)
        found = None if mark is None else _states.get(mark)
        if found is None:
            group = _Group(member, size)
            state = group if self.state is None else _filled(self.state(group), memory)
            mark = memory[MARK] = torch.zeros(1)
            found = _states[mark] = group, state
        return found

    @property
    def turns(self) -> int:
        return 2  # at least, or so it must be taken: nobody but all members together can answer

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        if not shapes:
            return ()
        return _tried(self, tuple(map(tuple, shapes)), itemsize)


@lru_cache(maxsize=64)
def _tried(codec: StockHook, shapes: tuple[tuple[int, ...], ...], itemsize: int) -> tuple[Size, ...]:
    """What a hook asks for, seen in a world of one; turns that not every step has may be empty."""
    kinds = {2: torch.float16, 4: torch.float32, 8: torch.float64}
    flat = torch.zeros(sum(torch.Size(shape).numel() for shape in shapes), dtype=kinds[itemsize])
    memory: Memory = {}
    seen: list[list[Wire]] = []
    for step in range(TRIED):
        talking = codec.converse(Block(flat, shapes), memory, Chance(0, 0, step, 0))
        wires = [next(talking)]
        try:
            while True:
                wires.append(talking.send(alone(wires[-1])))
        except StopIteration:
            seen.append(wires)
    found = []
    for turn in range(max(map(len, seen))):
        sizes = [wires[turn].body.nbytes if turn < len(wires) else 0 for wires in seen]
        gathered = any(isinstance(wires[turn], Each) for wires in seen if turn < len(wires))
        found.append(Size(min(sizes), sizes[-1], max(sizes), gathered))
    return tuple(found)


class _Group(dist.ProcessGroup):
    """A process group that carries nothing: what it is asked for is handed on as a wire, and answered."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        self.asked: SimpleQueue[Any] = SimpleQueue()
        self.answers: SimpleQueue[Heard | None] = SimpleQueue()

    def _said(self, wire: Wire) -> Heard:
        self.asked.put(wire)
        heard = self.answers.get()
        if heard is None:
            raise RuntimeError("the exchange ended before its time")
        return heard

    def allreduce(self, tensors: list[Tensor], options: Any = None) -> Any:  # type: ignore[override]
        """Each becomes the sum of everybody's, their mean or their maximum."""
        kind = dist.ReduceOp.SUM if options is None else options.reduceOp
        for tensor in tensors:
            if kind == dist.ReduceOp.MAX:
                tensor.copy_(self._said(Max(tensor.clone())).one())
            elif kind == dist.ReduceOp.SUM and not tensor.is_floating_point():
                tensor.copy_(torch.stack(self._gathered(tensor)).sum(0))
            elif kind == dist.ReduceOp.SUM:  # the mean of so many times as much: what was divided before is whole again
                tensor.copy_(self._said(Mean(tensor * self.size())).one())
            elif kind == dist.ReduceOp.AVG:
                tensor.copy_(self._said(Mean(tensor.clone())).one())
            else:
                raise Refused("from_comm_hook: an all-reduce that is no sum, mean or maximum", "SUM, AVG or MAX")
        return _done(tensors)

    def allgather(  # type: ignore[override]
        self, outputs: list[list[Tensor]], inputs: list[Tensor], options: Any = None
    ) -> Any:
        """Everybody's tensor beside one's own."""
        for into, tensor in zip(outputs, inputs, strict=True):
            for out, theirs in zip(into, self._gathered(tensor), strict=True):
                out.copy_(theirs)
        return _done([tensor for into in outputs for tensor in into])

    def _gathered(self, tensor: Tensor) -> list[Tensor]:
        apart = self._said(Each(tensor.contiguous().view(-1).view(torch.uint8).clone())).apart
        return [body.clone().view(tensor.dtype).view(tensor.shape) for _, body in apart]

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Refused("from_comm_hook: this hook asks for more than all-reduce and all-gather", "a hook that does not")

    broadcast = barrier = reduce = gather = scatter = send = recv = alltoall = _refuse
    reduce_scatter = _allgather_base = _reduce_scatter_base = _refuse

    def getBackendName(self) -> str:
        """As torch's own groups say."""
        return "gossamer"


class _Bucket:
    """What a hook is shown of a bucket: all tensors of the exchange, in its only one."""

    def __init__(self, flat: Tensor, block: Block) -> None:
        self._flat, self._block = flat, block

    def buffer(self) -> Tensor:
        """All gradients, one after the other."""
        return self._flat

    def set_buffer(self, flat: Tensor) -> None:
        """Others instead."""
        self._flat = flat

    def gradients(self) -> list[Tensor]:
        """Each in its shape, lying in the buffer."""
        return list(self._block.tensors(self._flat))

    def parameters(self) -> list[Tensor]:
        """What an exchange of gradients does not know."""
        raise Refused("from_comm_hook: this hook asks for parameters", "a hook that asks for gradients only")

    def index(self) -> int:
        """The only one."""
        return 0

    def is_last(self) -> bool:
        """So it is."""
        return True


def _done(found: list[Tensor]) -> Any:
    """What torch hands out for something under way, which is over already."""
    future: torch.futures.Future[list[Tensor]] = torch.futures.Future()
    future.set_result(found)
    return torch._C._distributed_c10d._create_work_from_future(future)  # type: ignore[attr-defined]


def _result(found: Any) -> Tensor:
    """A hook's answer, alone or in a list."""
    mixed: Tensor = found[0] if isinstance(found, list | tuple) else found
    return mixed


def _name(made: Callable[..., object]) -> str:
    return f"{getattr(made, '__module__', '?')}.{getattr(made, '__qualname__', repr(made))}"


def _held(state: object) -> dict[str, Any]:
    """What a state holds, by name, in a dictionary or in slots."""
    slots = [name for kind in type(state).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(state, name) for name in (*slots, *getattr(state, "__dict__", ())) if hasattr(state, name)}


def _kept(state: object) -> Memory:
    """Its tensors, and its numbers as tensors of one; those in dictionaries under both names."""
    found: Memory = {}
    for name, value in _held(state).items():
        inside = ((k, v) for k, v in value.items() if isinstance(k, int | str)) if isinstance(value, dict) else ()
        for named, each in ((name, value), *((f"{name}.{key}", inner) for key, inner in inside)):
            if isinstance(each, Tensor):
                found[KEPT + named] = each
            elif isinstance(each, int | float) and not isinstance(each, bool):
                found[KEPT + named] = torch.tensor(
                    [each], dtype=torch.int64 if isinstance(each, int) else torch.float64
                )
    return found


def _filled(state: object, memory: Memory) -> object:
    """A new state, with what was kept of the last one."""
    held = _held(state)
    for name, tensor in memory.items():
        if not name.startswith(KEPT) or name == MARK:
            continue
        outer, _, inner = name.removeprefix(KEPT).partition(".")
        number = tensor.numel() == 1 and tensor.dtype in (torch.int64, torch.float64)
        if inner:
            held[outer][int(inner) if inner.lstrip("-").isdigit() else inner] = tensor
        else:
            setattr(state, outer, tensor.item() if number and not isinstance(held.get(outer), Tensor) else tensor)
    return state
