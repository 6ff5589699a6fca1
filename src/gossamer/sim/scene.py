"""What is timed: a strategy on a cluster with a workload, and how long members compute. Knows no order of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gossamer.parts.chance import draw
from gossamer.parts.trouble import Script
from gossamer.parts.world import World
from gossamer.sim.cargo import Cargo, cargoes
from gossamer.sim.cluster import Cluster
from gossamer.sim.roads import Roads
from gossamer.sim.workload import Workload
from gossamer.strategy import AnyStrategy, Exchange
from gossamer.strategy.phases import Phase, phases

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]

LIKELY = "likely"  # of the low, the likely and the high length of a wire
_JITTER = 0x72  # keeps these draws apart from every other use of the seed


@dataclass(frozen=True)
class Scene:
    """So many workers with a local batch each; `servers`: hosts that hold the hubs, 0 where workers share them out,
    all of them or only so many (`shards`).

    `early`: pushes to hubs leave bucket by bucket while backward runs; ours leave after it. `bucket`: bytes of a bucket
    of gradients, or as long as ours would be. `bound`: how long wires are that may be shorter or longer.
    """

    strategy: AnyStrategy
    cluster: Cluster
    workload: Workload
    world: World
    batch: float
    trouble: Script = Script()
    servers: int = 0
    early: bool = False
    bucket: int | None = None
    shards: int | None = None
    bound: str = LIKELY

    @cached_property
    def roads(self) -> Roads:
        """The links that are used."""
        return Roads(self.cluster, self.world.size)

    def pushed(self, nbytes: float) -> tuple[float, float]:
        """Seconds until everybody has pushed so many bytes to a hub, and of a start-up."""
        return self.roads.hub(nbytes, self.servers, self.shards)

    @cached_property
    def cargoes(self) -> list[Cargo]:
        """What each slot carries."""
        return cargoes(self)

    @cached_property
    def compute(self) -> float:
        """Seconds of forward and backward of a member that nothing disturbs."""
        crowd = 1.0 + self.cluster.crowd * (1.0 - 1.0 / self.roads.per_host)
        return self.workload.compute(self.batch) / self.cluster.speed * crowd

    @cached_property
    def update(self) -> float:
        """Seconds of an optimizer's step."""
        return self.workload.update / self.cluster.speed

    def served(self, exchange: Exchange) -> float:
        """Seconds in which a hub steps the optimizer for a round: whoever shares it out steps a share."""
        return self.update / (self.servers or self.shards or self.world.size) if exchange.updates_at_hub else 0.0

    def computes(self, step: int) -> Array:
        """Every member's seconds of compute in a step: now and then one is late, nobody is early."""
        return self.compute * self.factors(step)

    def factors(self, step: int) -> Array:
        """How many times longer than undisturbed each member computes in a step."""
        import numpy

        size, jitter = self.world.size, self.cluster.jitter
        found = numpy.ones(size)
        if jitter:
            key = draw(self.world.seed, _JITTER, step)
            found += jitter / 2 * numpy.random.Generator(numpy.random.Philox(key=key)).standard_exponential(size)
        for member in self._slowed:
            found[member] *= self.trouble.slowdown(member, step)
        return found

    @cached_property
    def _slowed(self) -> Sequence[int]:
        return sorted({line.worst_rank() for line in self.trouble.lines})

    def phases(self, step: int) -> tuple[Phase, ...]:
        """The step written out."""
        found = self._written.get(step)
        if found is None:
            found = self._written[step] = tuple(phases(self.strategy, step))
        return found

    @cached_property
    def _written(self) -> dict[int, tuple[Phase, ...]]:
        return {}


LINKS = -1  # the member of a span of all links together


@dataclass
class Span:
    """What one member, or LINKS, did from when to when; for whoever draws it. `whom`: the member it waited for."""

    member: int
    step: int
    what: str
    start: float
    stop: float
    whom: int | None = None


@dataclass(slots=True)
class Ages:
    """How many versions or steps old what is used is: all of it together, how often something was, and the most."""

    total: int = 0
    count: int = 0
    most: int = 0

    def add(self, age: int) -> None:
        """Something so old is used."""
        self.total += age
        self.count += 1
        if age > self.most:
            self.most = age

    @property
    def mean(self) -> float:
        """Of all that was used."""
        return self.total / max(1, self.count)


@dataclass
class Played:
    """A run that was timed: when each step ended, in the mean over members, and what it took and sent.

    `exposed`: seconds a member stood still for others, mean over members and steps; `sent`: by slot, bytes out of a
    member in all; `answered`: those that hubs sent back to it. `ends[k]`: when members had done k + 1 steps each, in
    the mean.
    """

    ends: list[float] = field(default_factory=list)
    computed: float = 0.0
    exposed: float = 0.0
    sent: dict[int, float] = field(default_factory=dict)
    answered: float = 0.0
    stale: float = 0.0
    stalest: int = 0
    dropped: int = 0
    stopped: str | None = None  # why it stands still, if it does
    spans: list[Span] = field(default_factory=list)
