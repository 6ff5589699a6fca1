"""Binary blocks: any number of members as blocks of powers of two (P1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.handover import blocks, handovers, inward
from gossamer.parts.route.lines import flipped, halve, logarithm
from gossamer.parts.route.load import Loads, mirrored_loads
from gossamer.parts.route.schedule import IDLE, Hop, Mirrored, Move, extent


@dataclass(frozen=True, repr=False)
class BinaryBlocks(Mirrored):
    """Every block reduce-scatters by halves; each hands its pieces to the next larger, and the largest has the sums;
    all-gather is the mirror image (P1).

    A piece goes to as many members as the larger block is larger, one round each: 16 + 8 is quick, 32 + 1 is not.
    """

    def chunks(self, size: int) -> int:
        return blocks(size)[0]

    def inward(self, member: int, size: int) -> Iterator[Move]:
        sizes, times, fine = blocks(size), handovers(size), blocks(size)[0]
        number, first = _block(member, sizes)
        count = sizes[number]
        piece = flipped(member - first, count)  # the chunk of this block's own scatter that ends here
        moves = dict(enumerate(halve(range(first, first + count), member - first, fine // count)))
        if number < len(sizes) - 1:
            ratio, below = count // sizes[number + 1], first + count
            source = below + flipped(piece // ratio, sizes[number + 1])
            received = Hop(source, _fine(piece, count, fine))
            moves[times[number][piece % ratio]] = Move(receive=received, add=True)
        if number > 0:
            larger = sizes[number - 1]
            for part, time in enumerate(times[number - 1], piece * (larger // count)):
                owner = first - larger + flipped(part, larger)
                moves[time] = Move(send=Hop(owner, _fine(part, larger, fine)))
        return (moves.get(time, IDLE) for time in range(self.rounds(size) // 2))

    def rounds(self, size: int) -> int:
        times = handovers(size)
        return 2 * (times[0].stop if times else logarithm(size))

    def sent(self, size: int, nbytes: float) -> float:
        """2n where a block has both a larger and a smaller one; else n/b less, of the larger or only block of b."""
        sizes = blocks(size)
        if len(sizes) == 1:
            return 2.0 * nbytes * (size - 1) / size
        return 2.0 * nbytes - (nbytes / sizes[0] if len(sizes) == 2 else 0.0)

    def passed(self, size: int, nbytes: float) -> float:
        """Rounds of a handover pass 1/b of the vector, b the larger block; the others the halves of the scatter."""
        sizes, times = blocks(size), handovers(size)
        handed = sum(len(rounds) / large for rounds, large in zip(times, sizes, strict=False))
        halves = (
            2.0 ** -(time + 1) for time in range(logarithm(sizes[0])) if not any(time in rounds for rounds in times)
        )
        return 2.0 * nbytes * (handed + sum(halves))

    def loads(self, borders: Borders) -> Loads:
        return mirrored_loads(inward(borders))

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        """All that comes in goes out again: the halves, one's piece if a smaller block hands it over, and if one's own
        block hands it on, in whatever parts."""
        sizes, fine = blocks(size), blocks(size)[0]
        number, first = _block(member, sizes)
        place, count = member - first, sizes[number]
        hops = [hop for move in halve(range(count), place, fine // count) for hop in move[:2] if hop is not None]
        pieces = [_fine(flipped(place, count), count, fine)] * ((number > 0) + (number < len(sizes) - 1))
        both = sum(extent(chunks, fine, length) for chunks in (*(hop.chunks for hop in hops), *pieces))
        return both, both


def _block(member: int, sizes: list[int]) -> tuple[int, int]:
    """The number of a member's block, and the first member of it."""
    first = 0
    for number, count in enumerate(sizes):
        if member < first + count:
            return number, first
        first += count
    raise IndexError(f"there are {first} members, and {member} is not one")


def _fine(chunk: int, count: int, fine: int) -> tuple[int, int]:
    """Chunk `chunk` of `count` as a range of the `fine` ones."""
    width = fine // count
    return chunk * width, (chunk + 1) * width
