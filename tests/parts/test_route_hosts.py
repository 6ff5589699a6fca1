"""What a route costs on hosts: message by message, in closed form, and which is cheapest."""

from __future__ import annotations

from itertools import product
from math import log2

import pytest
from tests.laws.specimens import ROUTES
from tests.laws.travel import serves, worlds

from gossamer.parts.refusal import Refused
from gossamer.parts.route import (
    Direct,
    Doubling,
    HalvingDoubling,
    Hierarchical,
    Hosts,
    Link,
    Ring,
    Route,
    ShardedHub,
    Torus,
    Tree,
    cheapest_on,
    cost,
    cost_on,
    span,
)

A, B, C = 1e-4, 8e-9, 3e-10
INSIDE, ACROSS = Link(1e-5, 2e-10), Link(A, B)


def timed(hosts: Hosts, route: Route, size: int, length: int) -> float:
    """Every message of every wave laid on its link; a wave ends when the last link is free and all is added. The
    start-ups of a wave overlap, but for a tenth each. Links of a host share what crosses, one to a member at most."""
    route = route.suited(length)
    plans, count, seconds, done = (
        [list(route.moves(member, size)) for member in range(size)],
        route.chunks(size),
        0.0,
        0,
    )
    for together in route.waves(size):
        busy, adding, crowd = dict[tuple[str, int], float](), dict[int, float](), dict[tuple[str, int], set[int]]()
        start = 1 + 0.1 * (together - 1)
        for member, plan in enumerate(plans):
            for send, receive, add in plan[done : done + together]:
                if send is not None:
                    part = span(send.chunks, count, length)
                    here, there = member // hosts.per_host, send.member // hosts.per_host
                    same, cross = [("tells", member), ("hears", send.member)], [("out", here), ("in", there)]
                    for way, who in zip(same if here == there else cross, (member, send.member), strict=True):
                        busy[way] = busy.get(way, 0.0) + part.stop - part.start
                        crowd.setdefault(way, set()).add(who)
                if receive is not None and add:
                    part = span(receive.chunks, count, length)
                    adding[member] = adding.get(member, 0.0) + hosts.gamma * (part.stop - part.start)
        lasts = [0.0]
        for way, elements in busy.items():
            across = way[0] in ("out", "in")
            link, links = (hosts.across, min(hosts.nics, len(crowd[way]))) if across else (hosts.inside, 1)
            lasts.append(start * link.alpha + link.beta * elements / links)
        seconds += max(lasts) + max(adding.values(), default=0.0)
        done += together
    return seconds


@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_the_cost_on_hosts_is_the_one_of_its_messages(route: Route) -> None:
    for size in worlds(route, largest=9):
        for per_host, nics in product((1, 2, 3, 4, size), (1, 2, 3, 8)):
            hosts = Hosts(per_host, INSIDE, ACROSS, C, nics)
            nbytes = 42 * route.suited(42 * route.chunks(size)).chunks(size)
            assert cost_on(hosts, route, size, nbytes) == pytest.approx(timed(hosts, route, size, nbytes), rel=1e-9)


@pytest.mark.parametrize("route", [Ring(), HalvingDoubling(), Torus(), Tree(), ShardedHub(), Direct()], ids=repr)
def test_links_all_alike_are_the_plain_price(route: Route) -> None:
    for per_host in (1, 8):
        priced = cost_on(Hosts(per_host, ACROSS, ACROSS, C), route, 8, 8e6)
        assert priced == pytest.approx(cost(route, 8, 8e6, A, B, C), rel=1e-12)


@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_with_a_host_for_each_the_price_is_the_plain_one(route: Route) -> None:
    for size in (*worlds(route), *(size for size in (600, 4096, 65536) if serves(route, size))):
        priced = cost_on(Hosts(1, INSIDE, ACROSS, C, nics=4), route, size, 8e6)
        assert priced == pytest.approx(cost(route, size, 8e6, A, B, C), rel=1e-9)


@pytest.mark.parametrize("p", [2, 64, 4096, 65536])
def test_prices_are_the_closed_forms(p: int) -> None:
    hosts, n, lg, share = Hosts(1, INSIDE, ACROSS, C), 1e8, log2(p), (p - 1) / p
    passed = 2 * share * n * B + share * n * C
    assert cost_on(hosts, Ring(), p, n) == pytest.approx(2 * (p - 1) * A + passed)
    assert cost_on(hosts, HalvingDoubling(), p, n) == pytest.approx(2 * lg * A + passed)
    assert cost_on(hosts, HalvingDoubling(), p + 1, n) == pytest.approx(2 * lg * A + passed + 2 * (A + n * B) + n * C)
    assert cost_on(hosts, Doubling(), p, n) == pytest.approx(lg * (A + n * B + n * C))
    assert cost_on(hosts, Tree(), p, n) == pytest.approx(2 * lg * (A + n * B) + lg * n * C)


@pytest.mark.parametrize(("g", "hosts"), [(2, 4), (8, 64), (6, 100), (8, 8192)])
def test_a_torus_shares_the_links_of_its_hosts_and_masters_cannot(g: int, hosts: int) -> None:
    """2(g-1)a + 2(g-1)/g n b inside; across an all-reduce of n/g whose bytes take g/nics times as long."""
    a, b, n, y = INSIDE.alpha, INSIDE.beta, 1e9, hosts
    rows, masters = 2 * (g - 1) * a + 2 * (g - 1) / g * n * b, 2 * (g - 1).bit_length() * (a + n * b)
    for nics in (1, 2, g, 4 * g):
        given, size = Hosts(g, INSIDE, ACROSS, nics=nics), g * hosts
        columns = 2 * (y - 1) * A + 2 * (y - 1) / y * n / g * B * g / min(nics, g)
        assert cost_on(given, Torus(x=g), size, n) == pytest.approx(rows + columns)
        assert cost_on(given, Hierarchical(g), size, n) == pytest.approx(masters + 2 * (y - 1) * (A + n / y * B))


def test_members_of_a_host_share_its_link() -> None:
    hosts, n = Hosts(2, Link(0.0, 0.0), Link(0.0, B)), 16e6
    bound = 2 * 3 / 4 * n * B
    assert cost_on(hosts, Torus(x=2), 8, n) == pytest.approx(bound)
    assert cost_on(hosts, Hierarchical(2), 8, n) == pytest.approx(bound)
    assert cost_on(hosts, HalvingDoubling(), 8, n) == pytest.approx(bound)
    assert cost_on(hosts, Ring(), 8, n) == pytest.approx(2 * 7 / 8 * n * B)
    assert cost_on(hosts, ShardedHub(), 8, n) > 1.9 * bound


def test_the_cheapest_on_hosts_is_by_size() -> None:
    hosts = Hosts(2, INSIDE, ACROSS)
    prices = {route: cost_on(hosts, route, 8, 64e6) for route in (Ring(), Torus(x=2), Hierarchical(2), Tree())}
    assert cheapest_on(hosts, 8, 64e6, among=tuple(prices)) == min(prices, key=lambda route: prices[route])
    short = cheapest_on(hosts, 8, 1000)
    assert short.rounds(8) < Ring().rounds(8)
    assert cost_on(hosts, cheapest_on(hosts, 8, 64e6), 8, 64e6) <= min(prices.values())


def test_a_price_that_cannot_be_is_refused() -> None:
    hosts = Hosts(2, INSIDE, ACROSS)
    assert cheapest_on(hosts, 7, 1e6, among=(Torus(x=2), Tree())) == Tree()  # a torus of 2 does not serve 7
    with pytest.raises(Refused, match="serves 7 members"):
        cheapest_on(hosts, 7, 1e6, among=(Torus(x=2),))
    with pytest.raises(Refused, match="do not fill rows"):
        cost_on(hosts, Torus(x=2), 7, 1e6)
    with pytest.raises(Refused, match="Hosts: per_host must be from 1"):
        Hosts(0, INSIDE, ACROSS)
    with pytest.raises(Refused, match="Hosts: nics must be from 1"):
        Hosts(2, INSIDE, ACROSS, nics=0)
    with pytest.raises(Refused, match="Link: beta must lie"):
        Link(0.0, -1.0)
