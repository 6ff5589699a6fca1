"""Topologies of hosts, `per_host` members one after the other, the first of each its master: inside one, or between.

They know neither which members share a machine (whoever launches them does) nor how a host's own mix travels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.topology.central import Hub
from gossamer.parts.topology.mixing import Common, Everyone, Into, Mixing, Neighbours, Topology, Weighing
from gossamer.parts.topology.peers import Exponential
from gossamer.parts.world import World


class Hosted(Topology):
    """What is said of hosts of one size."""

    @property
    @abstractmethod
    def per_host(self) -> int:
        """Members of each host."""

    def host(self, member: int) -> range:
        """The members of the host that `member` is on; the first is its master."""
        first = member - member % self.per_host
        return range(first, first + self.per_host)

    def fits(self, world: World) -> None:
        if world.size % self.per_host:
            many = "1 worker" if world.size == 1 else f"{world.size} workers"
            near = min(divisors(world.size), key=lambda count: (abs(count - self.per_host), count))
            raise Refused(
                f"{type(self).__name__}: {many} cannot fill hosts of {self.per_host}",
                f"per_host={near}, or {world.size + -world.size % self.per_host} workers",
            )


@dataclass(frozen=True, repr=False)
class Inside(Hosted):
    """Everybody hears the mean of its own host: an all-reduce of `per_host` members that crosses no link."""

    pattern: ClassVar[str] = "all-reduce, inside hosts"

    per_host: int = 2

    def __post_init__(self) -> None:
        whole("Inside", "per_host", self.per_host, 1, 2**20)

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        host = self.host(member)
        return Neighbours(Common(host, dict.fromkeys(host, 1.0 / self.per_host)))

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return tuple(other for other in self.host(member) if other != member)


@dataclass(frozen=True, repr=False)
class Follow(Hosted):
    """Everybody becomes what the master of its host is, and a master stays what it is."""

    pattern: ClassVar[str] = "broadcast, inside hosts"
    balanced: ClassVar[bool] = False

    per_host: int = 2

    def __post_init__(self) -> None:
        whole("Follow", "per_host", self.per_host, 1, 2**20)

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        host = self.host(member)
        return Neighbours(Common(host, {host[0]: 1.0}))

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        master, *others = self.host(member)
        return tuple(others) if member == master else ()


@dataclass(frozen=True, repr=False)
class Masters(Hosted):
    """Masters mix `among` each other as the members of a world of hosts would, and the others with nobody.

    One host has nobody to mix with, and stays as it is.
    """

    per_host: int = 2
    among: Topology = Exponential()

    def __post_init__(self) -> None:
        whole("Masters", "per_host", self.per_host, 1, 2**20)
        kind("Masters", "among", self.among, Topology)
        if isinstance(self.among, Hub):
            raise Refused("Masters: a hub is no graph of neighbours", "among=Exponential()")
        if self.among.trades:
            raise Refused(
                f"Masters: {self.among!r} writes to a master while its host reads what it is", "among=RandomPeer()"
            )

    @property
    def pattern(self) -> str:
        return self.among.pattern

    @property
    def weighing(self) -> Weighing:
        return self.among.weighing

    @property
    def balanced(self) -> bool:
        return self.among.balanced

    @property
    def fixed(self) -> bool:
        return self.among.fixed

    @property
    def only_met(self) -> bool:
        return self.among.only_met

    @property
    def tells(self) -> bool:
        return self.among.tells

    @property
    def patient(self) -> bool:
        return self.among.patient

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        hosts = self._hosts(world)
        if member % self.per_host or hosts.size == 1:
            return Into(member) if self.tells else Neighbours({member: 1.0})
        match self.among.mixing(member // self.per_host, round, hosts, slot):
            case Neighbours(weights):
                return Neighbours({host * self.per_host: weight for host, weight in weights.items()})
            case Into(target):
                return Into(target * self.per_host)
            case Everyone():
                return Neighbours(dict.fromkeys(range(0, world.size, self.per_host), 1.0 / hosts.size))
            case other:
                raise AssertionError(f"{other} is no mix of neighbours")

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        host, place = divmod(member, self.per_host)
        hosts = self._hosts(world)
        if place or hosts.size == 1:
            return ()
        if isinstance(self.among.mixing(host, round, hosts, slot), Everyone):
            return tuple(other * self.per_host for other in range(hosts.size) if other != host)
        return tuple(other * self.per_host for other in self.among.listeners(host, round, hosts, slot))

    def fits(self, world: World) -> None:
        super().fits(world)
        if (hosts := self._hosts(world)).size == 1:
            return
        try:
            self.among.fits(hosts)
        except Refused as error:
            raise Refused(f"Masters, of {hosts.size} hosts: {error.reason}", error.nearest) from None

    def _hosts(self, world: World) -> World:
        """The world whose members are hosts."""
        return _hosts(world.size, world.seed, self.per_host)


@lru_cache(maxsize=256)
def _hosts(size: int, seed: int, per_host: int) -> World:
    return World(max(1, size // per_host), seed)


def divisors(size: int) -> Sequence[int]:
    """What divides `size`, the smallest first."""
    small = [count for count in range(1, int(size**0.5) + 1) if size % count == 0]
    return [*small, *(size // count for count in reversed(small) if count * count != size)]
