"""The all-reduces of the papers in textbook numpy, played from their description. Knows nothing of the code under test.

Every oracle takes one vector per worker, in their order, and returns what each worker holds in the end and how many
numbers each has sent. The names of systems stand for the way their gradients travel.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
Ending = tuple[list[Array], list[int]]
AllReduce = Callable[[Sequence[Array]], Ending]


class Workers:
    """Vectors that can only be reached by messages, which are counted."""

    def __init__(self, vectors: Sequence[Array]) -> None:
        self.held = [np.array(vector) for vector in vectors]
        self.sent = [0] * len(vectors)
        self.count, self.length = len(vectors), len(vectors[0])

    def cut(self, pieces: int) -> list[slice]:
        """The vector in so many pieces, as equal as can be."""
        ends = [piece * self.length // pieces for piece in range(pieces + 1)]
        return [slice(low, high) for low, high in itertools.pairwise(ends)]

    def step(self, messages: Sequence[tuple[int, int, slice]], add: bool) -> None:
        """All messages (from, to, part) leave at once; what comes in is added or taken over."""
        flying = [(to, part, self.held[source][part].copy()) for source, to, part in messages]
        for (source, _, _), (to, part, body) in zip(messages, flying, strict=True):
            self.sent[source] += len(body)
            self.held[to][part] = self.held[to][part] + body if add else body

    def ending(self) -> Ending:
        return self.held, self.sent


def around(at: Workers, line: Sequence[int], pieces: Sequence[slice]) -> None:
    """P1: step j sends chunk i-j to the right and adds i-j-1, then sends i-j+1 and takes i-j; p-1 steps each."""
    p = len(line)
    for shift, add in ((0, True), (1, False)):
        for j in range(p - 1):
            at.step([(line[i], line[(i + 1) % p], pieces[(i - j + shift) % p]) for i in range(p)], add)


def ring(vectors: Sequence[Array]) -> Ending:
    """Scatter-reduce, then all-gather, each to the right-hand neighbour."""
    at = Workers(vectors)
    around(at, range(at.count), at.cut(at.count))
    return at.ending()


def torus(vectors: Sequence[Array], x: int) -> Ending:
    """P5: reduce-scatter along rows of x, all-reduce of the piece along columns, all-gather along rows."""
    at = Workers(vectors)
    y, coarse = at.count // x, at.cut(x)
    rows = [range(r * x, r * x + x) for r in range(y)]
    for j in range(x - 1):
        at.step([(row[i], row[(i + 1) % x], coarse[(i - j) % x]) for row in rows for i in range(x)], add=True)
    for i in range(x):
        mine = coarse[(i + 1) % x]
        width = mine.stop - mine.start
        ends = [mine.start + piece * width // y for piece in range(y + 1)]
        around(at, range(i, at.count, x), [slice(*pair) for pair in itertools.pairwise(ends)])
    for j in range(x - 1):
        at.step([(row[i], row[(i + 1) % x], coarse[(i - j + 1) % x]) for row in rows for i in range(x)], add=False)
    return at.ending()


def folded(at: Workers) -> tuple[list[int], list[tuple[int, int]]]:
    """P1, put right: with p = p' + r, in the first 2r ranks each even one absorbs its odd neighbour."""
    r = at.count - 2 ** int(np.log2(at.count))
    pairs = [(odd, odd - 1) for odd in range(1, 2 * r, 2)]
    at.step([(odd, even, slice(None)) for odd, even in pairs], add=True)
    return [even for _, even in pairs] + list(range(2 * r, at.count)), pairs


def halved(at: Workers, line: Sequence[int]) -> dict[int, list[slice]]:
    """Reduce-scatter: partners at distance 1, 2, 4 ... swap halves of what they still have; every half it had."""
    mine = {rank: [slice(0, at.length)] for rank in line}
    for level in range(int(np.log2(len(line)))):
        keep, messages = {}, []
        for i, rank in enumerate(line):
            part, partner = mine[rank][-1], line[i ^ 2**level]
            middle = (part.start + part.stop) // 2
            halves = slice(part.start, middle), slice(middle, part.stop)
            upper = i // 2**level % 2
            keep[rank] = halves[upper]
            messages.append((rank, partner, halves[1 - upper]))
        at.step(messages, add=True)
        for rank in line:
            mine[rank].append(keep[rank])
    return mine


def doubled(at: Workers, line: Sequence[int], mine: dict[int, list[slice]]) -> None:
    """All-gather: the reduce-scatter's mirror image."""
    for level in reversed(range(int(np.log2(len(line))))):
        at.step([(rank, line[i ^ 2**level], mine[rank][level + 1]) for i, rank in enumerate(line)], add=False)


def halving_doubling(vectors: Sequence[Array]) -> Ending:
    """Fold in, halve, double, send out."""
    at = Workers(vectors)
    line, pairs = folded(at)
    doubled(at, line, halved(at, line))
    at.step([(even, odd, slice(None)) for odd, even in pairs], add=False)
    return at.ending()


def doubling(vectors: Sequence[Array]) -> Ending:
    """Fold in; partners at distance 1, 2, 4 ... swap everything they have and add; send out."""
    at = Workers(vectors)
    line, pairs = folded(at)
    for level in range(int(np.log2(len(line)))):
        at.step([(rank, line[i ^ 2**level], slice(None)) for i, rank in enumerate(line)], add=True)
    at.step([(even, odd, slice(None)) for odd, even in pairs], add=False)
    return at.ending()


def decomposition(p: int) -> list[int]:
    """A number as its binary powers, largest first."""
    return [2**place for place, digit in reversed(list(enumerate(reversed(f"{p:b}")))) if digit == "1"]


def binary_blocks(vectors: Sequence[Array]) -> Ending:
    """P1: each block scatters; the smaller hand their pieces up, the larger hand results down, and all gather."""
    at = Workers(vectors)
    ends = np.cumsum([0, *decomposition(at.count)])
    lines = [list(range(low, high)) for low, high in itertools.pairwise(ends)]
    mine = [halved(at, line) for line in lines]
    steps = []
    for large, small in itertools.pairwise(mine):
        inside = [
            (low, high, large[high][-1]) for low in small for high in large
            if small[low][-1].start <= large[high][-1].start and large[high][-1].stop <= small[low][-1].stop
        ]  # fmt: skip
        steps.append(inside)
    for inside in reversed(steps):
        at.step(inside, add=True)
    for inside in steps:
        at.step([(high, low, part) for low, high, part in inside], add=False)
    for line, parts in zip(lines, mine, strict=True):
        doubled(at, line, parts)
    return at.ending()


def climbed(at: Workers, line: Sequence[int]) -> list[list[tuple[int, int, slice]]]:
    """Pairs, then pairs of pairs ...: the second of each tells the first."""
    steps, alive = [], list(line)
    while len(alive) > 1:
        steps.append([(low, high, slice(None)) for high, low in zip(alive[::2], alive[1::2], strict=False)])
        at.step(steps[-1], add=True)
        alive = alive[::2]
    return steps


def tree(vectors: Sequence[Array]) -> Ending:
    """Up to rank 0, and down again the way it came."""
    at = Workers(vectors)
    for step in reversed(climbed(at, range(at.count))):
        at.step([(high, low, part) for low, high, part in step], add=False)
    return at.ending()


def hierarchical(vectors: Sequence[Array], k: int, among: AllReduce = ring) -> Ending:
    """P1: a master aggregates for its k workers, masters all-reduce, masters distribute."""
    at = Workers(vectors)
    hosts = [range(first, min(first + k, at.count)) for first in range(0, at.count, k)]
    ways = [climbed(at, host) for host in hosts]
    results, sent = among([at.held[host[0]] for host in hosts])
    for host, way, result, more in zip(hosts, ways, results, sent, strict=True):
        at.held[host[0]], at.sent[host[0]] = result, at.sent[host[0]] + more
        for step in reversed(way):
            at.step([(high, low, part) for low, high, part in step], add=False)
    return at.ending()


def sharded_hub(vectors: Sequence[Array]) -> Ending:
    """Everybody sends chunk c to worker c, which adds up and tells everybody."""
    at = Workers(vectors)
    pieces, pairs = at.cut(at.count), [(i, c) for c in range(at.count) for i in range(at.count) if i != c]
    at.step([(i, c, pieces[c]) for i, c in pairs], add=True)
    at.step([(c, i, pieces[c]) for i, c in pairs], add=False)
    return at.ending()


def direct(vectors: Sequence[Array]) -> Ending:
    """Two shots: an all-to-all of chunks, whose rows everybody adds up, and an all-to-all of the sums."""
    at = Workers(vectors)
    rows = [[vector[piece].copy() for vector in at.held] for piece in at.cut(at.count)]  # by owner, by sender
    sums = [np.sum(row, axis=0) for row in rows]
    at.held = [np.concatenate(sums) for _ in at.held]
    for i in range(at.count):
        others = [c for c in range(at.count) if c != i]
        at.sent[i] += sum(len(rows[c][i]) for c in others) + len(others) * len(sums[i])
    return at.ending()


def rounded(vectors: Sequence[Array]) -> list[Array]:
    """What 16 bits keep of 32, to be added up in 32."""
    return [vector.astype(np.float32).astype(np.float16).astype(np.float32) for vector in vectors]


horovod = ring
firecaffe = tree
byteps = sharded_hub


def tencent(vectors: Sequence[Array], k: int = 4, limit: int = 65536) -> Ending:
    """P1: hierarchical or ring by the size of what is sent, in 16 bits (that short ones go by masters: our reading)."""
    short = len(vectors[0]) * 2 <= limit
    return hierarchical(rounded(vectors), k) if short else ring(rounded(vectors))


def sony(vectors: Sequence[Array]) -> Ending:
    """P5: a 2D-torus, in 16 bits, on the grid nearest a square."""
    p = len(vectors)
    y = max(y for y in range(1, int(p**0.5) + 1) if p % y == 0)
    return torus(rounded(vectors), p // y)
