"""Routes that leave the schedule to the backend's own collective."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.load import Loads
from gossamer.parts.route.ring import Ring
from gossamer.parts.route.schedule import Move, Route


class Backend(Route):
    """Hands the mix to the backend's own collective. A backend keeps its schedule to itself; the ring stands in for it
    wherever rounds, bytes or prices are asked for."""

    native: ClassVar[bool] = True

    def chunks(self, size: int) -> int:
        return Ring().chunks(size)

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return Ring().moves(member, size)

    def rounds(self, size: int) -> int:
        return Ring().rounds(size)

    def sent(self, size: int, nbytes: float) -> float:
        return Ring().sent(size, nbytes)

    def loads(self, borders: Borders) -> Loads:
        return Ring().loads(borders)

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        return Ring().tally(member, size, length)


@dataclass(frozen=True, repr=False)
class Native(Backend):
    """The backend's own all-reduce, by name."""


@dataclass(frozen=True, repr=False)
class Auto(Backend):
    """Whatever the fabric does best."""


@dataclass(frozen=True, repr=False)
class Sharded(Backend):
    """Each member sums 1/n of the gradients and steps 1/n of the parameters, which exist once where members share
    memory; elsewhere it is the backend's own all-reduce. The same numbers either way."""

    shards: ClassVar[bool] = True
