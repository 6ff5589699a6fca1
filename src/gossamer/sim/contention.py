"""How long a visit waits, in the mean, for links that other members' visits use. Knows no clock and no order of events.

Members that go on without each other come to a link by chance. Whom each meets is data: so many messages of a round
share a lane. Between two visits a member is busy with its own for T0 seconds. A lane carries n messages a round of s
seconds, each beside k others, and is in use for L = n s seconds. A queue of equal messages makes each of them wait for
k s s / 2 (T - L): little while it is hardly used, and without end where it would have to carry more than it can. How
long a cycle takes is the T that agrees with itself,

    T = T0 + sum over a visit's messages of k s s / 2 (T - L),     T > L,

which grows with T0, s, n and k: links that are slower make no cycle quicker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Into, Mixing, Neighbours, Pair, Topology
from gossamer.parts.world import World
from gossamer.sim.scene import Scene
from gossamer.strategy import slots

ROUNDS = 8  # that are looked at
LOOKED = 512  # members at most, where so many are as good as all


@dataclass(frozen=True)
class Waits:
    """Seconds that a message of a visit waits for its links, inside a host and between hosts."""

    near: float
    far: float

    def of(self, *, near: bool) -> float:
        """Of one of them."""
        return self.near if near else self.far


def waits(scene: Scene, slot: int) -> Waits:
    """Those of the visits of an exchange."""
    ex, cargo, roads = slots(scene.strategy)[slot], scene.cargoes[slot], scene.roads
    (close, _), (far, _) = (roads.message(cargo.nbytes, near=near) for near in (True, False))
    busier = far / roads.links.nics if roads.per_host > 1 else far
    inside, between = _seen(ex.topology, roads.cluster.per_host, scene.world, slot)
    own = ex.synchrony.every * (scene.compute + scene.update) + cargo.write + cargo.read
    own += inside.messages * close + between.messages * far  # latency is left out: nobody is in the way of who waits
    cycle = _cycle(own, ((inside, close), (between, busier)))
    return Waits(inside.wait(close, cycle), between.wait(busier, cycle))


def _cycle(own: float, kinds: Sequence[tuple[Lane, float]]) -> float:
    """The T that agrees with itself."""
    low = max(own, *(lane.load * busy for lane, busy in kinds))

    def more(cycle: float) -> float:
        return own + sum(lane.messages * lane.wait(busy, cycle) for lane, busy in kinds) - cycle

    high = low * (1.0 + 1e-12) + 1e-12
    while more(high) > 0:
        high = low + 2.0 * (high - low)
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if more(middle) > 0 else (low, middle)
    return high


@dataclass(frozen=True)
class Lane:
    """A kind of lane: messages of a visit that use one, all that use it in a round, and beside how many others each of
    them does, on both its ends together; in the mean."""

    messages: float
    load: float
    others: float

    def wait(self, busy: float, cycle: float) -> float:
        """Of a message that takes so long, if a cycle takes that long."""
        spare = cycle - self.load * busy
        return self.others * busy * busy / (2.0 * spare) if spare > 0 else inf if self.others * busy else 0.0


@lru_cache(maxsize=64)
def _seen(topology: Topology, per_host: int, world: World, slot: int) -> tuple[Lane, Lane]:
    """Lanes inside a host and between hosts, by whom members visit."""
    world, visits = _looked(topology, per_host, world), 0
    ends = {True: world.size, False: -(-world.size // per_host)}  # lanes of each kind, on one end
    counted = {True: 0, False: 0}
    rivals = {True: 0, False: 0}
    for round in range(ROUNDS):
        lanes = Counter[tuple[bool, str, int]]()
        mine = Counter[tuple[bool, str, int, int]]()  # the same, by whose visit it is
        for member in range(world.size):
            said = list(_messages(member, topology.mixing(member, round, world, slot)))
            visits += bool(said)
            for source, target in said:
                near = source // per_host == target // per_host
                counted[near] += 1
                for end, at in (("out", source), ("into", target)):
                    lane = near, end, at if near else at // per_host
                    lanes[lane] += 1
                    mine[*lane, member] += 1
        for near in rivals:
            rivals[near] += sum(n * n for lane, n in lanes.items() if lane[0] == near)
            rivals[near] -= sum(n * n for lane, n in mine.items() if lane[0] == near)
    inside, between = (
        Lane(counted[near] / max(1, visits), counted[near] / ROUNDS / ends[near], rivals[near] / max(1, counted[near]))
        for near in (True, False)
    )
    return inside, between


def _messages(member: int, mixing: Mixing) -> Iterator[tuple[int, int]]:
    """From whom to whom bytes go that a visit waits for; one that is only told keeps nobody waiting."""
    if isinstance(mixing, Neighbours):
        yield from ((other, member) for other in mixing.weights if other != member)
    elif isinstance(mixing, Pair):
        yield from ((member, mixing.partner), (mixing.partner, member))
    else:
        assert isinstance(mixing, Into), f"{mixing} is not met"


def _looked(topology: Topology, per_host: int, world: World) -> World:
    """Few enough members to look at, on hosts that are as full."""
    few = max(1, LOOKED // per_host) * per_host
    small = World(min(world.size, few), world.seed)
    try:
        topology.fits(small)
    except Refused:
        return world
    return small
