"""The moves all routes are made of, for members in a line: along a ring, up a tree, by halves. Knows no whole route.

`line` holds the members, `place` is this member's place in it, and chunks begin at 0 unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gossamer.parts.route.schedule import IDLE, Hop, Move, extent


def logarithm(count: int) -> int:
    """The least k with 2**k >= count."""
    return (count - 1).bit_length()


def scatter(line: Sequence[int], place: int, first: int = 0, width: int = 1) -> Iterator[Move]:
    """Reduce-scatter along a ring: round j sends chunk place-j-1 on and adds chunk place-j-2; ends with its own.

    As P1 has it, with the indices put right and shifted by one; chunk c is `width` fine ones, the first at `first`.
    """
    for j in range(len(line) - 1):
        yield _along(line, place, (place - j - 1, place - j - 2), first, width, add=True)


def gather(line: Sequence[int], place: int, first: int = 0, width: int = 1) -> Iterator[Move]:
    """All-gather along a ring: round j sends chunk place-j on and takes chunk place-j-1."""
    for j in range(len(line) - 1):
        yield _along(line, place, (place - j, place - j - 1), first, width, add=False)


def _along(line: Sequence[int], place: int, chunks: tuple[int, int], first: int, width: int, *, add: bool) -> Move:
    count = len(line)
    low, high = (first + chunk % count * width for chunk in chunks)
    to, source = line[(place + 1) % count], line[(place - 1) % count]
    return Move(Hop(to, (low, low + width)), Hop(source, (high, high + width)), add)


def circled(place: int, count: int, whole: tuple[int, int], chunks: int, length: int) -> tuple[int, int]:
    """Elements sent and received in `scatter` and `gather` among `count`, of the range `whole` of a vector's chunks.

    Every chunk is sent twice but the own and the next, and received twice but the own and the one before.
    """
    first, width = whole[0], (whole[1] - whole[0]) // count

    def part(chunk: int) -> int:
        low = first + chunk % count * width
        return extent((low, low + width), chunks, length)

    twice, own = 2 * extent(whole, chunks, length), part(place)
    return twice - own - part(place + 1), twice - own - part(place - 1)


def climb(line: Sequence[int], place: int, chunks: tuple[int, int]) -> Iterator[Move]:
    """Reduce to the head of the line up a binomial tree: in round t odd multiples of 2**t send to the even below."""
    for t in range(logarithm(len(line))):
        step = 1 << t
        if place % (2 * step) == step:
            yield Move(send=Hop(line[place - step], chunks))
        elif place % (2 * step) == 0 and place + step < len(line):
            yield Move(receive=Hop(line[place + step], chunks), add=True)
        else:
            yield IDLE


def halve(line: Sequence[int], place: int, width: int = 1) -> Iterator[Move]:
    """Reduce-scatter of a power of two by vector halving, distance doubling (P1): round t swaps halves of what is
    left with the partner 2**t away; ends with chunk `flipped(place)`, `width` fine ones wide."""
    low, high, distance = 0, len(line) * width, 1
    while distance < len(line):
        middle, partner = (low + high) // 2, line[place ^ distance]
        lower, upper = (low, middle), (middle, high)
        keep, give = (upper, lower) if place & distance else (lower, upper)
        yield Move(Hop(partner, give), Hop(partner, keep), add=True)
        (low, high), distance = keep, 2 * distance


def flipped(place: int, count: int) -> int:
    """The place with its bits in reverse order, for a line of `count`, a power of two."""
    bits = logarithm(count)
    return int(f"{place:0{bits}b}"[::-1], 2) if bits else 0
