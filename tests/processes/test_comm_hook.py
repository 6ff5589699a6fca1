"""Codecs inside stock DDP: gradients are averaged as the codec's own conversation says, and all members stay alike."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from tests.laws.lockstep import everybody, exchange
from tests.processes.pool import Member, everywhere
from tests.texts import small
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import gossamer
from gossamer.engine.hook import CommHook
from gossamer.parts.codec import Block, Codec
from gossamer.strategy import CATALOG, Strategy, parse

STEPS, RATE = 6, 0.1


def made() -> nn.Sequential:
    """No two parameters of one shape."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 5), nn.Tanh(), nn.Linear(5, 1))


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1000 * step + rank)
    x = torch.randn(8, 6)
    return x, x.sum(1, keepdim=True).sin()


def loss(model: nn.Module, step: int, rank: int) -> Tensor:
    x, y = batch(step, rank)
    return (model(x) - y).square().mean()


def trained(hook: CommHook | None, rank: int, cap: float = 25.0, steps: int = STEPS) -> nn.Module:
    """What stock DDP comes to with a hook, or none; small caps make many buckets."""
    model = made()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=cap)
    if hook is not None:
        wrapped.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=RATE)
    for step in range(steps):
        optimizer.zero_grad()
        loss(wrapped, step, rank).backward()
        optimizer.step()
    return model


def expected(codec: Codec, size: int, dense: int, shapes: tuple[tuple[int, ...], ...]) -> nn.Module:
    """The same by the codec's conversation among all members in one process, on gradients as DDP orders them."""
    model, memories = made(), [dict[str, Tensor]() for _ in range(size)]
    parameters = sorted(model.parameters(), key=lambda each: shapes.index(tuple(each.shape)))
    for step in range(STEPS):
        slopes = [torch.autograd.grad(loss(model, step, rank), parameters) for rank in range(size)]
        flats = [torch.cat([each.reshape(-1) for each in mine]) for mine in slopes]
        mixed = torch.stack(flats).mean(0)
        if step >= dense:
            mixed = exchange(
                codec, [Block(flat, shapes) for flat in flats], everybody([1 / size] * size), memories, step
            ).mixed[0]
        with torch.no_grad():
            for parameter, part in zip(parameters, Block(mixed, shapes).tensors(), strict=True):
                parameter.sub_(part, alpha=RATE)
    return model


def gap(one: nn.Module, other: nn.Module) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


SURE = {  # codecs that draw nothing, in the expressions a user would write
    small(text, "Everything()"): near for text, near in {
        "allreduce": 1e-6, "Exchange(codec=Half())": 1e-3, "gradient_dropping(keep=0.2)": 1e-6, "one_bit": 1e-6,
        "ef_signsgd": 1e-6, "eight_bits": 1e-6, "adacomp(bin=4)": 1e-6, "strom(threshold=0.01)": 1e-6,
        "dgc(density=0.1)": 1e-6,
    }.items()
}  # fmt: skip


@everywhere(fabrics=("torch",), text=tuple(SURE), dense=(1, 2))
def test_gradients_are_what_the_codecs_conversation_makes_of_them(member: Member, text: str, dense: int) -> None:
    hook = gossamer.as_comm_hook(text, dense_steps=dense)
    model = trained(hook, member.rank)
    strategy = parse(text)
    assert isinstance(strategy, Strategy)
    wanted = expected(strategy.exchanges[0].codec, member.size, dense, hook.shapes[0])
    assert gap(model, wanted) <= SURE[text]
    assert text == "allreduce" or gap(model, trained(None, member.rank)) > 1e-7, "something was written otherwise"
    member.same(nn.utils.parameters_to_vector(model.parameters()))


COMPRESSED = [
    entry.name for entry in CATALOG
    if isinstance(made_ := entry.make(), Strategy)
    and all(type(ex.topology).__name__ == "Complete" and ex.codec.lossy for ex in made_.exchanges[:1])
    and not any(ex.synchrony.delay or ex.payload.name != "GRADIENTS" for ex in made_.exchanges)
]  # fmt: skip


@everywhere(worlds=(2,), fabrics=("torch",), name=tuple(COMPRESSED))
def test_every_codec_of_the_catalogue_learns_in_many_buckets(member: Member, name: str) -> None:
    few = {"random_k": "random_k(keep=0.3)", "dgc": "dgc(density=0.3, momentum=0.5)"}  # of so few, at such a rate
    text = small(few.get(name, name))
    model = trained(gossamer.as_comm_hook(text), member.rank, cap=0.0001, steps=40)
    member.same(nn.utils.parameters_to_vector(model.parameters()))
    before, after = (sum(loss(each, 500 + n, 0).item() for n in range(20)) for each in (made(), model))
    assert after < 0.8 * before


@everywhere(fabrics=("torch",))
def test_vectors_are_spared(member: Member) -> None:
    """What is gathered of matrices alone, and of the rest, is what both conversations make of them."""
    hook = gossamer.as_comm_hook("one_bit(where=Matrices(least=0))", dense_steps=1)
    model = trained(hook, member.rank)
    alike = [gap(model, trained(gossamer.as_comm_hook(text, dense_steps=1), member.rank)) for text in (
        "Exchange(where=Dims(most=1)) + Exchange(where=Dims(least=2), codec=ErrorFeedback(codec=OneBit()))",
        "one_bit(where=Everything())", "one_bit",
    )]  # fmt: skip
    assert alike[0] == 0.0 and min(alike[1:]) > 1e-5
    assert gap(trained(gossamer.as_comm_hook("one_bit"), member.rank), trained(None, member.rank)) < 1e-6
    member.same(nn.utils.parameters_to_vector(model.parameters()))


@everywhere(worlds=(2,), fabrics=("torch",))
def test_what_was_kept_back_goes_on(member: Member) -> None:
    """Through the steps in which another DDP lays its buckets out, and is told after them."""
    hook, again = (gossamer.as_comm_hook("one_bit(where=Everything())", dense_steps=1) for _ in range(2))
    model = trained(hook, member.rank)
    kept = hook.state_dict()
    residual = kept["memories"][0][0]["residual"].clone()
    assert kept["step"] == STEPS and residual.abs().max() > 1e-4
    again.load_state_dict(kept)
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, again)
    for step, same in ((STEPS, True), (STEPS + 1, False)):
        wrapped.zero_grad()
        loss(wrapped, step, member.rank).backward()
        assert torch.equal(again.state_dict()["memories"][0][0]["residual"], residual) == same
    member.same(torch.cat([each.grad.reshape(-1) for each in model.parameters() if each.grad is not None]))


@everywhere(worlds=(2,), fabrics=("torch",))
def test_buckets_that_change_are_told(member: Member) -> None:
    with pytest.raises(RuntimeError, match="DDP has laid bucket 0 out anew in step 1; raise dense_steps"):
        trained(gossamer.as_comm_hook("one_bit", dense_steps=0), member.rank)


@everywhere(worlds=(2,), fabrics=("torch",))
def test_what_is_no_all_reduce_of_gradients_is_refused(member: Member) -> None:
    for text in ("gossip_pull", "local_sgd", "ako", "Exchange(where=Named('*'), codec=Half())"):
        with pytest.raises(gossamer.Refused, match="more than all-reduces of gradients"):
            gossamer.as_comm_hook(text)


@everywhere(worlds=(2,), fabrics=("torch",))
def test_tensors_that_nobody_carries_are_told(member: Member) -> None:
    matrices = "Exchange(codec=Half(), where=Dims(least=2))"
    for text in (matrices, f"{matrices} + Exchange(where=Dims(least=3))"):
        with pytest.raises(RuntimeError, match="some gradients are carried by no exchange, or by two"):
            trained(gossamer.as_comm_hook(text, dense_steps=1), member.rank)


@everywhere(worlds=(4,), fabrics=("torch",))
def test_groups_of_some_members_stay_among_themselves(member: Member) -> None:
    """Each pair makes its own hook, in its own time; what a pair averages is its own."""
    pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][member.rank // 2]
    model = nn.Linear(3, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    wrapped = DistributedDataParallel(model, process_group=pair)
    wrapped.register_comm_hook(None, gossamer.as_comm_hook("half", group=pair))
    for _ in range(4):
        wrapped.zero_grad()
        wrapped(torch.full((1, 3), float(member.rank))).sum().backward()
        assert model.weight.grad is not None
        assert model.weight.grad.flatten().tolist() == [[0.5, 2.5][member.rank // 2]] * 3


@everywhere(worlds=(2,), fabrics=("torch",))
def test_a_state_of_another_codec_is_refused(member: Member) -> None:
    kept = gossamer.as_comm_hook("one_bit").state_dict()
    with pytest.raises(gossamer.Refused, match="this was kept by"):
        gossamer.as_comm_hook("half").load_state_dict(kept)


def test_without_a_process_group_it_is_refused() -> None:
    with pytest.raises(gossamer.Refused, match="no process group"):
        gossamer.as_comm_hook("half")
