"""Hosts that wait for no other, real processes without a script: some order of their moves explains what they come to.

A host's moves in a step: its members update, its master reads another's parameters, and takes them in.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from tests.papers.oracles import gradient
from tests.papers.problem import BATCH, RATE, batches, gap, start, tiny

from gossamer.engine.crew import Crew
from gossamer.parts.topology import RandomPeer
from gossamer.parts.world import World
from gossamer.strategy import parse

STEPS, SEED = 2, 7  # in both rounds each of the two hosts draws the other
MOVES = ("update", "read", "take")
Held = tuple[np.ndarray, list[list[tuple[np.ndarray, np.ndarray]]]]


def interleaved() -> Iterator[tuple[int, ...]]:
    """Every order in which two hosts can make their moves."""
    each = STEPS * len(MOVES)
    for mine in combinations(range(2 * each), each):
        yield tuple(0 if place in mine else 1 for place in range(2 * each))


def explained(held: Held, order: tuple[int, ...], *, mean: bool = True) -> np.ndarray:
    """What both hosts come to in this order of moves; without the mean, members follow their own gradients."""
    (w, data), moves, read = held, [0, 0], [np.empty(0)] * 2
    x = [w.copy(), w.copy()]
    for host in order:
        step, move = divmod(moves[host], len(MOVES))
        moves[host] += 1
        if MOVES[move] == "update":
            slopes = [gradient(x[host], worker[step]) for worker in data[2 * host : 2 * host + 2]]
            x[host] = x[host] - RATE * (np.mean(slopes, 0) if mean else slopes[0])
        elif MOVES[move] == "read":
            read[host] = x[1 - host]
        else:
            x[host] = (x[host] + read[host]) / 2
    return np.repeat(np.array(x), 2, 0)


@pytest.fixture(scope="module")
def held() -> Held:
    """The start, and the samples of every member and step."""
    task = tiny(SEED)
    return start(task), batches(task, World(4, SEED), STEPS)


def test_in_both_rounds_each_host_draws_the_other() -> None:
    drawn = [RandomPeer().drawn(host, round, World(2, SEED), 1) for round in range(STEPS) for host in (0, 1)]
    assert drawn == [[1], [0]] * STEPS


@pytest.mark.parametrize("fabric", ["torch", "messages", "shared"])
def test_hosts_that_pull_come_to_what_some_order_of_their_moves_explains(four: Crew, held: Held, fabric: str) -> None:
    strategy = repr(parse("gossip_hosts(graph=RandomPeer())"))
    task = "tests.papers.problem:tiny"
    found = four.run(
        strategy=strategy, task=task, batch=BATCH, steps=STEPS, rate=RATE, seed=SEED, fabric=fabric
    ).replicas
    orders = list(interleaved())
    assert min(gap(found, explained(held, order)) for order in orders) < 1e-12
    assert min(gap(found, explained(held, order, mean=False)) for order in orders) > 1e-6
