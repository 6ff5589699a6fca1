"""What a route costs on hosts: message by message, in closed form, and which is cheapest."""

from __future__ import annotations

import pytest
from tests.laws.specimens import ROUTES
from tests.laws.travel import worlds

from gossamer.parts.refusal import Refused
from gossamer.parts.route import (
    Direct,
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
    start-ups of a wave overlap, but for a tenth each."""
    route = route.suited(length)
    plans, count, seconds, done = (
        [list(route.moves(member, size)) for member in range(size)],
        route.chunks(size),
        0.0,
        0,
    )
    for together in route.waves(size):
        busy, adding = dict[tuple[object, ...], float](), dict[int, float]()
        for member, plan in enumerate(plans):
            for send, receive, add in plan[done : done + together]:
                if send is not None:
                    part = span(send.chunks, count, length)
                    here, there = member // hosts.per_host, send.member // hosts.per_host
                    same, cross = [("tells", member), ("hears", send.member)], [("out", here), ("in", there)]
                    ways = same if here == there else cross
                    link = hosts.inside if here == there else hosts.across
                    for way in ways:
                        start = link.alpha * (1 + 0.1 * (together - 1))
                        busy[way] = busy.get(way, start) + link.beta * (part.stop - part.start)
                if receive is not None and add:
                    part = span(receive.chunks, count, length)
                    adding[member] = adding.get(member, 0.0) + hosts.gamma * (part.stop - part.start)
        seconds += max(busy.values(), default=0.0) + max(adding.values(), default=0.0)
        done += together
    return seconds


@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_the_cost_on_hosts_is_the_one_of_its_messages(route: Route) -> None:
    for size in worlds(route, largest=9):
        for per_host in (1, 2, 3, size):
            hosts = Hosts(per_host, INSIDE, ACROSS, C)
            nbytes = 42 * route.suited(42 * route.chunks(size)).chunks(size)
            assert cost_on(hosts, route, size, nbytes) == pytest.approx(timed(hosts, route, size, nbytes), rel=1e-9)


@pytest.mark.parametrize("route", [Ring(), HalvingDoubling(), Torus(), Tree(), ShardedHub(), Direct()], ids=repr)
def test_links_all_alike_are_the_plain_price(route: Route) -> None:
    for per_host in (1, 8):
        priced = cost_on(Hosts(per_host, ACROSS, ACROSS, C), route, 8, 8e6)
        assert priced == pytest.approx(cost(route, 8, 8e6, A, B, C), rel=1e-12)


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
    with pytest.raises(Refused, match="Link: beta must lie"):
        Link(0.0, -1.0)
