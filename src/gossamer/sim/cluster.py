"""A cluster: hosts, the links inside and between them, and how steady its machines are. Knows no strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

from gossamer.parts import units
from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.route.hosts import Hosts, Link
from gossamer.parts.spelling import nearest
from gossamer.parts.value import Value
from gossamer.sim.description import Table, made, read

MODEL = "model"  # what the simulator itself misses, beside what one is unsure of in its parameters
CODING = ("writing", "reading")  # what only codecs ask for
LEAST = 1e-6  # of a share and of a speed: far below any machine, and far from where numbers lose their digits
TOLD = ("single", MODEL)  # of which a file may say how sure it is, too
FREE = Link(0.0, 0.0)  # a kind of link that is not there, and that nobody uses
SPREAD = {  # how sure one is of what was read off a label: the logarithm of a likely factor
    "inside.latency": 0.7, "inside.rate": 0.2, "across.latency": 0.7, "across.rate": 0.25, "speed": 0.1, "jitter": 0.7,
    "writing": 0.7, "reading": 0.7,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Tier(Value):
    """A kind of link: `latency` seconds a message, `bandwidth` bytes a second each way on the label, of which a
    transfer gets the share `achieved`."""

    latency: float
    bandwidth: float
    achieved: float = 1.0

    def __post_init__(self) -> None:
        real("Tier", "latency", self.latency, 0.0, 3600.0)
        real("Tier", "bandwidth", self.bandwidth, 1.0, 1e16)
        real("Tier", "achieved", self.achieved, LEAST, 1.0)

    @property
    def rate(self) -> float:
        """Bytes a second that a transfer gets."""
        return self.bandwidth * self.achieved

    @property
    def link(self) -> Link:
        """The same as routes price it."""
        return Link(self.latency, 1.0 / self.rate)


@dataclass(frozen=True, repr=False)
class Cluster(Value):
    """`hosts` of `per_host` seats each, filled one after the other; a host's members share its `nics`.

    `speed`: how many times as fast a member computes as the machine the workload was measured on. `crowd`: how much
    longer members of a full host compute, those of one of g by (1 - 1/g) of it. `jitter`: how much longer a step's
    compute takes now and then: 1 + jitter x / 2, x exponential, so that the latest of N is late by about
    jitter / 2 (ln N + 0.58). `drag`: how much longer compute takes while an exchange goes on beside it. `congestion`:
    by which power of the hosts in use links between them get slower; `pair`: how much slower they are between two hosts
    alone, which have one peer each. `single`: the share of its rate that a link between hosts has for single messages
    and pushes, beside mixes of all. `adding`: seconds a byte that is summed; `writing`, `reading`: bytes a second of
    codecs. `failures`: in a thousand days of a host, each costing `restart` seconds; a checkpoint takes `save` seconds.
    """

    hosts: int = 1
    per_host: int = 1
    inside: Tier | None = None
    across: Tier | None = None
    nics: int = 1
    speed: float = 1.0
    crowd: float = 0.0
    jitter: float = 0.03
    drag: float = 0.0
    congestion: float = 0.0
    pair: float = 0.0
    single: float = 1.0
    adding: float = 0.0
    writing: float = 2e9
    reading: float = 4e9
    failures: float = 6.5
    restart: float = 600.0
    save: float = 20.0
    name: str = ""
    source: str = ""
    spread: Mapping[str, float] = field(default_factory=lambda: dict(SPREAD), compare=False)
    measured: int = 0  # workers of the largest run that this was fitted to; 0: to none

    def __post_init__(self) -> None:
        where = f"cluster {self.name}".strip()
        whole(where, "hosts", self.hosts, 1, 2**20)
        whole(where, "per_host", self.per_host, 1, 2**20)
        whole(where, "nics", self.nics, 1, 2**16)
        if self.per_host > 1 and self.inside is None:
            raise Refused(f"{where}: hosts of {self.per_host} members, and no tier inside", "[inside] with a bandwidth")
        if self.hosts > 1 and self.across is None:
            raise Refused(f"{where}: {self.hosts} hosts, and no tier across", "[across] with a bandwidth")
        real(where, "speed", self.speed, LEAST, 1e9)
        real(where, "single", self.single, LEAST, 10.0)
        for name in ("crowd", "jitter", "drag", "congestion", "pair"):
            real(where, name, getattr(self, name), 0.0, 10.0)
        for name in ("adding", "failures", "restart", "save"):
            real(where, name, getattr(self, name), 0.0, 1e9)
        for name in ("writing", "reading"):
            real(where, name, getattr(self, name), 1.0, 1e18)
        for name, sure in self.spread.items():
            if name not in (known := (*SPREAD, *TOLD)):
                raise Refused(f"{where}, [spread]: there is no parameter {name}", nearest(name, known))
            real(f"{where}, [spread]", name, sure, 0.0, 10.0)

    @classmethod
    def load(cls, given: str | Path) -> Cluster:
        """The cluster of a file, or one of ours by its name."""
        return _read(read("cluster", given))

    @property
    def seats(self) -> int:
        """How many members there is room for."""
        return self.hosts * self.per_host

    def used(self, workers: int) -> int:
        """Hosts that so many workers fill."""
        if workers > self.seats:
            raise Refused(
                f"{workers:,} workers are more than the {self.seats:,} seats of cluster {self.name or self!r}",
                f"{self.seats:,} workers, or hosts = {-(-workers // self.per_host):,} in the file",
            )
        return -(-workers // self.per_host)

    def links(self, workers: int) -> Hosts:
        """What routes of so many workers travel on; the more hosts, the slower are links between them."""
        across = FREE if self.across is None else self.across.link
        used = self.used(workers)
        slower = max(1, used) ** self.congestion * (1.0 + self.pair * (used == 2))
        inside = FREE if self.inside is None else self.inside.link
        return Hosts(self.per_host, inside, Link(across.alpha, across.beta * slower), self.adding, self.nics)


def _read(table: Table) -> Cluster:
    told = {f.name: f.default for f in fields(Cluster) if isinstance(f.default, int | float)}
    given: dict[str, object] = {name: table.words(name) for name in ("name", "source")}
    for name in ("hosts", "per_host", "nics", "measured"):
        given[name] = table.count(name, 0 if name == "measured" else 1, 2**20, int(told[name]))
    for name in ("speed", "crowd", "jitter", "drag", "congestion", "pair", "single", "adding", "failures"):
        given[name] = table.number(name, 0.0, 1e9, float(told[name]))
    for name in ("writing", "reading"):
        given[name] = table.unit(name, units.rate, 1.0, 1e18, told[name])
    for name in ("restart", "save"):
        given[name] = table.unit(name, partial(units.seconds, name), 0.0, 1e9, told[name])
    for name in ("inside", "across"):
        tier = table.table(name)
        given[name] = None if tier is None else _tier(tier)
    spread = table.table("spread")
    if spread is not None:
        told_of = [key for key in TOLD if key in spread]
        given["spread"] = {key: spread.number(key, 0.0, 10.0, SPREAD.get(key)) for key in (*SPREAD, *told_of)}
        spread.rest()
    table.rest()
    owner = f"cluster {given['name']}".strip()
    return made(table.where, owner, lambda: Cluster(**given))  # type: ignore[arg-type]


def _tier(table: Table) -> Tier:
    latency = table.unit("latency", partial(units.seconds, "latency"), 0.0, 3600.0)
    bandwidth = table.unit("bandwidth", units.rate, 1.0, 1e16)
    achieved = table.number("achieved", LEAST, 1.0, 1.0)
    table.rest()
    return Tier(latency, bandwidth, achieved)
