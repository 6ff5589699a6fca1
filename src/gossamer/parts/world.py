"""The world of a run: how many workers there are and the seed they share. Knows no process group."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.parts.refusal import whole
from gossamer.parts.value import Value


@dataclass(frozen=True, repr=False)
class World(Value):
    """`size` workers, members 0 .. size-1, drawing from one `seed`."""

    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        whole("World", "size", self.size, 1, 2**20)
        whole("World", "seed", self.seed, 0, 2**63 - 1)
