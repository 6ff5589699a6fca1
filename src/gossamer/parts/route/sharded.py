"""The sharded hub: every member is the hub of one chunk (parameter server shards beside the workers, BytePS)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.load import Loads, mirrored_loads
from gossamer.parts.route.schedule import Hop, Mirrored, Move, extent


@dataclass(frozen=True, repr=False)
class ShardedHub(Mirrored):
    """In round j everybody sends chunk i+j to its owner i+j and adds what i-j sends to its own; then owners hand the
    sums out the same way back. Every message goes straight to where it is needed, to another member each round."""

    def chunks(self, size: int) -> int:
        return size

    def inward(self, member: int, size: int) -> Iterator[Move]:
        for j in range(1, size):
            owner, source = (member + j) % size, (member - j) % size
            yield Move(Hop(owner, (owner, owner + 1)), Hop(source, (member, member + 1)), add=True)

    def rounds(self, size: int) -> int:
        return 2 * (size - 1)

    def sent(self, size: int, nbytes: float) -> float:
        return 2.0 * nbytes * (size - 1) / size

    def loads(self, borders: Borders) -> Loads:
        """Round j is a shift by j, as one by size - j; those that are farther than any host is wide are alike."""
        size = borders.size
        near = range(1, min(borders.widest, (size + 1) // 2))
        far = (borders.shifted(size // 2).load(1, add=True), size - 1 - 2 * len(near))
        return mirrored_loads([*((borders.shifted(by).load(1, add=True), 2) for by in near), far])

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        own = extent((member, member + 1), size, length)
        both = length - own + (size - 1) * own  # the others' chunks to them, one's own to all; and as much back
        return both, both
