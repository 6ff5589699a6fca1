"""The hosts fabric: each way gives the mean, to the bit the same on all members, and its bytes are the route's own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.processes.pool import Member, everywhere

from gossamer.engine.fabrics.fabric import Key
from gossamer.parts.codec import Mean
from gossamer.parts.refusal import Refused
from gossamer.parts.route import (
    Auto,
    Direct,
    Doubling,
    HalvingDoubling,
    Hierarchical,
    Native,
    Ring,
    Route,
    Torus,
    counted,
    crossing,
)  # fmt: skip

LENGTHS = (1, 2, 7, 1000, 100_003)
EVEN = {"auto": Auto(), "torus": Torus(2), "masters": Hierarchical(2), "doubling": Hierarchical(2, Doubling())}
EVEN |= {"direct": Hierarchical(2, Direct())}
FLAT = {"ring": Ring(), "halving": HalvingDoubling(), "native": Native()}
WITHIN = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def opened(member: Member) -> Any:
    """The fabric itself."""
    from gossamer.engine.loop.carried import fabrics
    from gossamer.engine.loop.place import join

    return fabrics(join(), "hosts", [])[0]()


def mean_of(member: Member, mine: torch.Tensor) -> torch.Tensor:
    """What it should be, by the backend's own collective in 64 bits."""
    import torch.distributed as dist

    total = mine.double().clone()
    dist.all_reduce(total)
    return total / member.size


def mixes(member: Member, fabric: Any, route: Route) -> None:
    """Lengths and types, where they lie and copied in; errors are held against the largest number of all."""
    import torch.distributed as dist

    for length in LENGTHS:
        for dtype, within in WITHIN.items():
            torch.manual_seed(1000 * member.rank + length)
            mine = torch.randn(length, dtype=torch.float64).to(dtype)
            wanted = mean_of(member, mine)
            largest = mine.double().abs().max().reshape(1)
            dist.all_reduce(largest, dist.ReduceOp.MAX)
            lent = fabric.lend(torch.empty_like(mine), [])
            for body in (lent, mine):
                lent.copy_(mine)
                heard = fabric.everyone(Key(0, 0, 0, 0), Mean(body), route).wait().whole
                assert (heard.double() - wanted).abs().max() <= within * largest.item(), (length, dtype)
                member.same(heard)


@everywhere(worlds=(4,), fabrics=("hosts",), name=(*EVEN, *FLAT))
def test_every_route_gives_the_mean(member: Member, name: str) -> None:
    fabric = opened(member)
    mixes(member, fabric, {**EVEN, **FLAT}[name])
    fabric.close()


@everywhere(worlds=(3, 5), fabrics=("hosts",), name=("auto", *FLAT))
def test_hosts_of_different_sizes(member: Member, name: str) -> None:
    fabric = opened(member)
    mixes(member, fabric, {**EVEN, **FLAT}[name])
    fabric.close()


@everywhere(worlds=(3,), fabrics=("hosts",))
def test_a_torus_needs_hosts_of_one_size(member: Member) -> None:
    fabric = opened(member)
    with pytest.raises(Refused, match=r"2 \+ 1 workers make no grid.*Hierarchical"):
        fabric.everyone(Key(0, 0, 0, 0), Mean(torch.zeros(8)), Torus(2))
    fabric.close()


@everywhere(worlds=(4,), fabrics=("hosts",), name=("torus", "masters", "doubling", "direct", *FLAT))
def test_bytes_are_those_of_the_route(member: Member, name: str) -> None:
    fabric, route, length = opened(member), {**EVEN, **FLAT}[name], 4096
    fabric.everyone(Key(3, 0, 0, 0), Mean(torch.zeros(length)), route).wait()
    import torch.distributed as dist

    crossed = torch.tensor([float(fabric.crossed[3])])
    pairs = [torch.zeros(1) for _ in range(member.size)]
    dist.all_gather(pairs, crossed)
    by_host = [sum(each.item() for each in pairs[host : host + 2]) for host in (0, 2)]
    assert by_host == [4 * elements for elements in crossing(route, 4, 2, length)]
    if name in ("torus", *FLAT):
        assert fabric.sent[3] == 4 * counted(route, member.rank, 4, length)[0]
    fabric.close()


@everywhere(worlds=(3, 4), fabrics=("hosts",))
def test_all_members_choose_alike_from_what_was_seen_at_two_lengths(member: Member) -> None:
    import torch.distributed as dist

    fabric = opened(member)
    choice = fabric.choice
    assert choice.lengths[1] == 16 * choice.lengths[0] >= 1 << 16
    assert all(0 < seconds < 5 for _, times in choice.seen for seconds in times)
    mine = torch.tensor([choice.add, *(seconds for _, times in choice.seen for seconds in times)])
    theirs = mine.clone()
    dist.broadcast(theirs, 0)
    assert torch.equal(mine, theirs)
    ways = [(way.columns, way.among) for way, _ in choice.seen]
    assert (False, Direct()) in ways and ((True, Native()) in ways) is (member.size == 4)  # 2 + 1 make no columns
    fabric.close()


@everywhere(worlds=(4,), fabrics=("hosts",))
def test_many_buckets_under_way_at_once(member: Member) -> None:
    fabric, cuts = opened(member), [100, 5000, 5001, 70_000]
    lent = fabric.lend(torch.zeros(100_000), cuts)
    edges = [0, *cuts, 100_000]
    for step in range(5):
        lent.copy_(torch.arange(100_000) * (member.rank + 1.0 + step))
        spans = [lent[left:right] for left, right in pairwise(edges)]
        under = [fabric.everyone(Key(0, step, 0, n), Mean(span), Auto()) for n, span in enumerate(spans)]
        for pending in under:
            pending.wait()
        assert torch.allclose(lent, torch.arange(100_000) * (2.5 + step))
    fabric.close()


@everywhere(worlds=(4,), fabrics=("hosts",))
def test_small_numbers_of_16_bits_and_none_at_all(member: Member) -> None:
    fabric = opened(member)
    for value in (1.013e-6, 1.79e-7, 5.96e-8):
        body = torch.full((1000,), value, dtype=torch.float16)
        heard = fabric.everyone(Key(0, 0, 0, 0), Mean(body), Auto()).wait().whole
        assert torch.equal(heard, body.float())
    assert fabric.everyone(Key(0, 0, 0, 1), Mean(torch.zeros(0)), Auto()).wait().whole.numel() == 0
    fabric.close()
