"""All-reduce inside hosts, gossip between them: links carry what masters say to each other, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hosts.test_steps import HEADERS, MODEL, VOTES, Told

from gossamer.engine.messages import secret
from gossamer.lab import Lab, missing
from gossamer.parts.selection import Tag
from gossamer.parts.topology import hears
from gossamer.parts.world import World
from gossamer.strategy import parse, slots

STEPS = 3
BLOCKING = ("gossip_hosts", "gossip_hosts(graph=Cycle())", "gossip_hosts(graph=Complete(), every=2)")
PULLING = "gossip_hosts(graph=RandomPeer())"


class Keyed(Told):
    """Workers that know each other by a key, and so may visit each other between hosts."""

    def __init__(self, lab: Lab, key: Path) -> None:
        self.key = key
        super().__init__(lab)

    def _env(self, rank: int, count: int) -> dict[str, str]:
        return {**super()._env(rank, count), "GOSSAMER_KEY_FILE": str(self.key), "MASTER_PORT": "29541"}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """Two hosts of two workers."""
    if (why := missing()) is not None:
        pytest.skip(why)
    key = tmp_path_factory.mktemp("job") / "key"
    secret.made(key)
    with Lab(hosts=2) as lab:
        found = Keyed(lab, key)
        yield found
        found.end()


def spoken(strategy: str, first: int) -> list[int]:
    """Bytes of parameters that each host's master tells the other's, in so many steps from `first`, by the topology."""
    between, sent = slots(parse(strategy))[1], [0, 0]
    for step in range(first, first + STEPS):
        for host in (0, 1) if between.synchrony.due(step, between.order) else ():
            heard = hears(between.topology, 2 * host, between.round(step), World(4), 1)
            sent[1 - host] += MODEL * (2 * (1 - host) in heard)
    return sent


def stepped(told: Keyed, strategy: str) -> tuple[list[int], list[dict[str, Any]]]:
    """Bytes that each host's link carried outwards during some steps, the first of which was made before."""
    told.step(strategy, 0)
    before = told.lab.traffic()
    said = told.step(strategy, STEPS)
    return [(now - then).sent for now, then in zip(told.lab.traffic(), before, strict=True)], said


@pytest.mark.parametrize("strategy", [*BLOCKING, PULLING])
def test_links_carry_what_masters_say_and_nothing_that_is_mixed_inside(told: Keyed, strategy: str) -> None:
    predicted = spoken(strategy, first=1)
    assert max(predicted) >= MODEL
    sent, said = stepped(told, strategy)
    for counted, wanted in zip(sent, predicted, strict=True):
        assert abs(counted - HEADERS * wanted) <= 0.10 * wanted + VOTES, (sent, predicted)
    for one, other in (said[:2], said[2:]):
        assert one["total"] == other["total"], "members of a host are not the same"
    if strategy != PULLING:
        recorded = [sum(each["crossed"] for each in said[host : host + 2]) for host in (0, 2)]
        assert recorded == pytest.approx(predicted, rel=1e-6)  # a mass goes with parameters


def test_the_same_gossip_with_hosts_of_one_crosses_twice_as_much(told: Keyed) -> None:
    """What the test above would see if members of a host spoke for themselves."""
    flat, _ = stepped(told, "gossip_hosts(per_host=1, graph=Cycle())")
    hosted = sum(spoken("gossip_hosts(graph=Cycle())", first=1))
    assert sum(flat) > 1.8 * hosted


@pytest.mark.parametrize("across", ["ErrorFeedback(codec=OneBit())", "QSGD(bits=8)"])
def test_of_two_levels_only_what_masters_write_crosses_a_link(told: Keyed, across: str) -> None:
    """Gradients in 16 bits inside a host, strongly written between them: counted by the links, not by us."""
    strategy = f"two_levels(inside=Half(), across={across})"
    sent, said = stepped(told, strategy)
    tags = [Tag("", (512, 512))] * 16
    (size,) = slots(parse(strategy))[1].wire_bytes(tags)
    assert size.high < MODEL / 3
    for counted in sent:
        assert abs(counted - HEADERS * STEPS * size.likely) <= 0.10 * STEPS * size.likely + VOTES, (sent, size)
    recorded = [sum(each["crossed"] for each in said[host : host + 2]) for host in (0, 2)]
    assert recorded == [STEPS * size.likely] * 2
    assert len({each["total"] for each in said}) == 1, "members are not the same"
