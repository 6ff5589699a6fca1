"""The systems that compress, rehearsed, against their oracles; what is random in them is handed to the oracle."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from tests.papers import oracles, orders
from tests.papers.problem import EXACT, RATE, WRONG, gap, given, played

from gossamer.parts.chance import Chance
from gossamer.parts.codec import DGC, Corrected, Dense, ErrorFeedback, PowerSGD, TopK
from gossamer.parts.selection import Dims, Everything, Matrices
from gossamer.strategy import Exchange, Strategy, as_strategy
from gossamer.strategy.catalog import dgc as sparing_dgc
from gossamer.strategy.catalog import powersgd

STEPS = 15
dgc = partial(sparing_dgc, where=Everything())
SIZES = pytest.mark.parametrize("size", [2, 3, 4])
MATRICES = [shape for shape in oracles.SHAPES if len(shape) == 2]


def first_factors(rank: int, seed: int = 0) -> list[np.ndarray]:
    """The random Q every member begins with, matrix by matrix."""
    blanks = [torch.empty(shape[1], min(rank, *shape), dtype=torch.float64) for shape in MATRICES]
    return [Chance(seed, 0, 0, 0).shared_normal(blank, place).numpy() for place, blank in enumerate(blanks)]


def replicas(strategy: Strategy, size: int, mu: float = 0.0, order: tuple[int, ...] | None = None):
    return played(strategy, size, STEPS, momentum=mu, order=order).outcome.replicas


@SIZES
@pytest.mark.parametrize("mu", [0.0, 0.9])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_powersgd(size, mu, rank):
    wanted = oracles.powersgd(*given(size, STEPS), RATE, first_factors(rank), mu)
    assert gap(replicas(powersgd(rank), size, mu), wanted) < EXACT


def test_powersgd_does_not_depend_on_the_signs_a_factorisation_chooses():
    flipped = [q * np.array([1, -1]) for q in first_factors(2)]
    wanted = oracles.powersgd(*given(3, STEPS), RATE, flipped)
    assert gap(replicas(powersgd(2), 3), wanted) < EXACT


forgets = Exchange(where=Dims(least=2), codec=PowerSGD(2)) + Exchange(where=Dims(most=1))
vectors_alone = Exchange(where=Dims(least=2), codec=ErrorFeedback(PowerSGD(2))) + Exchange(where=Dims(least=2))


@pytest.mark.parametrize("wrong", [powersgd(1), powersgd(3), forgets, vectors_alone], ids=repr)
def test_powersgd_rejects(wrong):
    wanted = oracles.powersgd(*given(3, STEPS), RATE, first_factors(2))
    assert gap(replicas(wrong, 3), wanted) > WRONG


def test_powersgd_rejects_another_beginning():
    wanted = oracles.powersgd(*given(3, STEPS), RATE, first_factors(2, seed=1))
    assert gap(replicas(powersgd(2), 3), wanted) > WRONG


@SIZES
@pytest.mark.parametrize("masking", [True, False])
@pytest.mark.parametrize("warmup", [0, 10])
@pytest.mark.parametrize(("density", "momentum"), [(0.001, 0.9), (0.1, 0.5), (0.4, 0.9), (0.3, 0.0)])
def test_dgc(size, masking, warmup, density, momentum):
    wanted = oracles.dgc(*given(size, STEPS), RATE, density, momentum, masking, warmup)
    assert gap(replicas(dgc(density, momentum, masking, warmup), size), wanted) < EXACT


@SIZES
@pytest.mark.parametrize("masking", [True, False])
def test_dgc_with_nesterov(size, masking):
    strategy = as_strategy(Exchange(codec=DGC(0.2, nesterov=True, masking=masking)))
    wanted = oracles.dgc(*given(size, STEPS), RATE, 0.2, masking=masking, nesterov=True)
    assert gap(replicas(strategy, size), wanted) < EXACT


@SIZES
@pytest.mark.parametrize("clip", [0.01, 0.3, 100.0])
def test_dgc_with_clipping(size, clip):
    wanted = oracles.dgc(*given(size, STEPS), RATE, 0.2, clip=clip)
    assert gap(replicas(dgc(0.2, clip=clip), size), wanted) < EXACT


@pytest.mark.parametrize("wrong", [dgc(0.2), dgc(0.2, clip=0.3 * 3**0.5), dgc(0.2, clip=0.2)], ids=repr)
def test_dgc_with_clipping_rejects(wrong):
    assert gap(replicas(wrong, 3), oracles.dgc(*given(3, STEPS), RATE, 0.2, clip=0.3)) > WRONG


@SIZES
@pytest.mark.parametrize("masking", [True, False])
@pytest.mark.parametrize("nesterov", [True, False])
def test_momentum_correction_around_the_largest_is_dgc(size, masking, nesterov):
    strategy = as_strategy(Exchange(codec=Corrected(TopK(0.2), 0.8, nesterov, masking, clip=0.5)))
    wanted = oracles.dgc(*given(size, STEPS), RATE, 0.2, 0.8, masking, nesterov=nesterov, clip=0.5)
    assert gap(replicas(strategy, size), wanted) < EXACT


@SIZES
def test_momentum_correction_around_what_goes_as_it_is_is_momentum(size):
    strategy = as_strategy(Exchange(codec=Corrected(Dense(), 0.8)))
    assert gap(replicas(strategy, size), oracles.allreduce(*given(size, STEPS), RATE, 0.8)) < EXACT
    assert gap(replicas(strategy, size), oracles.allreduce(*given(size, STEPS), RATE, 0.7)) > WRONG


@SIZES
@pytest.mark.parametrize("masking", [True, False])
def test_dgc_spares_vectors(size, masking):
    wanted = oracles.dgc(*given(size, STEPS), RATE, 0.2, masking=masking, spared=True)
    assert gap(replicas(sparing_dgc(0.2, masking=masking, where=Matrices(0)), size), wanted) < EXACT
    assert gap(replicas(dgc(0.2, masking=masking), size), wanted) > WRONG


plain_top = as_strategy(Exchange(codec=ErrorFeedback(TopK(0.2))))
nesterov = as_strategy(Exchange(codec=DGC(0.2, nesterov=True)))


@pytest.mark.parametrize(
    "wrong", [dgc(0.2, masking=False), dgc(0.25), dgc(0.2, 0.909), dgc(0.2, warmup=4), plain_top, nesterov], ids=repr
)
def test_dgc_rejects(wrong):
    assert gap(replicas(wrong, 3), oracles.dgc(*given(3, STEPS), RATE, 0.2)) > WRONG


@pytest.mark.parametrize("strategy", [powersgd(2), dgc(0.2)], ids=repr)
def test_who_is_first_in_a_round_does_not_matter(strategy):
    order = orders.in_rounds(4, STEPS, 1)
    assert gap(replicas(strategy, 4, order=order), replicas(strategy, 4)) < EXACT
