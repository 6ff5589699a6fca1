"""A hub's shards: cut evenly, together the hub that they were cut from, and their states one state."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor

from gossamer.engine.pushing import _sound
from gossamer.engine.shards import Shard, shared_out
from gossamer.parts.codec import Mean
from gossamer.parts.merge import Compensated, Elastic
from gossamer.parts.payload import Payload
from gossamer.parts.selection import Everything, Tag
from gossamer.parts.synchrony import Late, Synchrony
from gossamer.parts.topology import Hub as AtHub
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.replica import Chosen, Hub, Layout
from gossamer.replica.joined import cut, joined
from gossamer.replica.stretch import Stretch, balanced
from gossamer.strategy import Exchange, parse, slots

SHAPES = ((7, 3), (5,), (), (40,), (2, 2, 3))
COUNT = sum(prod(shape) for shape in SHAPES)
FREE = Synchrony(staleness=None, quorum=1, late=Late.APPLY)


def chosen() -> Chosen:
    return Chosen(tuple(Tag(f"t{n}", shape) for n, shape in enumerate(SHAPES)), Everything())


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, COUNT])
def test_stretches_are_even_and_leave_nothing_out(count: int) -> None:
    parts = balanced(chosen(), count, anywhere=True)
    assert len(parts) == count and max(p.count for p in parts) - min(p.count for p in parts) <= 1
    whole = torch.arange(COUNT)
    pieces = [piece.reshape(-1) for part in parts for piece in part.views(whole[slice(*part.bounds)])]
    assert torch.equal(torch.cat(pieces), whole)
    assert [p for part in parts for p in part.places] == sorted(p for part in parts for p in part.places)


def test_a_tensor_larger_than_its_share_is_cut() -> None:
    tensors = {len(part.places) for part in balanced(chosen(), 4, anywhere=True)}
    assert sum(3 in part.places for part in balanced(chosen(), 4, anywhere=True)) == 3 and tensors != {1}


def test_where_tensors_must_stay_whole_they_do() -> None:
    parts = balanced(chosen(), 6, anywhere=False)
    assert [shape for part in parts for shape in part.shapes] == list(SHAPES)
    assert len(parts) < 6, "the tensor of 40 is more than two shares"


def test_a_codec_that_looks_at_everything_is_told_to_one() -> None:
    layout, by = Layout([("w", torch.zeros(100, requires_grad=True))]), Optimizer()
    dense, sparse = (parse(f"Exchange(codec={codec}, topology=Hub())") for codec in ("Dense()", "TopK(0.1)"))
    assert [shard.owner for shard in shared_out(slots(dense), layout, by, range(3))[0]] == [0, 1, 2]
    assert [shard.owner for shard in shared_out(slots(sparse), layout, by, range(3))[0]] == [0]
    counts = [len(shared_out(slots(dense), layout, by, range(3), n)[0]) for n in (1, 33, 34, 50, 51, 101)]
    assert counts == [3, 3, 2, 2, 1, 1]
    assert str(Shard(0, 2, 4, 2, Stretch(chosen(), 0, 5))) == "shard 2 of 4 of the hub of slot 0"


def hubs(ex: Exchange, optimizer: Optimizer, count: int, size: int = 2) -> list[Hub]:
    start = torch.randn(COUNT, generator=torch.Generator().manual_seed(3))
    parts = balanced(chosen(), count, anywhere=True)
    return [Hub(ex, part, start[slice(*part.bounds)], World(size), optimizer) for part in parts]


def play(all_: list[Hub], rounds: int, seed: int) -> Tensor:
    """Members push in turn, each shard its stretch; what the last one hears of all of them."""
    draw, heard = torch.Generator().manual_seed(seed), torch.empty(0)
    for round in range(rounds):
        for member in (1, 0):
            told = torch.randn(COUNT, generator=draw)
            answers = [hub.push(member, round, Mean(told[slice(*hub.chosen.bounds)])) for hub in all_]
            heard = torch.cat([answer[-1][1].values for answer in answers]) if all(answers) else heard
    return heard


CASES: list[tuple[Exchange, Optimizer]] = [
    (Exchange(topology=AtHub()), Optimizer("sgd", 0.1, 0.9)),
    (Exchange(topology=AtHub(), synchrony=FREE), Optimizer("adam", 0.01)),
    (Exchange(topology=AtHub(), synchrony=FREE, merge=Compensated(0.1, adaptive=True)), Optimizer("sgd", 0.1)),
    (Exchange(Payload.PARAMETERS, topology=AtHub(), merge=Elastic(0.5, inertia=0.5)), Optimizer()),
]


@pytest.mark.parametrize("case", CASES)
def test_shards_are_the_hub(case: tuple[Exchange, Optimizer]) -> None:
    """To the bit: nothing that a hub does looks at two numbers at once."""
    (whole,), parts = hubs(*case, 1), hubs(*case, 3)
    assert torch.equal(play([whole], 4, 0), play(parts, 4, 0))
    assert torch.equal(whole.centre, torch.cat([hub.centre for hub in parts]))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("case", CASES)
def test_states_of_shards_are_one_state_however_they_are_cut(case: tuple[Exchange, Optimizer]) -> None:
    (whole,), parts = hubs(*case, 1), hubs(*case, 3)
    play([whole], 3, 0), play(parts, 3, 0)
    once = joined([hub.state() for hub in reversed(parts)], chosen())
    assert same(once, whole.state())
    others = hubs(*case, 4)
    for hub in others:
        assert isinstance(hub.chosen, Stretch)
        hub.resume(cut(once, hub.chosen))
    assert torch.equal(play([whole], 3, 9), play(others, 3, 9)), "they go on alike"
    parts[0].resume(cut(once, parts[0].chosen))  # type: ignore[arg-type]
    assert not same(joined([hub.state() for hub in parts], chosen()), whole.state()), "it has gone on since"


def test_a_shard_that_was_never_stepped_joins_with_those_that_were() -> None:
    case = CASES[0]
    (whole,), parts = hubs(*case, 1), hubs(*case, 3)
    for hub in parts[:2]:
        for member in (0, 1):
            hub.push(member, 0, Mean(torch.ones(hub.chosen.count)))
    state = joined([hub.state() for hub in parts], chosen())
    whole.resume(state)
    assert whole.steps is not None
    found = state["steps"][3]["momentum_buffer"]  # the tensor of 40, of which the last shard has some
    assert found.shape == (40,) and found[0] and not found[-1] and not state["steps"][-1]
    play([whole], 1, 0)


def test_tensors_of_nothing_are_in_one_stretch_and_in_no_other() -> None:
    shapes = ((0,), (3,), (0, 2), (4,), (0,))
    some = Chosen(tuple(Tag(f"t{n}", shape) for n, shape in enumerate(shapes)), Everything())
    for count in (1, 2, 3):
        assert [place for part in balanced(some, count, anywhere=False) for place in part.places] == [0, 1, 2, 3, 4]


def test_who_is_told_of_no_number_is_told_of_none() -> None:
    """A shard alone cannot know that the rest of a gradient was no number."""
    parts = [Shard(0, n, 2, n, part) for n, part in enumerate(balanced(chosen(), 2, anywhere=True))]
    told = torch.ones(COUNT)
    assert _sound(Mean(told), parts).body is told
    told[-1] = torch.inf
    assert _sound(Mean(told), parts).body.isnan().all()
    assert _sound(Mean(told), parts[:1]).body is told, "a hub that hears everything finds it by itself"
