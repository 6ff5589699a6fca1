"""What all members of a host mix among themselves is mixed in their memory, and comes to the same as over torch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.processes.pool import Member, everywhere
from tests.processes.test_hosts_fabric import opened
from tests.processes.user import loader, loss_of, net

from gossamer.engine.fabrics.fabric import Key
from gossamer.parts.codec import Mean
from gossamer.parts.topology import Follow, Inside, Neighbours, Topology
from gossamer.parts.world import World

KINDS = (torch.float64, torch.float32, torch.float16)


def told(member: Member, fabric: object, topology: Topology, body: torch.Tensor, step: int) -> torch.Tensor:
    """What is heard of this topology over this fabric."""
    world = World(member.size)
    mixing = topology.mixing(member.rank, 0, world, 1)
    assert isinstance(mixing, Neighbours)
    listeners = topology.listeners(member.rank, 0, world, 1)
    return fabric.neighbours(Key(1, step, 0), Mean(body), mixing.weights, listeners).wait().whole  # type: ignore


@everywhere(worlds=(4,), fabrics=("hosts",), name=("inside", "follow"))
def test_a_host_mixes_in_its_own_memory(member: Member, name: str) -> None:
    """The same as over torch, several times over, where it lies and copied in; nothing is sent over torch for it."""
    fabric, topology = opened(member), {"inside": Inside(2), "follow": Follow(2)}[name]
    first = member.rank - member.rank % 2
    for step, dtype in enumerate(KINDS * 2):
        every = torch.randn(4, 1003, dtype=torch.float64, generator=torch.Generator().manual_seed(step)).to(dtype)
        lent = fabric.lend(torch.empty_like(every[0]), [])
        for body in (every[member.rank], lent):
            body.copy_(every[member.rank])
            wanted = every[first : first + 2].double().mean(0) if name == "inside" else every[first].double()
            heard = told(member, fabric, topology, body, step)
            assert heard.dtype == torch.promote_types(dtype, torch.float32)
            over_torch = told(member, fabric.beyond, topology, every[member.rank].clone(), step)
            torch.testing.assert_close(heard, over_torch, rtol=1e-6, atol=1e-6)
            assert (heard.double() - wanted).abs().max() < 1e-3
    assert not fabric.crossed[1]
    fabric.close()


def written() -> int:
    """Bytes this process has written to files and sockets, as the kernel counts them."""
    return int(re.findall(r"wchar: (\d+)", Path("/proc/self/io").read_text())[0])


@everywhere(worlds=(4,), fabrics=("hosts",))
def test_no_message_is_sent_for_what_a_host_mixes(member: Member) -> None:
    fabric, body = opened(member), torch.full((100_000,), float(member.rank))
    for topology, messages in ((Inside(2), 0), (Follow(2), 0), (Inside(4), 3)):  # the last is of two hosts
        dist.barrier()
        before = written()
        heard = told(member, fabric, topology, body, messages)
        assert written() - before == pytest.approx(messages * body.nbytes, rel=0.05, abs=20_000)
    assert heard[0] == 1.5
    fabric.close()


def trained(member: Member, strategy: str, momentum: float) -> torch.Tensor:
    """The parameters after two epochs in a loop of one's own."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum)
    _, _, batches = member.prepare(model, optimizer, loader(48, 12), strategy=strategy)
    for part in (*batches, *batches):
        optimizer.zero_grad()
        loss_of(model, part).backward()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@everywhere(worlds=(2, 3), fabrics=("shared", "torch"))
def test_one_host_is_an_allreduce_in_anybodys_loop(member: Member) -> None:
    found = []
    for strategy in (f"gossip_hosts(per_host={member.size})", "allreduce"):
        found.append(trained(member, strategy, momentum=0.9))
        member.same(found[-1])
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


@everywhere(worlds=(4,), fabrics=("hosts",))
def test_hosts_that_average_with_all_others_are_an_allreduce_for_plain_steps(member: Member) -> None:
    """The mean of hosts that stepped from one place is the step by the mean gradient."""
    strategies = ("gossip_hosts(per_host=2, graph=Complete())", "allreduce")
    found = [trained(member, strategy, momentum=0.0) for strategy in strategies]
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)
