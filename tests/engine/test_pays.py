"""Whether a codec pays follows from what it costs here and what it spares, and from nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf

import pytest

from gossamer.engine.pays import MOST, Balance, Cost, _cut, balances, below, cost, spared
from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Codec, Conversation, Half, Memory, OneBit, Size, TopK
from gossamer.parts.codec.wire import Shapes
from gossamer.parts.selection import Tag
from gossamer.parts.world import World
from gossamer.strategy import Exchange, parse
from gossamer.strategy.strategy import as_strategy

SHAPES = [(1000, 1000), (1000,)]
TAGS = [Tag(str(place), shape) for place, shape in enumerate(SHAPES)]


@dataclass(frozen=True, repr=False)
class Sluggish(Codec):
    """Another codec, made to take so many seconds to write and as many to read."""

    codec: Codec = OneBit()
    seconds: float = 0.002

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        talking = self.codec.converse(block, memory, chance)
        time.sleep(self.seconds)
        heard = yield next(talking)
        time.sleep(self.seconds)
        try:
            talking.send(heard)
        except StopIteration as end:
            mixed, heard_of_me = end.value
            return mixed, heard_of_me
        raise AssertionError("one turn")

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return self.codec.wire_bytes(shapes, itemsize)


def test_a_codec_a_hundred_times_as_slow_pays_on_links_a_hundred_times_as_slow() -> None:
    small, ratios = [Tag("", (100, 100))], []
    for _ in range(3):  # other tests may take the cores meanwhile
        strategies = [as_strategy(Exchange(codec=Sluggish(seconds=seconds))) for seconds in (0.003, 0.3)]
        quick, slow = (below(balances(each, World(2), small), 0.0) for each in strategies)
        ratios.append(quick / slow)
        if 80 < ratios[-1] < 125:
            return
    raise AssertionError(f"{ratios} times")


def test_even_is_where_both_take_as_long() -> None:
    one = Balance(0, Cost(0.02, 0.03), passed=1e6, rounds=3, dense_passed=6e6, dense_rounds=6)
    for latency in (0.0, 1e-3):
        even = one.below(latency) / 8
        for times, sign in ((0.25, -1), (1.0, 0), (4.0, 1)):
            coded, dense = one.seconds(times * even, latency)
            assert coded == pytest.approx(dense) if sign == 0 else (coded - dense) * sign > 0


def test_nowhere_and_everywhere() -> None:
    assert Balance(0, Cost(0.1, 0.1), 7e6, 3, 6e6, 6).below(0.0) == 0.0
    assert Balance(0, Cost(0.001, 0.001), 1e6, 3, 6e6, 6).below(1.0) == inf
    assert balances(as_strategy(Exchange(codec=TopK(1.0))), World(8), TAGS)[0].below(1e-4) == 0.0


def test_exchanges_without_a_lossy_codec_are_not_weighed() -> None:
    assert balances(parse("allreduce"), World(4), TAGS) == []
    (only,) = balances(parse("powersgd"), World(4), TAGS)
    assert only.slot == 0 and only.passed < only.dense_passed
    assert len(balances(parse("Staged(first=half(), step=5, then=one_bit())"), World(4), TAGS)) == 2


def test_more_bodies_take_longer_to_read_where_all_are_heard() -> None:
    few, many = (min(cost(OneBit(), SHAPES, bodies=bodies).read for _ in range(3)) for bodies in (1, 64))
    assert many > 8 * few
    one, more = (min(cost(Half(), SHAPES, bodies=bodies).read for _ in range(3)) for bodies in (1, 64))
    assert more < 4 * one  # summed on the way


def test_what_is_larger_than_is_played_costs_in_proportion() -> None:
    assert _cut(SHAPES) == (SHAPES, 1.0)
    few, share = _cut([(MOST // 2,), (MOST,), (5, 5)])
    assert few == [(MOST // 2,), (MOST // 2,)] and share == pytest.approx(MOST / (1.5 * MOST + 25))
    rows, share = _cut([(3 * MOST // 1000, 1000)])
    assert rows == [(MOST // 1000, 1000)] and share == pytest.approx(1 / 3)


def test_what_is_spared_is_that_of_the_stages_that_were_played() -> None:
    tags, world = [Tag("w", (100, 100))], World(4)
    half, late = (spared(parse(text), world, tags, 20) for text in ("half", "Staged(allreduce, 10, half)"))
    assert half == pytest.approx(1.5 * 2 * 10_000)
    assert spared(parse("Staged(half, 10, half)"), world, tags, 20) == pytest.approx(half)
    assert late == pytest.approx(half / 2) and spared(parse("Staged(allreduce, 10, half)"), world, tags, 5) == 0.0
