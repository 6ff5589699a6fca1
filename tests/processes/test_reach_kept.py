"""A hub that lies in shared memory is kept in checkpoints, with what its optimizer remembers, and goes on from them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from tests.processes.pool import Member, everywhere
from torch import Tensor, nn

import gossamer
from gossamer.engine.loop.prepare import session_of
from gossamer.engine.reach import Reach


def made(member: Member, strategy: str) -> tuple[nn.Module, torch.optim.Optimizer, Reach]:
    """A model large enough for several parts, with an optimizer that counts its steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1500, 1500), nn.Linear(1500, 1000), nn.Linear(1000, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    member.prepare(model, optimizer, strategy=strategy)
    reach = session_of(model).courses[0].strands[0].carrier
    assert isinstance(reach, Reach)
    return model, optimizer, reach


def step(model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
    optimizer.zero_grad()
    torch.manual_seed(number)
    model(torch.randn(4, 1500)).square().mean().backward()
    optimizer.step()


def centre(reach: Reach) -> Tensor:
    return reach.centres[0].hub.centre.clone()


@everywhere(fabrics=("shared",), strategy=("hogwild", "dc_asgd"))
def test_a_hub_in_memory_goes_on_from_a_checkpoint_to_the_bit(member: Member, strategy: str) -> None:
    told = [tempfile.mkdtemp() if member.rank == 0 else None]
    folder = Path(shared_word(member, told[0]))
    model, optimizer, reach = made(member, strategy)
    assert (len(reach.centres[0].parts) > 2) == (strategy == "hogwild")
    for number in range(3):  # one after the other, so that there is one right answer
        for turn in range(member.size):
            if turn == member.rank:
                step(model, optimizer, 10 * number + turn)
            dist.barrier()
    gossamer.save(folder, model, optimizer)
    dist.barrier()
    other, its, again = made(member, strategy)
    gossamer.load(folder, other, its)
    assert torch.equal(centre(again), centre(reach))
    dist.barrier()  # nobody steps on while another still looks
    for turn in range(member.size):
        if turn == member.rank:
            step(model, optimizer, 100 + turn)
            step(other, its, 100 + turn)
        dist.barrier()
    assert torch.equal(centre(again), centre(reach))
    version = reach.centres[0].version
    assert again.centres[0].version == version == 4 * member.size


def shared_word(member: Member, word: str | None) -> str:
    """What member 0 says."""
    there = torch.zeros(256, dtype=torch.uint8)
    if word is not None:
        there[: len(word)] = torch.tensor(list(word.encode()), dtype=torch.uint8)
    dist.broadcast(there, 0)
    return bytes(there.tolist()).rstrip(b"\0").decode()


@everywhere(worlds=(2,), fabrics=("shared", "torch"))
def test_a_hub_whose_spell_is_over_takes_no_gradients_any_more(member: Member) -> None:
    torch.manual_seed(0)
    model = nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    member.prepare(model, optimizer, strategy="Staged(hogwild, 2, allreduce())")
    moved = []
    for number in range(5):
        before = model.weight.detach().clone()
        optimizer.zero_grad()
        torch.manual_seed(number)
        model(torch.randn(4, 20)).square().mean().backward()
        optimizer.step()
        moved.append((model.weight.detach() - before).abs().max().item())
    assert min(moved) > 1e-4, moved
