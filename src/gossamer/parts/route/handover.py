"""Any number of members as blocks of powers of two: when each is handed what smaller ones have summed, and what all of
it puts on links of hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from gossamer.parts.route.borders import Borders, Passing, pairs
from gossamer.parts.route.lines import flipped, logarithm
from gossamer.parts.route.load import Flow, Load, busiest

Host = tuple[int, int]  # its first member, and the one behind its last


def blocks(size: int) -> list[int]:
    """The powers of two that make up `size`, largest first: 600 is 512, 64, 16 and 8."""
    return [1 << bit for bit in range(size.bit_length() - 1, -1, -1) if size >> bit & 1]


def handovers(size: int) -> list[range]:
    """For each block but the smallest, the rounds in which it is handed what the next smaller one has summed.

    They begin when both have scattered and the smaller has itself been handed everything: one after the other.
    """
    found: list[range] = []
    free = 0
    for small, large in pairwise(reversed(blocks(size))):
        begin = max(logarithm(large), logarithm(small), free)
        free = begin + large // small
        found.insert(0, range(begin, free))
    return found


class Talk(NamedTuple):
    """One block in one round: `wide` members from `first` on, in messages of so many chunks. Each swaps with the one
    whose place differs in the bit of `by`; or, if they are handed over, sends to the one `by` members before."""

    first: int
    wide: int
    by: int
    chunks: int
    handed: bool = False

    def passing(self, host: Host) -> tuple[int, int, int]:
        """How many messages leave this host, enter it, and stay inside."""
        low, high = max(host[0], self.first), min(host[1], self.first + self.wide)
        if not self.handed:
            kept = 2 * pairs(low - self.first, high - self.first, self.by)
            alone = max(0, high - low) - kept
            return alone, alone, kept
        to = self.first - self.by
        left = min(high, host[0] + self.by) - low
        entered = min(host[1], to + self.wide) - max(host[0], to, host[1] - self.by)
        return max(0, left), max(0, entered), max(0, high - max(low, host[0] + self.by))


class Handover(NamedTuple):
    """What `small` members from `first` on hand to the `large` ones before them, and in which rounds."""

    first: int
    small: int
    large: int
    chunks: int
    rounds: range

    def talk(self, time: int) -> Talk:
        """A round of it. A piece is a place with its bits backwards: its parts are places as many apart as send."""
        by = self.large - flipped(time - self.rounds.start, len(self.rounds)) * self.small
        return Talk(self.first, self.small, by, self.chunks, handed=True)

    def loads(self, borders: Borders, begin: int) -> Iterator[tuple[Load, int]]:
        """Of its rounds from `begin` on, in which there is nothing else.

        Where all cross and those that send fill a host, or are all on one, no host can hear more: such are alike.
        """
        hosts = borders.touching(self.first, self.first + self.small)
        most = max(min(high, self.first + self.small) - max(low, self.first) for low, high in hosts)
        full, alike = most == min(self.small, borders.widest), 0
        for time in range(max(begin, self.rounds.start), self.rounds.stop):
            talk = self.talk(time)
            if full and talk.by >= borders.widest:
                alike += 1
            else:
                yield _load([talk], _hosts(talk, borders), ()), 1
        yield Passing(most, stays=False).load(self.chunks, add=True), alike


def inward(borders: Borders) -> Iterator[tuple[Load, int]]:
    """The loads of the rounds of binary blocks, until the largest block has the sums.

    Hosts of one block are counted together; those that blocks share, and those of a handover, one by one.
    """
    fine, spans = blocks(borders.size)[0], [*pairwise(accumulate(blocks(borders.size), initial=0))]
    inner = [borders.inner(*span) for span in spans]
    shared = {host for first, _ in spans for host in borders.touching(first, first + 1) if host[0] < first}
    handing, halving = _handing(borders.size), logarithm(fine)
    for time in range(halving):
        by, chunks = 1 << time, fine >> (time + 1)
        talks = [Talk(first, end - first, by, chunks) for first, end in spans if end - first > by]
        together = [lines.swapped(by).load(chunks, add=True) for lines in inner[: len(talks)]]
        handed = [handover.talk(time) for handover in handing if time in handover.rounds]
        hosts = shared.union(*(_hosts(talk, borders) for talk in handed))
        yield _load([*talks, *handed], hosts, together), 1
    for handover in handing:
        yield from handover.loads(borders, halving)


def _handing(size: int) -> list[Handover]:
    """All handovers, to the largest block first."""
    sizes = blocks(size)
    ends, each = accumulate(sizes), pairwise(sizes)
    return [
        Handover(first, small, large, sizes[0] // large, rounds)
        for first, (large, small), rounds in zip(ends, each, handovers(size), strict=False)
    ]


def _hosts(handed: Talk, borders: Borders) -> set[Host]:
    """Of those who are handed over, and those they are handed to."""
    return {
        host for low in (handed.first, handed.first - handed.by) for host in borders.touching(low, low + handed.wide)
    }


def _load(talks: Sequence[Talk], hosts: Iterable[Host], others: Iterable[Load]) -> Load:
    """The load of a round in which these blocks talk: of these hosts, and of others that were counted."""
    loads = [*(_alone(host, talks) for host in hosts), *others]
    flows = busiest(flow for load in loads for flow in load.across)
    return Load(max(load.inside for load in loads), flows, max(talk.chunks for talk in talks))


def _alone(host: Host, talks: Sequence[Talk]) -> Load:
    """What one host has of it."""
    passing = [(talk.chunks, *talk.passing(host)) for talk in talks]
    left = Flow(sum(chunks * out for chunks, out, _, _ in passing), sum(out for _, out, _, _ in passing))
    entered = Flow(sum(chunks * into for chunks, _, into, _ in passing), sum(into for _, _, into, _ in passing))
    return Load(max((chunks for chunks, _, _, kept in passing if kept), default=0), (left, entered), 0)
