"""The relaxed systems, rehearsed, against their oracles; the asynchronous ones on scripted orders of turns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.papers import oracles, orders
from tests.papers import relaxed_oracles as textbook
from tests.papers.problem import EXACT, RATE, WRONG, gap, given, played
from tests.sim import still

from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Grid, Into, Pair, RandomPair, RandomPush, hears
from gossamer.parts.topology.peers import Dissemination
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan, Rehearsal
from gossamer.strategy import parse
from gossamer.strategy.catalog import allreduce, easgd, sgp
from gossamer.strategy.relaxed import (
    adpsgd,
    async_easgd,
    bmuf,
    crossbow,
    dc_asgd,
    dpsgd,
    eamsgd,
    gossip_pga,
    gossip_push,
    gossipgrad,
    hogwild,
    osgp,
    post_local_sgd,
    slowmo,
    softsync,
    sparknet,
)

TURNS, STEPS = 40, 13
PACES = pytest.mark.parametrize("paces", [(1, 3), (5, 2, 1), (8, 1, 4, 1)], ids=str)
SIZES = pytest.mark.parametrize("size", [2, 3, 4, 5])


def centre(rehearsal: object) -> torch.Tensor:
    return rehearsal.hubs[0].hub.centre  # type: ignore[attr-defined]


@PACES
@pytest.mark.parametrize("n", [1, 2, 3])
def test_softsync(paces, n):
    size, order = len(paces), orders.paced(paces, TURNS, 3)
    if n > size:
        with pytest.raises(Refused, match="is nobody"):
            played(softsync(n), size, order=order)
        return
    workers, server, ages = textbook.softsync(*given(size, TURNS), RATE, order, size // n)
    rehearsal = played(softsync(n), size, order=order)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT and gap(centre(rehearsal), server) < EXACT
    assert [record.staleness for record in rehearsal.outcome.steps] == ages
    assert max(ages) > 1, "nothing was old enough to be divided"
    other = textbook.softsync(*given(size, TURNS), RATE, order, size // n + 1)[1]
    assert gap(centre(rehearsal), other) > WRONG


@SIZES
def test_softsync_of_1_is_synchronous_only_where_all_push_in_one_moment_and_fetch_after_it(size):
    """C13: each contributes once and fetches after the update; in any other order learners do not wait for it."""
    moments = tuple(tuple(range(size)) for _ in range(STEPS))
    together = played(softsync(1), size, order=moments)
    synchronous = played(allreduce(), size, STEPS)
    assert gap(together.outcome.replicas, synchronous.outcome.replicas) < EXACT
    one_by_one = played(softsync(1), size, order=tuple(range(size)) * STEPS)
    assert gap(one_by_one.outcome.replicas, synchronous.outcome.replicas) > WRONG


@PACES
def test_hogwild_applies_each_gradient_whole(paces):
    order = orders.paced(paces, TURNS, 5)
    workers, server = textbook.hogwild(*given(len(paces), TURNS), RATE, order)
    rehearsal = played(hogwild(), len(paces), order=order)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT and gap(centre(rehearsal), server) < EXACT
    late = textbook.hogwild(*given(len(paces), TURNS), RATE, (*order[1:], order[0]))[1]
    assert gap(centre(rehearsal), late) > WRONG


@PACES
@pytest.mark.parametrize("adaptive", [False, True])
def test_dc_asgd(paces, adaptive):
    order = orders.paced(paces, TURNS, 4)
    workers, server = textbook.dc_asgd(*given(len(paces), TURNS), RATE, order, 0.3, adaptive)
    rehearsal = played(dc_asgd(0.3, adaptive), len(paces), order=order)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT and gap(centre(rehearsal), server) < EXACT
    other = textbook.dc_asgd(*given(len(paces), TURNS), RATE, order, 0.3, not adaptive)[1]
    assert gap(centre(rehearsal), other) > WRONG


@PACES
def test_dc_asgd_of_strength_0_is_plain_asynchrony(paces):
    order = orders.paced(paces, TURNS, 6)
    plain, none = (played(strategy, len(paces), order=order) for strategy in (hogwild(), dc_asgd(0.0)))
    assert torch.equal(plain.outcome.replicas, none.outcome.replicas)
    some = played(dc_asgd(0.1), len(paces), order=order)
    assert gap(some.outcome.replicas, plain.outcome.replicas) > WRONG


@SIZES
def test_sparknet(size):
    found = played(sparknet(4), size, STEPS).outcome.replicas
    assert gap(found, textbook.sparknet(*given(size, STEPS), RATE, 4)) < EXACT
    assert gap(found, textbook.sparknet(*given(size, STEPS), RATE, 3)) > WRONG


@SIZES
def test_post_local_sgd(size):
    found = played(post_local_sgd(5, 3), size, STEPS).outcome.replicas
    assert gap(found, textbook.post_local_sgd(*given(size, STEPS), RATE, 5, 3)) < EXACT
    assert gap(found, textbook.post_local_sgd(*given(size, STEPS), RATE, 7, 3)) > WRONG


@SIZES
@pytest.mark.parametrize("nesterov", [False, True])
def test_bmuf(size, nesterov):
    found = played(bmuf(3, 0.8, 0.6, nesterov), size, STEPS).outcome.replicas
    assert gap(found, textbook.bmuf(*given(size, STEPS), RATE, 3, 0.8, 0.6, nesterov)) < EXACT
    assert gap(found, textbook.bmuf(*given(size, STEPS), RATE, 3, 0.8, 0.6, not nesterov)) > WRONG


@SIZES
def test_slowmo(size):
    found = played(slowmo(3, 0.9, 0.5), size, STEPS).outcome.replicas
    assert gap(found, textbook.slowmo(*given(size, STEPS), RATE, 3, 0.9, 0.5)) < EXACT
    assert gap(found, textbook.slowmo(*given(size, STEPS), RATE, 3, 0.9, 0.6)) > WRONG


@SIZES
def test_crossbow(size):
    rehearsal = played(crossbow(0.8, 0.4), size, STEPS)
    workers, server = textbook.crossbow(*given(size, STEPS), RATE, 0.8, 0.4)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT and gap(centre(rehearsal), server) < EXACT
    assert gap(centre(rehearsal), textbook.crossbow(*given(size, STEPS), RATE, 0.8, 0.3)[1]) > WRONG


@PACES
@pytest.mark.parametrize("tau", [1, 3])
def test_async_easgd(paces, tau):
    order = orders.paced(paces, TURNS, 7)
    workers, server = textbook.async_easgd(*given(len(paces), TURNS), RATE, order, 0.9, tau)
    rehearsal = played(async_easgd(0.9, tau), len(paces), order=order)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT and gap(centre(rehearsal), server) < EXACT
    assert gap(centre(rehearsal), textbook.async_easgd(*given(len(paces), TURNS), RATE, order, 0.8, tau)[1]) > WRONG


@PACES
@pytest.mark.parametrize("tau", [1, 3])
def test_eamsgd(paces, tau):
    order = orders.paced(paces, TURNS, 8)
    workers, server = textbook.eamsgd(*given(len(paces), TURNS), RATE, order, 0.9, tau, 0.7)
    rehearsal = played(eamsgd(0.9, tau, 0.7), len(paces), order=order)
    assert gap(rehearsal.outcome.replicas, workers) < EXACT and gap(centre(rehearsal), server) < EXACT
    assert gap(centre(rehearsal), textbook.eamsgd(*given(len(paces), TURNS), RATE, order, 0.9, tau, 0.6)[1]) > WRONG


@PACES
def test_eamsgd_without_momentum_is_easgd(paces):
    order = orders.paced(paces, TURNS, 9)
    one, other = (played(s, len(paces), order=order) for s in (eamsgd(0.9, 2, 0.0), async_easgd(0.9, 2)))
    assert torch.equal(one.outcome.replicas, other.outcome.replicas)
    synchronous = easgd(0.9, 2)
    ahead = parse(repr(synchronous).replace("Elastic()", "Elastic(lookahead=0.5)"))
    plain = played(synchronous, len(paces), STEPS).outcome.replicas
    assert gap(played(ahead, len(paces), STEPS).outcome.replicas, plain) > WRONG


def test_two_momenta_are_refused_naming_the_number_to_move():
    with pytest.raises(Refused, match=r"lookahead=0\.8 in the merge"):
        Optimizer("sgd", 0.1, 0.8).suits(eamsgd())


@PACES
@pytest.mark.parametrize("tau", [1, 2])
def test_gossip_push(paces, tau):
    size, order, topology = len(paces), orders.paced(paces, TURNS, 10), RandomPush()

    def drawn(member, round):
        mixing = topology.mixing(member, round, World(size), 0)
        assert isinstance(mixing, Into)
        return mixing.target

    found = played(gossip_push(tau), size, order=order).outcome.replicas
    assert gap(found, textbook.gossip_push(*given(size, TURNS), RATE, order, drawn, tau)) < EXACT
    elsewhere = textbook.gossip_push(*given(size, TURNS), RATE, order, lambda m, r: (drawn(m, r) + 1) % size, tau)
    assert gap(found, elsewhere) > WRONG


def test_push_gossip_weighs_itself_twice_on_a_self_draw():
    size, round = 5, 3
    for seed in range(40):
        world = World(size, seed)
        targets = [RandomPush().mixing(m, round, world, 0).target for m in range(size)]
        for member in range(size):
            own, letters = (
                1 + (targets[member] == member),
                sum(t == member for m, t in enumerate(targets) if m != member),
            )
            row = hears(RandomPush(), member, round, world, 0)
            assert row[member] == pytest.approx(own / (own + letters))


@SIZES
def test_dpsgd_on_a_circle(size):
    found = played(dpsgd(), size, STEPS).outcome.replicas
    assert gap(found, textbook.dpsgd(*given(size, STEPS), RATE, textbook.circle(size))) < EXACT
    mixed_first = textbook.gossip_pga(*given(size, STEPS), RATE, textbook.circle(size))
    assert gap(found, mixed_first) > WRONG, "the gradient is taken, and the step made, in the other order"


@pytest.mark.parametrize(("size", "x"), [(6, 3), (6, 2), (9, 3), (4, 2), (10, 5)])
def test_dpsgd_on_a_torus_and_with_everybody(size, x):
    found = played(dpsgd(Grid(x)), size, STEPS).outcome.replicas
    assert gap(found, textbook.dpsgd(*given(size, STEPS), RATE, textbook.grid(size, x))) < EXACT
    everybody = played(parse("dpsgd(Complete())"), size, STEPS).outcome.replicas
    assert gap(everybody, textbook.dpsgd(*given(size, STEPS), RATE, np.full((size, size), 1 / size))) < EXACT


@PACES
def test_adpsgd(paces):
    size, order, topology = len(paces), orders.paced(paces, TURNS, 11), RandomPair()

    def drawn(member, round):
        mixing = topology.mixing(member, round, World(size), 0)
        assert isinstance(mixing, Pair) and mixing.partner != member
        return mixing.partner

    found = played(adpsgd(), size, order=order).outcome.replicas
    assert gap(found, textbook.adpsgd(*given(size, TURNS), RATE, order, drawn)) < EXACT
    if size > 2:
        back = lambda m, r: next(o for o in range(size) if o not in (m, drawn(m, r)))  # noqa: E731
        assert gap(found, textbook.adpsgd(*given(size, TURNS), RATE, order, back)) > WRONG


@SIZES
@pytest.mark.parametrize("delay", [1, 2, 4])
def test_osgp(size, delay):
    rehearsal = played(osgp(delay), size, STEPS)
    z, mass = textbook.osgp(*given(size, STEPS), RATE, delay)
    assert gap(rehearsal.outcome.replicas, z) < EXACT
    assert [replica.desks[0].mass for replica in rehearsal.replicas] == pytest.approx(list(mass), abs=1e-12)
    assert gap(rehearsal.outcome.replicas, played(sgp(), size, STEPS).outcome.replicas) > WRONG


@SIZES
def test_gossipgrad(size):
    def heard(member, round):
        return next(iter({*hears(Dissemination(), member, round, World(size), 0)} - {member}))

    found = played(gossipgrad(), size, STEPS).outcome.replicas
    assert gap(found, textbook.gossipgrad(*given(size, STEPS), RATE, heard)) < EXACT
    assert size == 2 or gap(found, textbook.gossipgrad(*given(size, STEPS), RATE, lambda m, _: heard(m, 0))) > WRONG
    sweep = int(np.ceil(np.log2(size)))
    assert [heard(0, k) for k in range(sweep)] == [-(2**k) % size for k in range(sweep)]
    known = [{m} for m in range(size)]
    for round in range(sweep, 2 * sweep):  # a later sweep, with its places shuffled
        known = [known[m] | known[heard(m, round)] for m in range(size)]
    assert all(len(names) == size for names in known), "after a sweep everybody has heard of everybody"


@SIZES
def test_gossip_pga(size):
    found = played(gossip_pga(4), size, STEPS).outcome.replicas
    assert gap(found, textbook.gossip_pga(*given(size, STEPS), RATE, textbook.circle(size), 4)) < EXACT
    never = textbook.gossip_pga(*given(size, STEPS), RATE, textbook.circle(size))
    assert size <= 3 or gap(found, never) > WRONG


def test_softsync_quorum_is_one_in_n() -> None:
    quorums = [softsync(n).exchanges[0].synchrony for n in (1, 2, 3, 7)]
    assert [synchrony.closes(7) for synchrony in quorums] == [7, 3, 2, 1]


def test_momentum_that_looks_ahead_ends_with_its_spell() -> None:
    """After the switch the members step as plain SGD does: by the mean gradient at what they hold, and nothing else."""
    staged = parse("Staged(eamsgd(every=2, momentum=0.9), 4, allreduce)")
    before, after = (played(staged, 3, steps) for steps in (6, 7))
    moves = after.outcome.replicas - before.outcome.replicas
    slopes = [oracles.gradient(before.outcome.replicas[m].numpy(), given(3, 7)[1][m][6]) for m in range(3)]
    assert gap(moves, np.tile(-RATE * np.mean(slopes, 0), (3, 1))) < EXACT
    ahead = played(parse("eamsgd(every=2, momentum=0.9)"), 3, 7).outcome.replicas
    assert gap(after.outcome.replicas, ahead) > WRONG


@pytest.mark.parametrize("expression", ["allreduce", "sgp", "osgp", "osgp(delay=3)"])
def test_weight_decay_is_the_same_whatever_the_mass(expression: str) -> None:
    """Without a slope the mean of all, under way or not, decays by 1 - rate x decay a step."""
    task = still.task()
    plan = Plan(task, parse(expression), World(4), Optimizer("sgd", 0.1, decay=0.1), batch=1, steps=60)
    rehearsal = Rehearsal(plan)
    outcome = rehearsal.run()
    wanted = rehearsal.layout.start * (1 - 0.01) ** 60
    torch.testing.assert_close(outcome.model, wanted, rtol=0.02, atol=0)
