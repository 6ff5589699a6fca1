"""What routes put on links of hosts, said without a walk: as a walk finds it, on hosts of any widths, and at once."""

from __future__ import annotations

from random import Random
from time import process_time

import pytest
from tests.laws.specimens import OPERATIONS, ROUTES
from tests.laws.travel import misjudged, serves, worlds

from gossamer.parts.refusal import Refused
from gossamer.parts.route import (
    BinaryBlocks,
    BySize,
    Direct,
    Hierarchical,
    Hosts,
    Link,
    Native,
    Ring,
    Route,
    Schedule,
    Torus,
    Tree,
    cheapest_on,
    cost_on,
)
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.crossing import loads
from gossamer.parts.route.load import Flow, Load, busiest
from gossamer.parts.route.price import EVERY

ODD = (
    Torus(x=4), Torus(x=16), Hierarchical(5, Tree()), Hierarchical(5, Torus()), Hierarchical(3, BinaryBlocks()),
    Hierarchical(6), Hierarchical(7, Hierarchical(2, Direct())),
)  # fmt: skip
LARGE = (48, 64, 100, 128)


@pytest.mark.parametrize("size", LARGE)
def test_large_worlds_are_loaded_as_walked(size: int) -> None:
    for route in (*EVERY, *ODD):
        if serves(route, size):
            assert misjudged(route, [Borders.of(size, per_host) for per_host in range(1, 10)]) is None, route


@pytest.mark.parametrize("schedule", [*ROUTES, *OPERATIONS, *ODD], ids=repr)
def test_hosts_of_any_widths_are_loaded_as_walked(schedule: Schedule) -> None:
    draw = Random(repr(schedule))
    for size in worlds(schedule, largest=25):
        drawn = [sorted({0, size, *draw.choices(range(size), k=count)}) for count in range(6)]
        even = [Borders.of(size, per_host) for per_host in range(1, 10)] if schedule in ODD else []
        assert misjudged(schedule, [*even, *(Borders(tuple(at)) for at in drawn)]) is None, size


def test_blocks_that_hand_over_while_others_halve_are_loaded_as_walked() -> None:
    for size in (150, 201, 259, 295):  # 128 + 16 + 4 + 2, 128 + 64 + 8 + 1, 256 + 2 + 1, 256 + 32 + 4 + 2 + 1
        assert misjudged(BinaryBlocks(), [Borders.of(size, per_host) for per_host in (1, 3, 4, 7, 8, 100)]) is None


def test_the_busiest_are_those_that_last_longest_on_some_number_of_links() -> None:
    draw = Random(0)
    for _ in range(300):
        flows = [Flow(draw.randrange(30), draw.randrange(1, 9)) for _ in range(draw.randrange(6))]
        found = busiest(flows)
        for links in range(1, 12):
            lasts = [[flow.chunks / min(links, flow.members) for flow in some] for some in (flows, found)]
            assert max(lasts[0], default=0) == max(lasts[1], default=0)
        assert found == busiest(reversed(flows))
        longest = [max(found, key=lambda one: one.chunks / min(n, one.members), default=None) for n in (1, 99)]
        assert set(found) == {*longest} - {None}


def test_loads_of_rings_and_columns_are_those_of_the_papers() -> None:
    assert dict(loads(Ring(), 12, 4)) == {Load(1, (Flow(1, 1),), 1): 11, Load(1, (Flow(1, 1),), 0): 11}
    rows, columns = Load(3, (), 3), Load(0, (Flow(4, 4),), 1)
    assert dict(loads(Torus(x=4), 12, 4)) == {
        rows: 3, columns: 2, rows._replace(added=0): 3, columns._replace(added=0): 2
    }  # fmt: skip
    crowd = (Flow(20, 4), Flow(8, 1))  # hosts of 4, 4 and 1: four members with five others each, and one with eight
    assert dict(loads(Direct(), 9, 4)) == {Load(3, crowd, 8, 8): 1, Load(3, crowd, 0, 8): 1}
    with pytest.raises(Refused, match="per_host must be from 1"):
        loads(Ring(), 4, 0)


@pytest.mark.parametrize(("size", "bound"), [(4096, 0.5), (65536, 5.0)])
def test_prices_of_thousands_of_members_are_known_at_once(size: int, bound: float) -> None:
    """A tenth of these seconds is what a quiet core takes; all routes together take less than that."""
    for per_host in (1, 4, 6, 8):
        hosts = Hosts(per_host, Link(1e-6, 1e-11), Link(1e-5, 1e-10), 1e-11, nics=2)
        for route in (*EVERY, Hierarchical(per_host), Torus(x=per_host)):
            if serves(route, size):
                loads.cache_clear()
                began = process_time()
                cost_on(hosts, route, size, 1e8)
                assert process_time() - began < bound, route
        loads.cache_clear()
        began = process_time()
        assert cheapest_on(hosts, size, 1e8).rounds(size) < Ring().rounds(size)
        assert process_time() - began < bound


@pytest.mark.parametrize("route", [*EVERY, Hierarchical(1), Hierarchical(8), BySize(), Native()], ids=repr)
def test_what_one_of_thousands_sends_is_counted_at_once(route: Route) -> None:
    for size in (4096, 4097):  # 4097 are blocks of 4096 and of 1
        for member in (0, 7, 8, size // 2, size - 1):
            began = process_time()
            said = route.tally(member, size, 10_007)
            assert process_time() - began < 0.05  # less than a hundredth of it on a quiet core
            assert said == Schedule.tally(route, member, size, 10_007)
