"""Each rule of what goes together, by one exchange that breaks it and one beside it that does not."""

from __future__ import annotations

import pytest

from gossamer.parts.refusal import Refused
from gossamer.parts.synchrony import AllBut
from gossamer.parts.topology import Inside
from gossamer.parts.world import World
from gossamer.strategy import CATALOG, Entry, Misread, fits, parse, slots

RULES = {
    "both ends must be there": (
        "Exchange(synchrony=Synchrony(staleness=2))",
        "Exchange(topology=Hub(), synchrony=Synchrony(staleness=2, quorum=1, late=APPLY))",
    ),
    "only a hub can close a round": (
        "Exchange(synchrony=Synchrony(quorum=1))",
        "Exchange(topology=Hub(), synchrony=Synchrony(quorum=1))",
    ),
    "would dwindle": (
        "Exchange(payload=PARAMETERS, topology=Exponential(), synchrony=Synchrony(delay=2))",
        "Exchange(payload=PARAMETERS, topology=Exponential(), synchrony=Synchrony(every=2, delay=2))",
    ),
    "nobody can be in step with it": (
        "Exchange(payload=PARAMETERS, topology=RandomPair())",
        "Exchange(payload=PARAMETERS, topology=RandomPair(), synchrony=Synchrony(staleness=None))",
    ),
    "counts the same steps twice": (
        "Exchange(payload=DELTAS, synchrony=Synchrony(every=2, delay=2))",
        "Exchange(payload=DELTAS, synchrony=Synchrony(every=3, delay=2))",
    ),
    "PARAMETERS: sent before the last has settled": (
        "Exchange(payload=PARAMETERS, synchrony=Synchrony(delay=2))",
        "Exchange(payload=PARAMETERS, synchrony=Synchrony(every=3, delay=2))",
    ),
    "who hears only some cannot keep the bound": (
        "Exchange(payload=DELTAS, topology=Hub(), synchrony=Synchrony(5, 2, quorum=1, late=APPLY))",
        "Exchange(payload=DELTAS, topology=Hub(), synchrony=Synchrony(1, 2, quorum=1, late=APPLY))",
    ),
    "GRADIENTS always mix before the update": (
        "Exchange(order=BEFORE)",
        "Exchange(payload=PARAMETERS, order=BEFORE)",
    ),
    "the replicas would drift apart": (
        "Exchange(synchrony=Synchrony(every=2))",
        "Exchange(payload=DELTAS, synchrony=Synchrony(every=2))",
    ),
    "a gradient does not lie still": (
        "Exchange(topology=RandomPeer(), synchrony=Synchrony(staleness=None))",
        "Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness=None))",
    ),
    "only parameters carry the mass": (
        "Exchange(topology=Graph(edges=((0, 1), (1, 0))))",
        "Exchange(payload=PARAMETERS, topology=Graph(edges=((0, 1), (1, 0))))",
    ),
    "neighbours never all agree": (
        "Exchange(payload=DELTAS, topology=Cycle())",
        "Exchange(payload=DELTAS, topology=Complete())",
    ),
    "whoever spoke last would overwrite": (
        "Exchange(payload=PARAMETERS, topology=Hub(), synchrony=Synchrony(staleness=None, quorum=1))",
        "Exchange(payload=PARAMETERS, topology=Hub(), synchrony=Synchrony(staleness=0, quorum=1))",
    ),
    "count twice in a round that waits for everybody": (
        "Exchange(topology=Hub(), synchrony=Synchrony(staleness=2))",
        "Exchange(topology=Hub(), synchrony=Synchrony(staleness=2, quorum=2))",
    ),
    "is rounded as it is summed": (
        "Exchange(payload=PARAMETERS, codec=Difference(codec=Half()))",
        "Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference(codec=Half()))",
    ),
    "is not pulled as hard as it pulls": (
        "Exchange(payload=PARAMETERS, topology=Hub(), synchrony=Synchrony(staleness=None, quorum=2), merge=Elastic())",
        "Exchange(payload=PARAMETERS, topology=Hub(), merge=Elastic(), "
        "synchrony=Synchrony(staleness=None, quorum=1, late=APPLY))",
    ),
    "merges DELTAS, not GRADIENTS": (
        "Exchange(merge=Outer())",
        "Exchange(payload=DELTAS, merge=Outer())",
    ),
    "merges PARAMETERS, not DELTAS": (
        "Exchange(payload=DELTAS, merge=Elastic())",
        "Exchange(payload=PARAMETERS, merge=Elastic())",
    ),
    "who looks ahead must not be read": (
        "Exchange(payload=PARAMETERS, topology=Cycle(), merge=Elastic(lookahead=0.5))",
        "Exchange(payload=PARAMETERS, topology=Hub(), merge=Elastic(lookahead=0.5))",
    ),
    "speaks of what a hub does": (
        "Exchange(merge=Share())",
        "Exchange(topology=Hub(), merge=Share())",
    ),
    "only the whole sum keeps the mean": (
        "Exchange(payload=PARAMETERS, topology=Exponential(), merge=Elastic())",
        "Exchange(payload=PARAMETERS, topology=Exponential())",
    ),
    "two rates would multiply": (
        "Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference(), merge=Elastic())",
        "Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference())",
    ),
    "parameters do not come again": (
        "Exchange(payload=PARAMETERS, codec=TopK())",
        "Exchange(payload=PARAMETERS, codec=Difference(codec=TopK(), rate=0.1))",
    ),
    "carries GRADIENTS, not DELTAS": (
        "Exchange(payload=DELTAS, codec=DGC())",
        "Exchange(payload=DELTAS, codec=ErrorFeedback(TopK()))",
    ),
    "carries PARAMETERS, not GRADIENTS": (
        "Exchange(codec=Difference())",
        "Exchange(codec=TopK())",
    ),
    "speaks 2 times and all must hear the same": (
        "Exchange(topology=Hub(), codec=PowerSGD())",
        "Exchange(codec=PowerSGD())",
    ),
    "a reference must have the same hearers": (
        "Exchange(payload=PARAMETERS, topology=RandomPeer(), codec=Difference())",
        "Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference())",
    ),
    "a reference cannot be compared": (
        "Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference(), synchrony=Synchrony(every=2, delay=1))",
        "Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference(), synchrony=Synchrony(every=2))",
    ),
    "is a way to all-reduce": (
        "Exchange(topology=Hub(), route=ring)",
        "Exchange(route=ring)",
    ),
    "already keeps what it did not send": (
        "Exchange(codec=ErrorFeedback(ErrorFeedback()))",
        "Exchange(codec=ErrorFeedback(Half()))",
    ),
    "loses nothing, so there is nothing to keep": (
        "Exchange(codec=ErrorFeedback(Dense()))",
        "Exchange(codec=Dense())",
    ),
}
WORLDS = (
    ("allreduce(torus(x=3))", 4, 6, "do not fill rows"),
    (
        "backup_workers(backups=4)",
        4,
        5,
        "4 backups of 4 workers leave nobody to wait for; nearest that works: AllBut.3., or 5 workers",
    ),
    (
        "Exchange(topology=Hub(), synchrony=Synchrony(quorum=5))",
        4,
        5,
        "4 workers never make a quorum of 5; nearest that works: quorum=4, or 5 workers",
    ),
    (
        "backup_workers",
        1,
        2,
        "1 backup of 1 worker leaves nobody to wait for; nearest that works: no quorum, or 2 workers",
    ),
    ("softsync(n=8)", 4, 8, "one in 8 of 4 workers is nobody; nearest that works: OneIn.4., or 8 workers"),
    ("Exchange(topology=Cycle())", 1, 2, "gossip needs company"),
    ("Exchange(payload=PARAMETERS, topology=Graph(edges=()))", 1, None, "gossip needs company"),
    ("dpsgd(Grid())", 2, 4, "2 workers make a torus of 2 x 1, which is a circle; nearest that works: Cycle.., or 4"),
    ("dpsgd(Grid())", 5, 6, "5 workers make a torus of 5 x 1, which is a circle; nearest that works: Cycle.., or 6"),
    ("dpsgd(Grid(x=4))", 4, 8, "torus of 4 x 1, which is a circle; nearest that works: Grid()"),
    ("dpsgd(Grid(x=1))", 9, None, "torus of 1 x 9, which is a circle; nearest that works: Grid()"),
    ("gossip_pga(graph=Grid(x=3))", 7, 9, "7 workers do not fill rows of 3; nearest that works: Cycle.., or 8 workers"),
    (
        "Exchange(payload=PARAMETERS, topology=Graph(edges=((0, 1), (1, 2), (2, 3), (3, 0))))",
        3,
        4,
        "names member 3.*works: 4 workers",
    ),
    ("Exchange(payload=PARAMETERS, topology=Graph(edges=((0, 1), (1, 0))))", 3, 2, "the mass would drain away"),
)


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_rule_is_refused_and_its_neighbour_is_not(rule: str) -> None:
    broken, kept = RULES[rule]
    with pytest.raises(Misread) as caught:
        parse(broken)
    assert rule in caught.value.reason
    assert caught.value.nearest
    parse(kept)


@pytest.mark.parametrize(("text", "small", "large", "reason"), WORLDS)
def test_a_world_too_small_is_refused_and_the_next_is_not(
    text: str, small: int, large: int | None, reason: str
) -> None:
    strategy = parse(text)
    with pytest.raises(Refused, match=reason):
        fits(strategy, World(small))
    if large is not None:
        fits(strategy, World(large))


ENTRIES = [entry for entry in CATALOG if any(ex.topology.pattern.startswith("gossip") for ex in slots(entry.make()))]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_gossip_of_one_is_refused(entry: Entry) -> None:
    alone = "gossip needs company, and there is 1 worker; nearest that works: 2 workers, or"
    with pytest.raises(Refused, match=f"{alone}|1 worker cannot fill hosts of 2"):
        fits(entry.make(), World(1))
    fits(entry.make(), World(2))


@pytest.mark.parametrize("entry", [each for each in CATALOG if each not in ENTRIES], ids=lambda entry: entry.name)
def test_who_gossips_with_nobody_may_be_alone(entry: Entry) -> None:
    """But for backups, of whom one is left over, and hosts, which one does not fill."""
    if any(isinstance(ex.synchrony.quorum, AllBut) for ex in slots(entry.make())):
        with pytest.raises(Refused, match="nobody to wait for"):
            fits(entry.make(), World(1))
    elif any(isinstance(ex.topology, Inside) for ex in slots(entry.make())):
        with pytest.raises(Refused, match="1 worker cannot fill hosts of 2"):
            fits(entry.make(), World(1))
    else:
        fits(entry.make(), World(1))
