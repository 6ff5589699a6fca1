"""Topologies in which all meet: everybody with everybody, or everybody with a hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
    """Everybody talks to a hub, a member with a shorter part to play: the parameter server."""

    pattern: ClassVar[str] = "parameter server"
    patient: ClassVar[bool] = False

    def mixing(self, member: int, round: int, world: World, slot: int) -> Mixing:
        return AtHub()

    def listeners(self, member: int, round: int, world: World, slot: int) -> tuple[int, ...]:
        return ()

    def fits(self, world: World) -> None:
        pass
