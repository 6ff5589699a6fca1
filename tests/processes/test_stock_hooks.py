"""Hooks of DDP as codecs: what they do inside DDP they do in an exchange, played by us; their states are kept."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.laws.lockstep import everybody, exchange
from tests.processes.pool import Member, everywhere
from tests.processes.test_comm_hook import RATE, STEPS, gap, loss, made
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import gossamer
from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Codec, ErrorFeedback, PowerSGD
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.synchrony import Synchrony
from gossamer.parts.topology import Cycle, Hub
from gossamer.strategy import Exchange


def low_rank(group: Any) -> PowerSGDState:
    return PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1)


def gathering(group: Any, bucket: Any) -> torch.futures.Future[Tensor]:
    """A hook of one's own, which sends bytes that it makes itself: the signs, and one size."""
    flat, size = bucket.buffer(), group.size()
    scale = flat.abs().max().reshape(1)
    dist.all_reduce(scale, dist.ReduceOp.MAX, group)
    mine = torch.cat([(flat > 0).to(torch.uint8), torch.ones(1, dtype=torch.uint8)])
    heard = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(heard, mine, group)
    bucket.set_buffer(sum((2.0 * each[:-1] - 1.0) * scale for each in heard) / size)  # type: ignore[arg-type]
    ended: torch.futures.Future[Tensor] = torch.futures.Future()
    ended.set_result(bucket.buffer())
    return ended


gathering.__annotations__.clear()  # DDP takes only types that are no text

HOOKS: dict[str, tuple[Any, Any, float]] = {
    "dense": (default_hooks.allreduce_hook, None, 1e-6),
    "half": (default_hooks.fp16_compress_hook, None, 1e-3),
    "low rank": (powerSGD_hook, low_rank, 1e-5),
    "own": (gathering, None, 1e-6),
}


def by_ddp(hook: Any, make: Any, rank: int) -> nn.Module:
    model = made()
    wrapped = DistributedDataParallel(model)
    group = dist.group.WORLD
    wrapped.register_comm_hook(group if make is None else make(group), hook)
    return stepped(model, wrapped, torch.optim.SGD(model.parameters(), lr=RATE), rank)


def stepped(model: nn.Module, called: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> nn.Module:
    for step in range(STEPS):
        optimizer.zero_grad()
        loss(called, step, rank).backward()
        optimizer.step()
    return model


@everywhere(fabrics=("torch", "shared"), kind=tuple(HOOKS))
def test_an_exchange_with_a_hook_is_ddp_with_it(member: Member, kind: str) -> None:
    hook, make, near = HOOKS[kind]
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    codec = gossamer.from_comm_hook(hook, make)
    model, optimizer = member.prepare(model, optimizer, strategy=Exchange(codec=codec))
    stepped(model, model, optimizer, member.rank)
    for tensor in model.parameters():
        member.same(tensor)
    order = by_ddp(hook, make, member.rank)
    # PowerSGD draws its first factors in the order of the bucket, which DDP turns round: only how good it is compares
    assert gap(model, order) <= (0.05 if kind == "low rank" else near)
    assert kind != "low rank" or gap(model, order) > 0.0


def flats(step: int, size: int = 3) -> list[Block]:
    draw = torch.Generator().manual_seed(step)
    return [Block(torch.randn(9 * 7 + 5, generator=draw), ((9, 7), (5,)), members=size) for _ in range(size)]


def played(codec: Codec, steps: range, memories: list[dict[str, Tensor]]) -> list[Tensor]:
    found = [exchange(codec, flats(step), everybody([1 / 3] * 3), memories, step).mixed for step in steps]
    assert all(torch.equal(each, mixed[0]) for mixed in found for each in mixed)
    return [mixed[0] for mixed in found]


def test_a_state_is_kept_and_gone_on_with_to_the_bit() -> None:
    """What a checkpoint has of the memories is enough: the rest of the run is the same, with a state made anew."""
    codec = gossamer.from_comm_hook(powerSGD_hook, low_rank)
    whole = played(codec, range(8), [{}, {}, {}])
    memories: list[dict[str, Tensor]] = [{}, {}, {}]
    first = played(codec, range(5), memories)
    kept = [{name: tensor.clone() for name, tensor in memory.items()} for memory in memories]
    assert {"hook.error_dict.0", "hook.q_memory_dict.0", "hook.iter"} <= kept[0].keys()
    for one, other in zip(whole, first + played(codec, range(5, 8), kept), strict=True):
        assert torch.equal(one, other)
    anew = played(codec, range(5, 8), [{}, {}, {}])
    assert not torch.equal(anew[-1], whole[-1]), "a state that was lost would show"


def test_bytes_are_seen_without_a_network() -> None:
    shapes = ((64, 32), (32,))
    half = gossamer.from_comm_hook(default_hooks.fp16_compress_hook).wire_bytes(shapes, 4)
    assert [(size.low, size.high) for size in half] == [(2 * 2080, 2 * 2080)]
    low = gossamer.from_comm_hook(powerSGD_hook, low_rank).wire_bytes(shapes, 4)
    assert [size.likely for size in low] == [128, 512, 256] and low[0].high == 4 * 2080  # dense at first
    assert [size.gathered for size in gossamer.from_comm_hook(gathering).wire_bytes(shapes, 4)] == [False, True]


@pytest.mark.parametrize("topology", [Hub(), Cycle()], ids=repr)
def test_only_all_members_together_can_answer_a_hook(topology: Any) -> None:
    with pytest.raises(Refused):
        Exchange(topology=topology, codec=gossamer.from_comm_hook(default_hooks.fp16_compress_hook))


def test_what_cannot_be_played_is_refused() -> None:
    def peeks(group: Any, bucket: Any) -> Any:
        return bucket.parameters()

    def multiplies(group: Any, bucket: Any) -> Any:
        dist.all_reduce(bucket.buffer(), dist.ReduceOp.PRODUCT, group)

    codec = gossamer.from_comm_hook(default_hooks.fp16_compress_hook)
    with pytest.raises(Refused, match="already keeps"):
        ErrorFeedback(codec)
    with pytest.raises(Refused, match="cannot be called"):
        gossamer.from_comm_hook(3)  # type: ignore[arg-type]
    for hook, words in ((peeks, "asks for parameters"), (multiplies, "SUM, AVG or MAX")):
        with pytest.raises(Refused, match=words):
            played(gossamer.from_comm_hook(hook), range(1), [{}, {}, {}])


def summing(group: Any, bucket: Any) -> Any:
    """Whole numbers, and numbers so small that a mean in 16 bits would lose them."""
    whole, tiny = torch.tensor([2**24 + 1]), torch.full((1,), 5.9604644775390625e-08, dtype=torch.float16)
    dist.all_reduce(whole, group=group)
    dist.all_reduce(tiny, group=group)
    bucket.buffer().zero_()[:2] = torch.stack([whole[0].double() - 3 * 2**24, tiny[0].double() * 2**24]).float()
    ended: torch.futures.Future[Tensor] = torch.futures.Future()
    ended.set_result(bucket.buffer())
    return ended


def test_sums_are_sums_of_whole_numbers_and_of_small_ones() -> None:
    found = played(gossamer.from_comm_hook(summing), range(1), [{}, {}, {}])[0]
    assert found[:2].tolist() == [3.0, 3.0]


def test_a_state_lives_on_from_step_to_step() -> None:
    """Without a warm start PowerSGD draws anew at every step, from numbers that no checkpoint has."""

    def cold(group: Any) -> PowerSGDState:
        return PowerSGDState(group, 1, start_powerSGD_iter=2, warm_start=False, use_error_feedback=False)

    given = [flats(0)] * 6
    memories: list[dict[str, Tensor]] = [{}, {}, {}]
    codec = gossamer.from_comm_hook(powerSGD_hook, cold)
    found = [
        exchange(codec, blocks, everybody([1 / 3] * 3), memories, step).mixed[0] for step, blocks in enumerate(given)
    ]
    assert not torch.equal(found[3], found[4]) and not torch.equal(found[4], found[5])


def test_an_exchange_that_is_given_up_leaves_nobody_waiting() -> None:
    before = threading.active_count()
    talk = gossamer.from_comm_hook(default_hooks.fp16_compress_hook).converse(flats(0)[0], {}, Chance(0, 0, 0, 0))
    next(talk)
    talk.close()
    until = time.monotonic() + 5.0
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_who_knows_only_in_the_end_what_it_keeps_sends_no_next_one_before() -> None:
    for codec in (gossamer.from_comm_hook(powerSGD_hook, low_rank), ErrorFeedback(PowerSGD(2))):
        with pytest.raises(Refused, match="knows only in the end"):
            Exchange(codec=codec, synchrony=Synchrony(delay=1))
        Exchange(codec=codec, payload=Payload.GRADIENTS)
