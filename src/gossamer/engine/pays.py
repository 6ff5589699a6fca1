"""Whether codecs pay: what they cost to write and to read on this machine, against what they spare on a link.

Plays codecs on random numbers; sends nothing. One thread, as a worker has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, prod
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, Codec, Dense, Each, Heard, Memory, alone
from gossamer.parts.selection import Tag
from gossamer.parts.topology import Complete
from gossamer.parts.world import World
from gossamer.strategy.describe import Load, loads
from gossamer.strategy.strategy import AnyStrategy, Staged, Strategy

if TYPE_CHECKING:
    from torch import Tensor

MOST = 5_000_000  # elements that are played; what is larger costs in proportion
PLAYS = 3  # with one body to read, and as many with MANY: what there is to do once, and for each of them
MANY = 4


@dataclass(frozen=True)
class Cost:
    """Seconds of one member in one exchange: until all its wires are written, and to read what comes back."""

    write: float
    read: float


@dataclass(frozen=True)
class Balance:
    """An exchange with a codec beside the same without: its cost, and what passes its link in turn, in both cases."""

    slot: int
    cost: Cost
    passed: float  # bytes one after the other
    rounds: int
    dense_passed: float
    dense_rounds: int

    def below(self, latency: float) -> float:
        """The bits a second of a link below which the codec pays; 0 if nowhere, infinite if everywhere."""
        return below([self], latency)

    def seconds(self, link: float, latency: float) -> tuple[float, float]:
        """Seconds of the exchange on a link of so many bytes a second: with the codec, without."""
        coded = self.cost.write + self.passed / link + self.rounds * latency + self.cost.read
        return coded, self.dense_passed / link + self.dense_rounds * latency


def below(balances: Sequence[Balance], latency: float) -> float:
    """The bits a second below which what is spared on the link is worth what it costs, of exchanges one by one.

    0 also where it pays on fast links alone, by fewer rounds: ask for the seconds there.
    """
    spared = sum(each.dense_passed - each.passed for each in balances)
    spent = sum(each.cost.write + each.cost.read + (each.rounds - each.dense_rounds) * latency for each in balances)
    if spent > 0:
        return max(0.0, 8 * spared / spent)
    return inf if spared >= 0 else 0.0


def balances(strategy: AnyStrategy, world: World, tags: Sequence[Tag]) -> list[Balance]:
    """One for every exchange whose codec loses something, with its cost as measured here and now."""
    found = []
    for load, plain in zip(loads(strategy, world, tags), loads(_dense(strategy), world, tags), strict=True):
        places = load.exchange.where.pick(tags)
        if load.exchange.codec.compresses and places:
            spent = cost(load.exchange.codec, [tags[place].shape for place in places], world.size, _bodies(load, world))
            found.append(Balance(load.slot, spent, load.passed, load.rounds, plain.passed, plain.rounds))
    return found


def spared(strategy: AnyStrategy, world: World, tags: Sequence[Tag], steps: int) -> float:
    """Bytes, one after the other, that codecs keep off a member's link in a step, the mean over so many of them."""
    both = list(zip(loads(strategy, world, tags), loads(_dense(strategy), world, tags), strict=True))
    starts = sorted({load.first for load, _ in both})
    ends = {first: min(steps, later) for first, later in pairwise([*starts, steps])}
    shares = {first: max(0, end - first) / max(1, steps) for first, end in ends.items()}
    return sum(
        shares[load.first] * (plain.passed - load.passed) / load.exchange.synchrony.every for load, plain in both
    )


def cost(codec: Codec, shapes: Sequence[tuple[int, ...]], members: int = 2, bodies: int = 2) -> Cost:
    """What a codec costs here, where so many bodies are read."""
    import torch

    few, share = _cut(shapes)
    flat = torch.randn(sum(map(prod, few)), generator=torch.Generator().manual_seed(0))
    block = Block(flat, tuple(few), flat.clone() if codec.looks_beside else None, members)
    threads, memory = torch.get_num_threads(), dict[str, "Tensor"]()
    torch.set_num_threads(1)
    try:
        for step in range(2):
            _play(codec, block, memory, step, 1)  # to warm up
        plays = [_play(codec, block, memory, step, heard) for step in range(2, 2 + PLAYS) for heard in (1, MANY)]
    finally:
        torch.set_num_threads(threads)
    write, one, many = (median(seconds) for seconds in (
        [play[0] for play in plays], [play[1] for play in plays[::2]], [play[1] for play in plays[1::2]],
    ))  # fmt: skip
    each = max(0.0, many - one) / (MANY - 1)
    return Cost(write / share, (one + each * (bodies - 1)) / share)


def _play(codec: Codec, block: Block, memory: Memory, step: int, heard: int) -> tuple[float, float]:
    """Seconds to write all wires, and to read what comes back: of an Each wire so many bodies."""
    talking = codec.converse(block, memory, Chance(0, 0, step, 0))
    write, began = 0.0, perf_counter()
    wire = next(talking)
    for _ in range(len(codec.wire_bytes(block.shapes, block.flat.element_size())) - 1):
        write += perf_counter() - began
        began = perf_counter()
        wire = talking.send(alone(wire))
    write += perf_counter() - began
    back = Heard(apart=((1 / heard, wire.body),) * heard) if isinstance(wire, Each) else alone(wire)
    began = perf_counter()
    try:
        talking.send(back)
    except StopIteration:
        return write, perf_counter() - began
    raise AssertionError(f"{codec!r} speaks more often than it says")


def _bodies(load: Load, world: World) -> int:
    """How many wires one place reads in an exchange: a member that hears all, or the hub."""
    complete = isinstance(load.exchange.topology, Complete)
    return world.size if complete or load.exchange.hub else max(1, load.rounds)


def _cut(shapes: Sequence[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], float]:
    """As many of the tensors as are played, the last one cut, and their share of all elements."""
    total, few = sum(map(prod, shapes)), list[tuple[int, ...]]()
    for shape in shapes:
        left = MOST - sum(map(prod, few))
        if prod(shape) <= left:
            few.append(shape)
        elif left > 0 and prod(shape[1:]) <= left:
            few.append((left // prod(shape[1:]), *shape[1:]))
        elif left > 0:
            few.append((left,))
    return few, sum(map(prod, few)) / max(1, total)


def _dense(strategy: AnyStrategy) -> AnyStrategy:
    """The same with every number sent as it is."""
    if isinstance(strategy, Staged):
        return replace(strategy, first=_plainly(strategy.first), then=_plainly(strategy.then))
    return _plainly(strategy)


def _plainly(strategy: Strategy) -> Strategy:
    return Strategy(tuple(replace(ex, codec=Dense()) if ex.codec.compresses else ex for ex in strategy.exchanges))
