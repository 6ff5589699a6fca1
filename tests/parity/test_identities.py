"""Where the papers say two systems are one: no slack left, forces that balance, compression that drops nothing."""

from __future__ import annotations

import pytest
import torch
from tests.papers.problem import (
    BATCH,
    EXACT,
    RATE,
    WRONG,
    gap,
    in_one_process,
    played,
    small_digits,
    tiny,
    tiny_32,
    trained,
)
from torch import Tensor

from gossamer.parts.merge import Elastic, Share
from gossamer.parts.payload import Order, Payload
from gossamer.parts.selection import Everything
from gossamer.parts.synchrony import Late, Synchrony
from gossamer.parts.topology import Hub, RandomPeer
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan, Rehearsal
from gossamer.strategy import AnyStrategy, Exchange, as_strategy
from gossamer.strategy.catalog import (
    allreduce,
    dgc,
    easgd,
    gossip_pull,
    local_sgd,
    parameter_server,
    powersgd,
    ssp,
)

SIZES = pytest.mark.parametrize("size", [2, 3, 4])
MOMENTA = pytest.mark.parametrize("mu", [0.0, 0.9])


def replicas(strategy: AnyStrategy, size: int, steps: int = 12, **more) -> Tensor:
    return played(strategy, size, steps, **more).outcome.replicas


# ---- relaxations at zero


@SIZES
def test_no_staleness_is_the_synchronous_server(size):
    assert ssp(staleness=0) == parameter_server()
    assert gap(replicas(ssp(0), size), replicas(allreduce(), size)) < EXACT
    order = tuple(range(size)) * 12
    assert gap(replicas(ssp(1), size, order=order), replicas(allreduce(), size)) > WRONG


@SIZES
def test_applying_each_gradient_for_its_share_at_staleness_0_is_synchronous(size):
    synchrony = Synchrony(staleness=0, quorum=1, late=Late.APPLY)
    one_by_one = as_strategy(Exchange(topology=Hub(), synchrony=synchrony, merge=Share()))
    found = replicas(one_by_one, size, order=tuple(range(size)) * 12)
    assert gap(found, replicas(allreduce(), size)) < EXACT


@SIZES
@MOMENTA
def test_a_server_is_an_allreduce(size, mu):
    wanted = replicas(allreduce(), size, momentum=mu)
    assert gap(replicas(parameter_server(), size, momentum=mu), wanted) < EXACT
    assert gap(replicas(parameter_server(), size, momentum=0.5), wanted) > WRONG


@SIZES
def test_averaging_parameters_after_every_step_is_averaging_gradients(size):
    wanted = replicas(allreduce(), size)
    assert gap(replicas(local_sgd(every=1), size), wanted) < EXACT
    assert gap(replicas(local_sgd(every=2), size), wanted) > WRONG


def test_a_plan_played_twice_is_the_same_run_bit_for_bit():
    plan = Plan(tiny(), gossip_pull(), World(3), Optimizer("sgd", RATE), BATCH, order=(0, 1, 2, 1) * 5)
    once = Rehearsal(plan).run().replicas.clone()
    assert torch.equal(once, Rehearsal(plan).run().replicas)


# ---- gossip and elastic force


@pytest.mark.parametrize("puller", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_pull_changes_only_the_puller(puller, seed):
    apart = (0, 1, 1, 2, 3, 3, 0)
    before = replicas(gossip_pull(), 4, order=apart, seed=seed)
    after = replicas(gossip_pull(), 4, order=(*apart, puller), seed=seed)
    changed = [member for member in range(4) if not torch.equal(before[member], after[member])]
    assert changed == [puller]


@pytest.mark.parametrize("pulls", [1, 2])
def test_drawing_oneself_changes_not_a_bit(pulls):
    def draws(seed: int) -> set[int]:
        return set(RandomPeer(pulls).drawn(0, 0, World(3, seed), 0))

    order, alone = (1, 2, 2, 0, 0), local_sgd(every=10**6)
    itself = next(seed for seed in range(1000) if draws(seed) == {0})
    other = next(seed for seed in range(1000) if draws(seed) == {1})
    for seed, same in ((itself, True), (other, False)):
        pulled = played(gossip_pull(pulls, every=2), 3, order=order, seed=seed)
        before = replicas(gossip_pull(pulls, every=2), 3, order=order[:-1], seed=seed)
        unmixed = replicas(alone, 3, order=order, seed=seed)
        assert not torch.equal(pulled.parameters[0], before[0])
        assert torch.equal(pulled.parameters[0], unmixed[0]) == same


def pulled(strategy: AnyStrategy, size: int, order: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scattered replicas and the centre before and after a run whose learning rate is too small to move anything."""
    plan = Plan(tiny(), strategy, World(size), Optimizer("sgd", 1e-300), BATCH, order=order)
    rehearsal = Rehearsal(plan)
    rehearsal.parameters.copy_(torch.randn(rehearsal.parameters.shape, generator=torch.Generator().manual_seed(7)))
    before, centre = rehearsal.parameters.clone(), rehearsal.hubs[0].hub.centre.clone()
    rehearsal.run()
    return before, rehearsal.parameters, centre, rehearsal.hubs[0].hub.centre


@SIZES
@pytest.mark.parametrize("rate", [0.9, 0.4])
def test_the_elastic_force_is_rate_over_workers_and_acts_on_both_alike(size, rate):
    before, after, centre, moved = pulled(easgd(rate, every=1), size, tuple(range(size)))
    assert gap(after - before, -(rate / size) * (before - centre)) < 1e-15
    assert gap(moved - centre, (before - after).sum(0)) < 1e-15
    assert gap(after - before, -rate * (before - centre)) > WRONG


@pytest.mark.parametrize("staleness", [None, 1])
def test_the_elastic_force_acts_on_both_alike_without_rounds(staleness):
    synchrony = Synchrony(staleness=staleness, quorum=1, late=Late.APPLY)
    ex = Exchange(Payload.PARAMETERS, topology=Hub(), synchrony=synchrony, merge=Elastic(0.9), order=Order.BEFORE)
    order = (0, 0, 1, 2, 2, 1) * 3  # with a staleness of 1 member 0's second turn waits for the others
    before, after, centre, moved = pulled(as_strategy(ex), 3, order)
    assert gap(moved - centre, (before - after).sum(0)) < 1e-13
    assert gap(moved, centre) > WRONG


# ---- compression that drops nothing


TASKS = pytest.mark.parametrize("task", [tiny_32, small_digits])
DGC, DGC_MASKED = (dgc(density=1.0, masking=masks, where=Everything()) for masks in (False, True))


@TASKS
def test_dgc_that_sends_everything_is_momentum_sgd_bit_for_bit_at_one_worker(task):
    found = trained(task(), DGC, 1, 20)
    assert torch.equal(found, in_one_process(task(), 1, 20, mu=0.9))
    assert not torch.equal(found, in_one_process(task(), 1, 20, mu=0.8))


@TASKS
@SIZES
def test_dgc_that_sends_everything_is_momentum_sgd(task, size):
    wanted = trained(task(), allreduce(), size, 12, mu=0.9)
    assert gap(trained(task(), DGC, size, 12), wanted) < 1e-6
    assert gap(trained(task(), DGC_MASKED, size, 12), wanted) > 1e-3


@TASKS
@SIZES
def test_dgc_that_sends_everything_and_masks_has_no_momentum(task, size):
    wanted = trained(task(), allreduce(), size, 12)
    assert gap(trained(task(), DGC_MASKED, size, 12), wanted) < 1e-6
    assert gap(trained(task(), DGC, size, 12), wanted) > 1e-3


@TASKS
@pytest.mark.parametrize("size", [2, 4])
@MOMENTA
def test_powersgd_of_full_rank_is_dense(task, size, mu):
    wanted = trained(task(), allreduce(), size, 20, mu)
    assert gap(trained(task(), powersgd(rank=64), size, 20, mu), wanted) < 1e-4
    assert gap(trained(task(), powersgd(rank=1), size, 20, mu), wanted) > 1e-3
