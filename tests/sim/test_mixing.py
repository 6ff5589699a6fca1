"""Mixing alone: gossip brings replicas together; balanced mixing keeps the mean, and mass recovers it elsewhere."""

from __future__ import annotations

import pytest
import torch
from tests.sim.still import mixed

from gossamer.strategy import parse, slots

GOSSIP = "Exchange(payload=PARAMETERS, topology={}, synchrony=Synchrony(staleness={}))"


TO_CONSENSUS = [
    "gossip_pull()", GOSSIP.format("RandomPeer()", 0), GOSSIP.format("Cycle()", 0), "sgp()", "gossip_push()",
    "gossip_push(every=2)", "adpsgd()", "dpsgd()", "osgp()", "osgp(delay=3)", "gossipgrad()",
    "gossip_pga()",
]  # fmt: skip
CASES = [
    pytest.param(text, size, marks=pytest.mark.long if size in (3, 8) else ())
    for text, sizes in [*((text, (2, 3, 5, 8)) for text in TO_CONSENSUS), ("dpsgd(Grid())", (4, 6, 8, 9))]
    for size in sizes
]


@pytest.mark.parametrize(("expression", "size"), CASES)
def test_gossip_without_gradients_reaches_consensus(expression: str, size: int) -> None:
    apart, outcome, _ = mixed(expression, size, 200)
    assert apart.var(0).mean() > 0.1
    assert outcome.replicas.var(0).max() < 1e-6


HOSTED = "Exchange(payload=PARAMETERS, topology=Inside(per_host={}))"  # what start apart may agree inside first


@pytest.mark.parametrize("graph", ["Exponential()", "Cycle()", "RandomPeer()", "RandomPush()", "Dissemination()"])
@pytest.mark.parametrize(("size", "per_host"), [(4, 2), (9, 3), pytest.param(8, 2, marks=pytest.mark.long)])
def test_hosts_without_gradients_reach_consensus(graph: str, size: int, per_host: int) -> None:
    apart, outcome, _ = mixed(f"gossip_hosts({per_host}, {graph})", size, 200)
    assert apart.var(0).mean() > 0.1
    assert outcome.replicas.var(0).max() < 1e-6


def test_hosts_that_nobody_speaks_for_stay_apart() -> None:
    """Inside a host all agree, and hosts only where their masters gossip."""
    apart, outcome, _ = mixed(HOSTED.format(2), 6, 3)
    torch.testing.assert_close(outcome.replicas[::2], outcome.replicas[1::2], rtol=0, atol=1e-15)
    torch.testing.assert_close(outcome.replicas[::2], (apart[::2] + apart[1::2]) / 2, rtol=0, atol=1e-15)
    alone, unled, _ = mixed("Exchange(payload=PARAMETERS, topology=Masters(among=Cycle()))", 6, 40)
    torch.testing.assert_close(unled.replicas[1::2], alone[1::2], rtol=0, atol=0)
    assert unled.replicas[::2].var(0).max() < 1e-12


@pytest.mark.parametrize("graph", ["Cycle()", "Exponential()", "Grid()", "Dissemination()", "Complete()"])
def test_hosts_that_agree_inside_keep_the_mean_on_balanced_graphs(graph: str) -> None:
    expression = f"{HOSTED.format(2)} + {gossip(graph)}"
    apart, outcome, _ = mixed(expression, 12, 40)
    torch.testing.assert_close(outcome.replicas.mean(0), apart.mean(0), rtol=0, atol=1e-12)


def test_hosts_that_pull_lose_the_mean() -> None:
    apart, outcome, _ = mixed(f"{HOSTED.format(2)} + {gossip('RandomPeer()')}", 12, 200)
    assert (outcome.replicas.mean(0) - apart.mean(0)).abs().max() > 1e-2


def gossip(graph: str) -> str:
    """What happens between hosts and after that, without the gradients."""
    return " + ".join(repr(ex) for ex in slots(parse(f"gossip_hosts(graph={graph})"))[1:])


@pytest.mark.parametrize(
    "expression",
    [
        GOSSIP.format("Cycle()", 0),
        "sgp()",
        "local_sgd(every=3)",
        "dpsgd()",
        "dpsgd(Grid())",
        "gossipgrad()",
        "adpsgd()",
    ],
)
def test_balanced_mixing_keeps_the_mean(expression: str) -> None:
    apart, outcome, _ = mixed(expression, 6, 40)
    torch.testing.assert_close(outcome.replicas.mean(0), apart.mean(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("expression", ["osgp(delay=1)", "osgp(delay=4)"])
def test_late_pushes_come_to_the_true_mean(expression: str) -> None:
    """Mass under way belongs to nobody for a while, and counts again when it arrives."""
    apart, outcome, rehearsal = mixed(expression, 6, 400)
    for replica in outcome.replicas:
        torch.testing.assert_close(replica, apart.mean(0), rtol=0, atol=1e-6)
    masses = [replica.desks[0].mass for replica in rehearsal.replicas]
    assert masses == pytest.approx([2 / 3] * 6, rel=1e-4), "half as much as is held is under way"


@pytest.mark.parametrize("expression", ["gossip_pull()", "gossip_push()"])
def test_unbalanced_mixing_without_mass_would_lose_the_mean(expression: str) -> None:
    apart, outcome, _ = mixed(expression, 6, 200)
    assert (outcome.replicas.mean(0) - apart.mean(0)).abs().max() > 1e-2


def test_mass_recovers_the_true_mean_on_an_unbalanced_graph() -> None:
    edges = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (0, 3))
    apart, outcome, rehearsal = mixed(f"Exchange(payload=PARAMETERS, topology=Graph(edges={edges}))", 4, 120)
    masses = [replica.desks[0].mass for replica in rehearsal.replicas]
    assert max(masses) - min(masses) > 0.1, "the graph is not unbalanced, so nothing is shown"
    assert sum(masses) == pytest.approx(4.0, abs=1e-12)
    for replica in outcome.replicas:
        torch.testing.assert_close(replica, apart.mean(0), rtol=0, atol=1e-10)


def test_a_pull_changes_only_the_puller_and_drawing_oneself_nothing() -> None:
    from gossamer.parts.topology import RandomPeer
    from gossamer.parts.world import World

    apart, outcome, _ = mixed("gossip_pull()", 5, 1)
    drawn = [RandomPeer().drawn(member, 0, World(5), 0)[0] for member in range(5)]
    now = apart.clone()
    for member in outcome.order:
        if drawn[member] != member:
            now[member] = 0.5 * now[member] + 0.5 * now[drawn[member]]
    torch.testing.assert_close(outcome.replicas, now, rtol=0, atol=1e-15)
