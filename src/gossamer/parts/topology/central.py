"""Topologies in which all meet: everybody with everybody, or everybody with a hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gossamer.parts.refusal import Refused, whole
from gossamer.parts.topology.mixing import AtHub, Everyone, Mixing, Topology
from gossamer.parts.world import World


@dataclass(frozen=True, repr=False)
class Complete(Topology):
    """Everybody hears the mean of everybody: the all-reduce."""

    pattern: ClassVar[str] = "all-reduce"

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return Everyone()

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return ()

    def fits(self, world: World) -> None:
        pass


@dataclass(frozen=True, repr=False)
class Hub(Topology):
    """Everybody talks to a hub (a parameter server) cut into `shards` of equal size, which live with members."""

    pattern: ClassVar[str] = "parameter server"
    patient: ClassVar[bool] = False

    shards: int = 1

    def __post_init__(self) -> None:
        whole("Hub", "shards", self.shards, 1, 2**16)

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return AtHub()

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return ()

    def fits(self, world: World) -> None:
        if self.shards > world.size:
            raise Refused(
                f"Hub: {self.shards} shards need as many members to live with, and there are {world.size} workers",
                f"Hub(shards={world.size})",
            )
