"""The systems in which all wait for all, rehearsed, against their oracles: two to four members, twelve steps."""

from __future__ import annotations

import numpy as np
import pytest
from tests.papers import oracles, orders
from tests.papers.problem import EXACT, RATE, WRONG, gap, given, played

from gossamer.parts.merge import Outer
from gossamer.parts.payload import Payload
from gossamer.parts.route import Auto, Native, Ring, Torus
from gossamer.parts.synchrony import Synchrony
from gossamer.parts.topology import Cycle, Graph
from gossamer.strategy import Exchange, Strategy, as_strategy
from gossamer.strategy.catalog import allreduce, backup_workers, diloco, easgd, local_sgd, parameter_server, sgp

STEPS = 12
SIZES = pytest.mark.parametrize("size", [2, 3, 4])
MOMENTA = pytest.mark.parametrize("mu", [0.0, 0.9])
PERIODS = pytest.mark.parametrize("every", [1, 2, 5])  # 5 leaves steps over at the end


def replicas(strategy: Strategy, size: int, mu: float = 0.0, order: tuple[int, ...] | None = None):
    return played(strategy, size, STEPS, momentum=mu, order=order).outcome.replicas


@SIZES
@MOMENTA
@pytest.mark.parametrize("route", [Auto(), Native(), Ring(), Torus()], ids=repr)
def test_allreduce(size, mu, route):
    wanted = oracles.allreduce(*given(size, STEPS), RATE, mu)
    assert gap(replicas(allreduce(route), size, mu), wanted) < EXACT


def test_allreduce_rejects_a_mean_over_neighbours_only():
    wanted = oracles.allreduce(*given(4, STEPS), RATE)
    assert gap(replicas(as_strategy(Exchange(topology=Cycle())), 4), wanted) > WRONG


@SIZES
@MOMENTA
def test_parameter_server(size, mu):
    rehearsal = played(parameter_server(), size, STEPS, momentum=mu)
    wanted, server = oracles.parameter_server(*given(size, STEPS), RATE, mu)
    assert gap(rehearsal.outcome.replicas, wanted) < EXACT
    assert gap(rehearsal.hubs[0].hub.centre, server) < EXACT


def test_parameter_server_rejects_one_that_does_not_wait_for_the_last():
    wanted, _ = oracles.parameter_server(*given(3, STEPS), RATE)
    assert gap(replicas(backup_workers(1), 3, order=(0, 1, 2) * STEPS), wanted) > WRONG


@SIZES
@MOMENTA
@PERIODS
def test_easgd(size, mu, every):
    rehearsal = played(easgd(0.9, every), size, STEPS, momentum=mu)
    workers, centre = oracles.easgd(*given(size, STEPS), RATE, 0.9, every, mu)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT
    assert gap(rehearsal.hubs[0].hub.centre, centre) < EXACT


@pytest.mark.parametrize("wrong", [easgd(0.909, 2), easgd(0.9, 3), local_sgd(2)])
def test_easgd_rejects(wrong):
    workers, _ = oracles.easgd(*given(3, STEPS), RATE, 0.9, 2)
    assert gap(replicas(wrong, 3), workers) > WRONG


@SIZES
@MOMENTA
@PERIODS
def test_local_sgd(size, mu, every):
    wanted = oracles.local_sgd(*given(size, STEPS), RATE, every, mu)
    assert gap(replicas(local_sgd(every), size, mu), wanted) < EXACT


def test_local_sgd_rejects_another_period():
    assert gap(replicas(local_sgd(3), 3), oracles.local_sgd(*given(3, STEPS), RATE, 2)) > WRONG


@SIZES
@MOMENTA
@PERIODS
@pytest.mark.parametrize(("rate", "outer"), [(0.7, 0.9), (1.0, 0.0), (0.5, 0.5)])
def test_diloco(size, mu, every, rate, outer):
    wanted = oracles.diloco(*given(size, STEPS), RATE, every, rate, outer, mu)
    assert gap(replicas(diloco(every, rate, outer), size, mu), wanted) < EXACT


heavy_ball = Exchange(Payload.DELTAS, synchrony=Synchrony(every=3), merge=Outer(nesterov=False))


@pytest.mark.parametrize(
    "wrong", [as_strategy(heavy_ball), diloco(3, rate=0.707), diloco(3, momentum=0.909), diloco(4)]
)
def test_diloco_rejects(wrong):
    assert gap(replicas(wrong, 3), oracles.diloco(*given(3, STEPS), RATE, 3)) > WRONG


@SIZES
@MOMENTA
@PERIODS
def test_sgp(size, mu, every):
    wanted, mass = oracles.sgp(*given(size, STEPS), RATE, every, mu)
    rehearsal = played(sgp(every), size, STEPS, momentum=mu)
    assert gap(rehearsal.outcome.replicas, wanted) < EXACT
    assert [r.desks[0].mass for r in rehearsal.replicas] == pytest.approx(mass, abs=1e-12)


@pytest.mark.parametrize("size", [3, 4])
def test_sgp_rejects_partners_that_do_not_rotate(size):
    wanted, _ = oracles.sgp(*given(size, STEPS), RATE, graph=lambda n, k: oracles.exponential(n, 0))
    assert gap(replicas(sgp(), size), wanted) > WRONG


EDGES = ((0, 1), (1, 2), (2, 0), (0, 2))  # 0 speaks to two and hears one: masses move away from 1


def uneven(n: int, k: int) -> np.ndarray:
    """Column i: member i shared out evenly over itself and those it speaks to."""
    a = np.eye(n)
    for sender, receiver in EDGES:
        a[receiver, sender] = 1.0
    return a / a.sum(0)


@MOMENTA
@pytest.mark.parametrize("every", [1, 2])
def test_push_sum_on_an_uneven_graph(mu, every):
    strategy = as_strategy(Exchange(Payload.PARAMETERS, topology=Graph(EDGES), synchrony=Synchrony(every=every)))
    rehearsal = played(strategy, 3, STEPS, momentum=mu)
    wanted, mass = oracles.sgp(*given(3, STEPS), RATE, every, mu, graph=uneven)
    assert gap(rehearsal.outcome.replicas, wanted) < EXACT
    assert gap(rehearsal.outcome.model, mass @ wanted / 3) < EXACT
    assert [r.desks[0].mass for r in rehearsal.replicas] == pytest.approx(mass, abs=1e-12)
    assert np.ptp(mass) > 0.1  # the specimen does what it is here for


def test_push_sum_rejects_a_graph_whose_masses_are_forgotten():
    strategy = as_strategy(Exchange(Payload.PARAMETERS, topology=Graph(EDGES)))
    w, data = given(3, STEPS)
    forgetful, _ = oracles.sgp(w, data, RATE, graph=lambda n, k: uneven(n, k) / uneven(n, k).sum(1, keepdims=True))
    assert gap(replicas(strategy, 3), forgetful) > WRONG


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "strategy", [allreduce(), parameter_server(), easgd(every=2), local_sgd(3), diloco(3), sgp()], ids=repr
)
def test_who_is_first_in_a_round_does_not_matter(strategy, seed):
    order = orders.in_rounds(4, STEPS, seed)
    assert order != orders.in_rounds(4, STEPS, seed + 1)
    assert gap(replicas(strategy, 4, 0.9, order), replicas(strategy, 4, 0.9)) < EXACT


def test_between_two_averages_local_sgd_does_not_care_who_runs_ahead():
    order = (0, 0, 0, 2, 1, 1, 2, 1, 2) * (STEPS // 3)
    assert gap(replicas(local_sgd(3), 3, order=order), oracles.local_sgd(*given(3, STEPS), RATE, 3)) < EXACT
