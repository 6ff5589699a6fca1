"""The systems in which not all wait for all, rehearsed on scripted orders of turns, against their oracles."""

from __future__ import annotations

import pytest
from tests.papers import oracles, orders
from tests.papers.problem import EXACT, RATE, WRONG, gap, given, played

from gossamer.parts.merge import Adopt, Elastic
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.synchrony import AllBut, Late, Synchrony
from gossamer.parts.topology import Hub, RandomPeer
from gossamer.parts.world import World
from gossamer.sim import Rehearsal
from gossamer.strategy import Exchange, as_strategy
from gossamer.strategy.catalog import backup_workers, downpour, gossip_pull, parameter_server, ssp

TURNS = 40
PACES = pytest.mark.parametrize("paces", [(1, 3), (1, 1, 1), (5, 2, 1), (8, 1, 4, 1)], ids=str)
MOMENTA = pytest.mark.parametrize("mu", [0.0, 0.9])
SEEDS = pytest.mark.parametrize("seed", [1, 2])
FREE = Synchrony(staleness=None, quorum=1, late=Late.APPLY)


def ages(rehearsal: Rehearsal, every: int = 1) -> list[list[int]]:
    """Member by member, the recorded staleness of the steps that spoke to the hub."""
    told = [record for record in rehearsal.outcome.steps if (record.step + 1) % every == 0]
    return [[r.staleness for r in told if r.member == member] for member in range(rehearsal.world.size)]


def heard(found: list[list[int]], wanted: list[list[int]]) -> bool:
    """Whether the records agree with the oracle; a step still waiting for its answer has no record yet."""
    return all(mine == all_of_mine[: len(mine)] for mine, all_of_mine in zip(found, wanted, strict=True))


@PACES
@MOMENTA
@SEEDS
@pytest.mark.parametrize("bound", [1, 2, 5])
def test_ssp(paces, mu, seed, bound):
    order = orders.bounded(paces, TURNS, bound, seed)
    rehearsal = played(ssp(bound), len(paces), momentum=mu, order=order)
    workers, server, old = oracles.ssp(*given(len(paces), TURNS), RATE, order, bound, mu)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT
    assert gap(rehearsal.hubs[0].hub.centre, server) < EXACT
    assert heard(ages(rehearsal), old)


WAITED = (0, 0, 0, 1, 1, 2, 2, 2, 1, 0, 1, 2)  # with a bound of 2 member 0 waits for 2 from its third turn on


def test_ssp_on_an_order_written_by_hand():
    workers, _, old = oracles.ssp(*given(3, 12), RATE, WAITED, 2)
    rehearsal = played(ssp(2), 3, order=WAITED)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT
    assert ages(rehearsal) == old == [[0, 0, 0, 3], [3, 0, 3, 1], [5, 0, 0, 3]]


everyone_counts_whole = as_strategy(
    Exchange(topology=Hub(), synchrony=Synchrony(staleness=2, quorum=1, late=Late.APPLY), merge=Adopt())
)


@pytest.mark.parametrize("wrong", [ssp(3), everyone_counts_whole], ids=repr)
def test_ssp_rejects(wrong):
    workers, _, _ = oracles.ssp(*given(3, 12), RATE, WAITED, 2)
    assert gap(played(wrong, 3, order=WAITED).outcome.replicas, workers) > WRONG


@pytest.mark.parametrize("bound", [1, 2, 5])
def test_ssp_refuses_a_turn_to_a_member_that_must_wait(bound):
    allowed = (0,) * (bound + 1)
    assert len(played(ssp(bound), 2, order=allowed).outcome.steps) == bound
    with pytest.raises(Refused, match=f"entry {bound + 1} member 0 is still waiting"):
        played(ssp(bound), 2, order=(*allowed, 0))
    assert len(played(ssp(bound), 2, order=(*allowed, 1, 0)).outcome.steps) == bound + 2


def test_a_synchronous_server_refuses_a_second_turn_in_a_round():
    with pytest.raises(Refused, match="entry 1 member 0 is still waiting"):
        played(parameter_server(), 2, order=(0, 0, 1))


@PACES
@MOMENTA
@SEEDS
@pytest.mark.parametrize("every", [1, 2, 3])
def test_downpour(paces, mu, seed, every):
    order = orders.paced(paces, TURNS, seed)
    rehearsal = played(downpour(every), len(paces), momentum=mu, order=order)
    workers, server, old = oracles.downpour(*given(len(paces), TURNS), RATE, order, every, mu)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT
    assert gap(rehearsal.hubs[0].hub.centre, server) < EXACT
    assert ages(rehearsal, every) == old


@pytest.mark.parametrize("wrong", [downpour(2), downpour(4)], ids=repr)
def test_downpour_rejects_another_period(wrong):
    order = orders.paced((1, 2, 3), TURNS, 1)
    workers, _, _ = oracles.downpour(*given(3, TURNS), RATE, order, 3)
    assert gap(played(wrong, 3, order=order).outcome.replicas, workers) > WRONG


def test_downpour_rejects_another_order():
    order = orders.paced((1, 2, 3), TURNS, 1)
    swapped = (*order[:10], *sorted(order[10:16]), *order[16:])
    assert swapped != order
    workers, _, _ = oracles.downpour(*given(3, TURNS), RATE, order, 1)
    assert gap(played(downpour(1), 3, order=swapped).outcome.replicas, workers) > WRONG


@pytest.mark.parametrize("paces", [(1, 1, 1), (5, 2, 1), (8, 1, 4, 1)], ids=str)
@MOMENTA
@SEEDS
@pytest.mark.parametrize("backups", [1, 2])
def test_backup_workers(paces, mu, seed, backups):
    order = orders.with_backups(paces, TURNS, backups, seed)
    rehearsal = played(backup_workers(backups), len(paces), momentum=mu, order=order)
    workers, server, dropped = oracles.backup_workers(*given(len(paces), TURNS), RATE, order, backups, mu)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT
    assert gap(rehearsal.hubs[0].hub.centre, server) < EXACT
    found = [sum(r.dropped for r in rehearsal.outcome.steps if r.member == m) for m in range(len(paces))]
    assert found == dropped
    assert sum(dropped) == rehearsal.hubs[0].hub.dropped > 0


late_ones_count = as_strategy(
    Exchange(topology=Hub(), synchrony=Synchrony(staleness=None, quorum=AllBut(1), late=Late.APPLY))
)


nobody_waits = as_strategy(Exchange(topology=Hub(), synchrony=FREE))


@pytest.mark.parametrize("wrong", [late_ones_count, nobody_waits], ids=repr)
def test_backup_workers_rejects(wrong):
    order = orders.with_backups((3, 2, 1), TURNS, 1, 1)
    workers, _, _ = oracles.backup_workers(*given(3, TURNS), RATE, order, 1)
    assert gap(played(wrong, 3, order=order).outcome.replicas, workers) > WRONG


def test_backup_workers_refuses_a_turn_to_a_member_whose_gradient_was_in_time():
    with pytest.raises(Refused, match="entry 2 member 1 is still waiting"):
        played(backup_workers(1), 4, order=(0, 1, 1, 2))
    assert len(played(backup_workers(1), 4, order=(0, 1, 2, 1)).outcome.steps) == 3


def partners(pulls: int, size: int, seed: int):
    return lambda member, round: RandomPeer(pulls).drawn(member, round, World(size, seed), 0)


@PACES
@MOMENTA
@SEEDS
@pytest.mark.parametrize(("pulls", "every"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_gossip_pull(paces, mu, seed, pulls, every):
    size, order = len(paces), orders.paced(paces, TURNS, seed)
    rehearsal = played(gossip_pull(pulls, every), size, momentum=mu, order=order, seed=seed)
    drawn = partners(pulls, size, seed)
    wanted = oracles.gossip_pull(*given(size, TURNS, seed), RATE, order, drawn, every, mu)
    assert gap(rehearsal.outcome.replicas, wanted) < EXACT


@pytest.mark.parametrize(("pulls", "every", "seed"), [(2, 1, 0), (1, 2, 0), (1, 1, 1)])
def test_gossip_pull_rejects_other_pulls_periods_and_partners(pulls, every, seed):
    order = orders.paced((1, 2, 3), TURNS, 1)
    wanted = oracles.gossip_pull(*given(3, TURNS), RATE, order, partners(pulls, 3, seed), every)
    assert gap(played(gossip_pull(), 3, order=order).outcome.replicas, wanted) > WRONG


@PACES
@MOMENTA
@pytest.mark.parametrize("every", [1, 3])
def test_easgd_without_rounds_is_composed_and_absent_from_the_catalogue(paces, mu, every):
    order = orders.paced(paces, TURNS, 3)
    sync = Synchrony(every=every, staleness=None, quorum=1, late=Late.APPLY)
    ex = Exchange(Payload.PARAMETERS, topology=Hub(), synchrony=sync, merge=Elastic(0.8), order=Order.BEFORE)
    rehearsal = played(as_strategy(ex), len(paces), momentum=mu, order=order)
    workers, centre = oracles.easgd_unordered(*given(len(paces), TURNS), RATE, order, 0.8, every, mu)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT
    assert gap(rehearsal.hubs[0].hub.centre, centre) < EXACT
    off, _ = oracles.easgd_unordered(*given(len(paces), TURNS), RATE, order, 0.808, every, mu)
    assert gap(rehearsal.outcome.replicas, off) > WRONG
