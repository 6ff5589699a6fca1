"""Real processes along every route: torch's own sum, the same bits everywhere, the bytes that were counted beforehand,
and no memory that was not there before."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from tests.processes.pool import Member, everywhere
from tests.processes.test_hot_path import Allocations
from tests.processes.travelling import ROUTES, WITHIN, AtOnce, Forgetful, Overstated, Sum, drawn, first

from gossamer.engine import mixes, routes, trip
from gossamer.engine.executor import Executor
from gossamer.engine.fabrics import Key
from gossamer.engine.fabrics.over_torch import OverTorch
from gossamer.parts.codec import Mean
from gossamer.parts.refusal import Refused
from gossamer.parts.route import BinaryBlocks, Direct, Doubling, HalvingDoubling, Ring, Route, Torus, Tree

WORLDS = range(2, 9)
LENGTHS = {torch.float32: (1, 2, 7, 1000, 100_003), torch.float64: (7, 1000)}
LENGTHS |= dict.fromkeys((torch.float16, torch.bfloat16), (1, 7, 1000))


def serves(route: Route, size: int) -> bool:
    """Whether the route takes so many members."""
    try:
        route.fits(size)
    except Refused:
        return False
    return True


@everywhere(worlds=(8,), fabrics=("torch",), among=WORLDS)
def test_every_route_is_torchs_sum(member: Member, among: int) -> None:
    group = first(among)
    if group is None:
        return
    by, taken = Executor(group), [route for route in ROUTES if serves(route, among)]
    for dtype, lengths in LENGTHS.items():
        for length in lengths:
            summed = Sum(length, dtype, group)
            for route in taken:
                summed.check(by, route)
    found = (wrong := Sum(31, torch.float32, group)).mine.clone()
    by.run(Forgetful(), found)
    assert wrong.error(found) > 0.1, "a wrong route is not told from the sum"


@everywhere(worlds=(8,), fabrics=("torch",), among=(3, 8))
def test_short_pieces_and_messages_at_once_change_nothing(member: Member, among: int) -> None:
    group = first(among)
    if group is None:
        return
    for dtype in WITHIN:
        summed = Sum(1001, dtype, group)
        for route in (Ring(), HalvingDoubling(), Doubling(), BinaryBlocks(), Direct(), Tree()):
            before, plain, cut = trip.PIECE, summed.mine.clone(), summed.mine.clone()
            Executor(group).run(route, plain)
            try:
                trip.PIECE = 64  # type: ignore[misc]
                Executor(group).run(route, cut)
            finally:
                trip.PIECE = before  # type: ignore[misc]
            assert torch.equal(plain, cut), f"{route!r} {dtype}"
            summed.check(AtOnce(group), route)


@everywhere(worlds=(8,), fabrics=("torch",), among=(4, 7))
def test_32_bits_that_travel_as_16_end_as_16_on_all_members(member: Member, among: int) -> None:
    group = first(among)
    if group is None:
        return
    by, summed = Executor(group), Sum(1001, torch.float16, group)
    for route in (route for route in ROUTES if serves(route, among)):
        found = summed.mine.float()
        by.run(route, found, wire=torch.float16)
        assert summed.error(found) < WITHIN[torch.float16], route
        assert torch.equal(found, found.half().float()), f"{route!r}: a sum was not rounded where it was made"
        theirs = found.clone()
        dist.broadcast(theirs, 0, group)
        assert torch.equal(found, theirs), f"{route!r}: member {by.member} ends with other bits than member 0"


@everywhere(worlds=(8,), fabrics=("torch",), among=(2, 3, 4))
def test_long_vectors(member: Member, among: int) -> None:
    group = first(among)
    if group is None:
        return
    by, length = Executor(group), 16_000_001
    along: dict[int, tuple[Route, ...]] = {2: (Torus(),), 3: (BinaryBlocks(), Ring()), 4: (HalvingDoubling(), Direct())}
    summed = Sum(length, torch.float32, group)
    for route in along[among]:
        summed.check(by, route)


@everywhere(worlds=(8,), fabrics=("torch",), kind=("float32", "float16"))
def test_nothing_is_allocated_after_the_first_time(member: Member, kind: str) -> None:
    group = first(3)
    if group is None:
        return
    by, length = Executor(group), 400_000
    for route in (Ring(), HalvingDoubling(), Doubling(), Direct(), Tree()):
        vector = drawn(length, getattr(torch, kind))
        by.run(route, vector)
        by.run(route, vector[: length // 2])
        with Allocations() as seen:
            by.run(route, vector)
            by.run(route, vector[: length // 2])
        assert seen.bytes < 1000, f"{route!r} made {seen.bytes} bytes"
    short, mean = drawn(length, torch.float16), torch.empty(length)
    mixes.mean_of_short(short, mean, by, 0)
    with Allocations() as seen:
        mixes.mean_of_short(short, mean, by, 0)
    assert seen.bytes < 1000, f"a mean of 16-bit numbers made {seen.bytes} bytes"
    with Allocations() as seen:
        Executor(group).run(Ring(), drawn(length))
    assert seen.bytes >= 4 * length, "an allocation was not seen"


@everywhere(worlds=(8,), fabrics=("torch",), among=(2, 5))
def test_the_operations_are_parts_of_torchs_sum(member: Member, among: int) -> None:
    group = first(among)
    for length in (1, 6, 1001) if group is not None else ():
        assert group is not None
        mine, wanted, root = drawn(length), drawn(length), length % among
        dist.all_reduce(wanted, group=group)
        scattered, rank = mine.clone(), dist.get_rank(group)
        own = slice(rank * length // among, (rank + 1) * length // among)
        torch.testing.assert_close(routes.reduce_scatter(scattered, group), wanted[own], rtol=0, atol=1e-5)
        torch.testing.assert_close(routes.all_gather(scattered, group), wanted, rtol=0, atol=1e-5)
        reduced = routes.reduce(mine, group, root)
        if rank == root:
            torch.testing.assert_close(reduced, wanted, rtol=0, atol=1e-5)
        torch.testing.assert_close(routes.broadcast(reduced, group, root), wanted, rtol=0, atol=1e-5)


@everywhere(worlds=(8,), fabrics=("torch",))
def test_a_group_numbers_its_own_members(member: Member) -> None:
    odd = [dist.new_group([0, 2, 4, 6]), dist.new_group([1, 3, 5, 7])][member.rank % 2]
    found, wanted = drawn(1000), drawn(1000)
    dist.all_reduce(wanted, group=odd)
    Executor(odd).run(HalvingDoubling(), found)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


@everywhere(worlds=(2,), fabrics=("torch",))
def test_bytes_that_were_not_announced_are_an_error(member: Member) -> None:
    assert dist.group.WORLD is not None
    fabric, key = OverTorch(dist.group.WORLD), Key(0, 0, 0)
    heard = fabric.everyone(key, Mean(torch.full((10,), float(member.rank))), Ring()).wait()
    assert heard.one().tolist() == [0.5] * 10
    with pytest.raises(RuntimeError, match=r"moved \(40, 40\) bytes.* where \(44, 40\) were recorded"):
        fabric.everyone(key, Mean(torch.ones(10)), Overstated()).wait()
    fabric.close()
