"""Lockstep and Freely time the same strategy alike: as arrays, and event by event.

Mixes of all, hubs on hosts of their own and neighbours on links of their own end at the same moment, member by member,
to rounding. What may differ, and by how much, is told at the tests of it: links that members of a host, several
exchanges or steps compete for, groups, and hubs that share links.
"""

from __future__ import annotations

from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.arbitrary import steady, strategies
from tests.sim.two_players import WORK, Array, cluster, freely, in_lockstep

from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Complete, Hub, Inside
from gossamer.parts.trouble import Fail, Script, Slow
from gossamer.sim.cluster import Cluster
from gossamer.sim.lockstep import Lockstep, in_step
from gossamer.sim.scene import Scene
from gossamer.sim.simulate import play, staged
from gossamer.strategy import CATALOG, AnyStrategy, parse, slots

SIZE, STEPS = 8, 9
TOGETHER = [entry.name for entry in CATALOG if in_step(entry.make())]
DELAYED = "Exchange(topology=Hub(), synchrony=Synchrony(delay=1))"
COMPOSED = [
    "local_sgd(every=3)",
    "Exchange(synchrony=Synchrony(delay=2))",
    "Exchange(payload=PARAMETERS, synchrony=Synchrony(every=2, delay=1))",
    "post_local_sgd(switch=4, every=2)",
    "Staged(first=Exchange(topology=Hub()), step=3, then=Exchange(payload=PARAMETERS, topology=Cycle()))",
    DELAYED,
    "Exchange(where=Dims(least=2), topology=Hub()) + Exchange(where=Dims(most=1))",
    "sgp(every=2)",
    "osgp(delay=2)",
]
SLOW = Script((Slow(rank=1, factor=3.0, start=2, stop=5), Slow(rank=6, factor=1.5)))


def scene(strategy: AnyStrategy | str, given: Cluster, trouble: Script = Script(), servers: int = 0) -> Scene:
    return staged(parse(strategy) if isinstance(strategy, str) else strategy, given, WORK, SIZE, seed=2,
                  trouble=trouble, servers=servers)  # fmt: skip


def both(found: Scene, steps: int = STEPS) -> tuple[Array, Array]:
    """By step and member, when it ended, as one player and as the other has it."""
    (one, _), (other, _) = in_lockstep(found, steps), freely(found, steps)
    assert len(one) == len(other) == steps
    return one, other


def kinds(strategy: AnyStrategy) -> set[type]:
    return {type(ex.topology) for ex in slots(strategy)}


def same(one: Array, other: Array) -> bool:
    return bool(numpy.abs(one - other).max() <= 1e-12 * one.max())


@pytest.mark.parametrize("trouble", [Script(), SLOW], ids=["no trouble", "slow"])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
@pytest.mark.parametrize("per_host", [1, 4])
def test_mixes_of_all_end_at_the_same_moment(per_host: int, jitter: float, trouble: Script) -> None:
    tried = 0
    for text in (*TOGETHER, *COMPOSED):
        strategy = parse(text)
        if kinds(strategy) == {Complete}:
            assert same(*both(scene(strategy, cluster(per_host, jitter), trouble))), text
            tried += 1
    assert tried > 20


def test_so_do_hubs_and_neighbours_with_links_of_their_own() -> None:
    """One member a host, no two that send at the very same moment, and no mix of all beside a hub."""
    tried = 0
    for text in (*TOGETHER, *COMPOSED):
        strategy = parse(text)
        if Inside not in kinds(strategy) and kinds(strategy) != {Hub, Complete}:
            assert same(*both(scene(strategy, cluster(1, 0.1), servers=8 * (text == DELAYED)))), text
            tried += 1
    assert tried > 40


def test_answers_and_pushes_of_workers_that_share_out_a_hub_compete_alike() -> None:
    """Event by event, the next step's pushes use moments in which links idle, and answers wait for them in turn."""
    one, other = both(scene(DELAYED, cluster(1, 0.1)))
    assert other[-1] == pytest.approx(one[-1], rel=0.02) and not same(one, other)


@pytest.mark.parametrize(("per_host", "servers"), [(1, 0), (4, 0), (4, 2)])
def test_a_quorum_of_all_is_everybody(per_host: int, servers: int) -> None:
    """And one less saves no more than its own push and answer: nobody is early for lack of a partner."""
    all_, everybody, fewer = (
        play(scene(f"Exchange(topology=Hub(){given})", cluster(per_host, 0.0), servers=servers), STEPS).ends[-1]
        for given in ("", f", synchrony=Synchrony(quorum={SIZE})", f", synchrony=Synchrony(quorum={SIZE - 1})")
    )
    assert everybody == all_ and (1 - 1.01 / SIZE) * all_ < fewer <= all_ * (1 + 1e-12)


def test_nobody_gains_by_not_waiting_where_links_are_never_idle() -> None:
    """Where workers share out a hub, pushes and answers use the same links both ways, whoever waits for whom; servers
    can be told while they answer."""
    slow = replace(WORK, seconds=(1e-6,), update=0.0)

    def seconds(text: str, servers: int) -> float:
        return play(staged(text, cluster(4, 0.0), slow, SIZE, servers=servers), 40).ends[-1]

    assert seconds("hogwild", 0) == pytest.approx(seconds("parameter_server", 0), rel=0.05)
    assert seconds("hogwild", 2) == pytest.approx(seconds("parameter_server", 2) / 2, rel=0.1)


def test_a_slow_neighbour_competes_with_what_is_said_a_step_later() -> None:
    """Event by event, a quick member may have a way before a slow one that is a step behind; in lockstep it has not."""
    for text in (*TOGETHER, *COMPOSED):
        strategy = parse(text)
        if Inside not in kinds(strategy):
            one, other = both(scene(strategy, cluster(1, 0.1), SLOW))
            assert (other <= 1.12 * one).all() and (other >= 0.95 * one).all(), text


def test_neighbours_that_share_a_hosts_links_differ_by_no_more_than_what_these_carry() -> None:
    """Four members a host. In lockstep what shares a link is through together, and event by event one after the other:
    a member may be earlier, or later, by what the others of its host put on the link in that round."""
    for text in ("sgp", "gossipgrad", "dpsgd(Grid())", "gossip_pga"):
        found = scene(text, replace(cluster(4, 0.1), speed=0.01))
        one, other = both(found)
        shared = 8 * sum(found.roads.message(cargo.nbytes, near=False)[0] for cargo in found.cargoes)  # two each
        rounds = numpy.arange(1, STEPS + 1)[:, None]
        assert (numpy.abs(other - one) <= rounds * shared).all() and not same(one, other), text
        assert (numpy.abs(other - one) <= 0.03 * one).all(), text


@settings(steady, max_examples=40)
@given(strategies(), st.sampled_from((1, 4)), st.sampled_from((0.0, 0.1)))
def test_any_strategy_differs_by_no_more_than_competition_for_links(
    strategy: AnyStrategy | Refused, per_host: int, jitter: float
) -> None:
    """A member may have a link earlier or later than the other player says, by what others put on it meanwhile."""
    if isinstance(strategy, Refused) or not in_step(strategy):
        return
    try:
        found = scene(strategy, cluster(per_host, jitter))
    except Refused:
        return
    one, other = both(found)
    if kinds(strategy) == {Complete}:
        assert same(one, other)
    assert (0.5 * one <= other).all() and (other <= 2.0 * one).all()


@pytest.mark.parametrize(("per_host", "servers"), [(4, 0), (1, 2), (4, 2)])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_a_hub_whose_links_are_shared_gains_no_more_than_its_pushes(per_host: int, servers: int, jitter: float) -> None:
    """Event by event, who comes first pushes first, while others still compute. Lockstep lets all push at once, as the
    textbook does; where all come at once there is no difference."""
    for text in ("parameter_server", "crossbow", "easgd(every=2)"):
        found = scene(text, cluster(per_host, jitter), servers=servers)
        one, other = both(found)
        (cargo,) = found.cargoes
        ways = found.pushed(cargo.nbytes)[0] + found.pushed(cargo.carried)[0]
        rounds = numpy.arange(1, STEPS + 1)[:, None]
        assert (other <= one * (1 + 1e-12)).all(), text
        assert (other >= one - rounds * ways).all(), text
        assert same(one, other) is (jitter == 0.0), text


@pytest.mark.parametrize("per_host", [1, 4])
def test_groups_differ_by_no_more_than_what_they_tell_each_other(per_host: int) -> None:
    """Lockstep lets a group begin when its last member has come, and then all tell all, at every moment someone else;
    event by event, the first are heard before that, and all tell the first members first: at most twice as long."""
    for text in ("two_levels", "gossip_hosts"):
        one, other = both(scene(text, cluster(per_host, 0.1)))
        least = 0.9 if per_host == 1 else 0.75  # masters that share a link and come one after the other
        assert (other <= 1.02 * one).all() and (other >= least * one).all(), text
    found = scene("Exchange(topology=Inside(per_host=4))", cluster(per_host, 0.1))
    one, other = both(found)
    busy, under_way = found.roads.message(found.cargoes[0].nbytes, near=per_host == 4)
    told = under_way + 3 * busy
    rounds = numpy.arange(1, STEPS + 1)[:, None]
    assert (numpy.abs(other - one) <= rounds * told).all()


@pytest.mark.parametrize("nics", [1, 2, 4])
def test_groups_share_the_links_of_their_hosts(nics: int) -> None:
    """Sixteen of four hosts: a host's four tell twelve each, through as many links as there are; and nobody can be
    quicker than that, whoever is told first."""
    found = staged("Exchange(topology=Inside(per_host=16))", cluster(4, 0.0, nics=nics), WORK, 16)
    (one, _), (other, _) = in_lockstep(found, 4), freely(found, 4)
    busy, under_way = found.roads.message(found.cargoes[0].nbytes, near=False)
    assert one[0] == pytest.approx(found.compute + under_way + 48 / nics * busy + found.update)
    assert (other >= one * (1 - 1e-12)).all() and (other <= 2 * one).all()


@pytest.mark.parametrize("text", ["allreduce", "local_sgd(every=2)", "sgp", "gossip_hosts"])
def test_a_death_stops_who_waits_for_it_in_both(text: str) -> None:
    found = scene(text, cluster(), Script((Fail(rank=3, step=4),)))
    one, other = in_lockstep(found, STEPS)[1], freely(found, STEPS)[1]
    assert one.stopped is not None and "member 3 died" in one.stopped and len(one.ends) == 4
    assert other.stopped is not None and "wait for 3" in other.stopped and 4 <= len(other.ends) <= 5


@pytest.mark.parametrize("text", ["parameter_server", "easgd(every=2)", DELAYED])
def test_hubs_go_on_without_the_dead(text: str) -> None:
    """As in a rehearsal; what Lockstep would say of it, nobody is told."""
    found = scene(text, cluster(), Script((Fail(rank=3, step=4),)))
    played = play(found, STEPS)
    assert played.stopped is None and len(played.ends) == STEPS
    assert Lockstep(found).run(STEPS).stopped is not None


@pytest.mark.parametrize("text", ["allreduce", "osgp(delay=1)", "osgp(delay=2)", "ako"])
def test_a_delay_is_as_old_in_both(text: str) -> None:
    found = scene(text, cluster())
    one, other = in_lockstep(found, STEPS)[1], freely(found, STEPS)[1]
    delay = max(ex.synchrony.delay for ex in slots(found.strategy))
    assert one.stale == other.stale == one.stalest == other.stalest == delay


@pytest.mark.parametrize("field", ["latency", "bandwidth"])
def test_another_link_is_told_apart(field: str) -> None:
    """What is called the same above would not be on other links."""
    one = in_lockstep(scene("sgp", cluster()), STEPS)[0]
    given = cluster()
    assert given.across is not None
    across = replace(given.across, **{field: getattr(given.across, field) * 1.001})
    assert not same(one, freely(scene("sgp", replace(given, across=across)), STEPS)[0])
