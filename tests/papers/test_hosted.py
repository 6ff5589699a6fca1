"""All-reduce inside hosts and gossip between them, rehearsed, against its oracle; where nobody waits, on an order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.papers import orders
from tests.papers import relaxed_oracles as textbook
from tests.papers.oracles import exponential
from tests.papers.problem import EXACT, RATE, WRONG, gap, given, played

from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Complete, Cycle, Dissemination, RandomPeer, Topology, hears
from gossamer.parts.world import World
from gossamer.strategy import parse
from gossamer.strategy.catalog import allreduce, gossip_pull, sgp
from gossamer.strategy.hosted import gossip_hosts

STEPS, SLOT = 13, 1  # gossip between hosts is the second exchange
WORLDS = pytest.mark.parametrize(("size", "per_host"), [(4, 2), (6, 2), (6, 3), (8, 2), (10, 2)])


def matrix(graph: Topology, hosts: int, round: int) -> np.ndarray:
    """The weights of a graph that is tested elsewhere, host by host."""
    rows = [hears(graph, host, round, World(hosts), SLOT) for host in range(hosts)]
    return np.array([[row.get(other, 0.0) for other in range(hosts)] for row in rows])


@WORLDS
@pytest.mark.parametrize("every", [1, 3])
def test_masters_push_along_an_exponential_graph(size: int, per_host: int, every: int) -> None:
    hosts, given_ = size // per_host, given(size, STEPS)
    found = played(gossip_hosts(per_host, every=every), size, STEPS).outcome.replicas
    wanted = textbook.gossip_hosts(*given_, RATE, per_host, lambda round: exponential(hosts, round), every)
    assert gap(found, wanted) < EXACT
    unmixed = textbook.gossip_hosts(*given_, RATE, per_host, lambda _: np.eye(hosts))
    assert gap(found, unmixed) > WRONG


@WORLDS
def test_masters_average_on_a_circle_or_with_everybody(size: int, per_host: int) -> None:
    hosts, given_ = size // per_host, given(size, STEPS)
    found = played(gossip_hosts(per_host, Cycle()), size, STEPS).outcome.replicas
    assert gap(found, textbook.gossip_hosts(*given_, RATE, per_host, lambda _: textbook.circle(hosts))) < EXACT
    everybody = played(gossip_hosts(per_host, Complete(), 4), size, STEPS).outcome.replicas
    mean = np.full((hosts, hosts), 1 / hosts)
    assert gap(everybody, textbook.gossip_hosts(*given_, RATE, per_host, lambda _: mean, 4)) < EXACT
    assert gap(everybody, found) > WRONG


@WORLDS
def test_masters_meet_partners_that_change(size: int, per_host: int) -> None:
    hosts = size // per_host
    found = played(gossip_hosts(per_host, Dissemination()), size, STEPS).outcome.replicas
    drawn = textbook.gossip_hosts(
        *given(size, STEPS), RATE, per_host, lambda round: matrix(Dissemination(), hosts, round)
    )
    assert gap(found, drawn) < EXACT


@pytest.mark.parametrize("paces", [(1, 3), (5, 2, 1), (8, 1, 4, 1)], ids=str)
@pytest.mark.parametrize("per_host", [2, 3])
@pytest.mark.parametrize("every", [1, 2])
def test_masters_pull_from_whoever_they_draw_and_no_host_waits_for_another(
    paces: tuple[int, ...], per_host: int, every: int
) -> None:
    """A host moves when the last of its members has had its turn."""
    hosts, graph, turns = len(paces), RandomPeer(), 30
    order = orders.paced(paces, turns, 3)
    members = tuple(host * per_host + place for host in order for place in range(per_host))
    found = played(gossip_hosts(per_host, graph, every), hosts * per_host, order=members).outcome.replicas
    start, data = given(hosts * per_host, turns)

    def wanted(hosts_in_turn: tuple[int, ...]) -> np.ndarray:
        mixing = lambda round: matrix(graph, hosts, round)  # noqa: E731
        return textbook.gossip_hosts(start, data, RATE, per_host, mixing, every, hosts_in_turn)

    assert gap(found, wanted(order)) < EXACT
    assert gap(found, wanted((*order[1:], order[0]))) > WRONG
    for first in range(0, len(found), per_host):
        assert all(torch.equal(found[first], replica) for replica in found[first : first + per_host])


@pytest.mark.parametrize("size", [2, 3, 4])
def test_hosts_of_one_are_plain_gossip_and_one_host_is_an_allreduce(size: int) -> None:
    assert gossip_hosts(1) == sgp()
    assert gossip_hosts(1, RandomPeer(), 3) == gossip_pull(every=3)
    one_host, all_ = (played(s, size, STEPS, momentum=0.9) for s in (gossip_hosts(size), allreduce()))
    assert gap(one_host.outcome.replicas, all_.outcome.replicas) < EXACT


def test_momentum_is_the_same_on_every_member_of_a_host() -> None:
    found = played(gossip_hosts(3), 9, STEPS, momentum=0.9).outcome.replicas
    for first in (0, 3, 6):
        assert torch.equal(found[first], found[first + 1]) and torch.equal(found[first], found[first + 2])
    assert gap(found[0], found[3]) > WRONG


@pytest.mark.parametrize(
    ("text", "workers", "told"),
    [
        ("gossip_hosts", 7, r"Inside: 7 workers cannot fill hosts of 2; nearest that works: per_host=1, or 8 workers"),
        ("gossip_hosts(per_host=4)", 6, r"6 workers cannot fill hosts of 4; nearest that works: per_host=3, or 8"),
        ("gossip_hosts(per_host=9)", 6, r"hosts of 9; nearest that works: per_host=6, or 9 workers"),
        ("gossip_hosts(per_host=1)", 1, r"gossip needs company, and there is 1 worker"),
        ("gossip_hosts(graph=Grid(x=2))", 6, r"Masters, of 3 hosts: Grid: 3 workers do not fill rows of 2"),
    ],
)
def test_a_world_that_hosts_do_not_fill_is_refused(text: str, workers: int, told: str) -> None:
    with pytest.raises(Refused, match=told):
        played(parse(text), workers, 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gossip_hosts(graph=Hub())", "a hub is no graph"),
        ("gossip_hosts(graph=RandomPair())", r"writes to a master while its host reads.*among=RandomPeer\(\)"),
        ("gossip_hosts(graph=Graph(edges=((0, 1), (1, 0))))", "masses differ on an unbalanced graph"),
        ("gossip_hosts(graph=2)", "graph must be a Topology"),
        ("Exchange(payload=PARAMETERS, topology=Masters(among=Hub()))", r"a hub is no graph.*among=Exponential\(\)"),
        ("Exchange(payload=DELTAS, topology=Inside())", "neighbours never all agree"),
        ("Exchange(topology=Inside(), synchrony=Synchrony(staleness=None))", "both ends must be there"),
    ],
)
def test_what_hosts_cannot_do_is_refused_when_built(text: str, told: str) -> None:
    with pytest.raises(Refused, match=told):
        parse(text)
