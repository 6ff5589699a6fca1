"""Members in a line, cut into hosts; and how many messages of the moves that routes are made of pass from one host to
another, without walking them. What `lines` is to moves this is to loads. Knows no whole route."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from gossamer.parts.refusal import whole
from gossamer.parts.route.load import Flow, Load


class Passing(NamedTuple):
    """Of the messages of a round: the most that leave one host, or that enter one; and whether any stays inside."""

    most: int
    stays: bool

    def load(self, chunks: int, *, add: bool) -> Load:
        """The load of the round, of messages of so many chunks; a member sends one and hears one."""
        flows = (Flow(self.most * chunks, self.most),) if self.most else ()
        return Load(chunks if self.stays else 0, flows, chunks if add and (self.most or self.stays) else 0)


@dataclass(frozen=True)
class Borders:
    """Where hosts begin along members 0, 1, ..., and where the last one ends: host h is at[h] to at[h + 1]."""

    at: tuple[int, ...]

    @staticmethod
    def of(size: int, per_host: int) -> Borders:
        """Of `per_host` members a host; the last may have fewer."""
        whole("Borders", "per_host", per_host)
        return Borders((*range(0, size, per_host), size))

    @staticmethod
    def among(at: Iterable[int]) -> Borders:
        """Of borders in any order; what lies between equal ones is no host."""
        return Borders(tuple(sorted(set(at))))

    @property
    def size(self) -> int:
        """How many members there are."""
        return self.at[-1]

    @cached_property
    def widths(self) -> frozenset[int]:
        """The numbers of members that hosts have."""
        return frozenset(high - low for low, high in self.hosts())

    @cached_property
    def widest(self) -> int:
        """How many the largest has; 0 without hosts."""
        return max(self.widths, default=0)

    @cached_property
    def _most(self) -> int:
        """The most members that may send across, if as many are to hear."""
        return max(min(wide, self.size - wide) for wide in self.widths)

    def hosts(self) -> Iterator[tuple[int, int]]:
        """Each host's first member, and the one behind its last."""
        return pairwise(self.at)

    def owners(self) -> list[int]:
        """By member, its host."""
        return [host for host, (low, high) in enumerate(self.hosts()) for _ in range(low, high)]

    def touching(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The hosts of members from `low` to below `high`."""
        return pairwise(self.at[bisect_right(self.at, low) - 1 : bisect_left(self.at, high) + 1])

    def inner(self, low: int, high: int) -> Borders:
        """The hosts that lie between `low` and `high` as a whole, counted from `low`; there may be none."""
        return Borders(tuple(at - low for at in self.at[bisect_left(self.at, low) : bisect_right(self.at, high)]))

    def first(self, count: int) -> Borders:
        """The hosts of the first so many members, of which the last may be cut."""
        return Borders((*self.at[: bisect_left(self.at, count)], count))

    def circled(self, line: int) -> Passing:
        """Rings of `line` members, 2 or more, one after the other; they fill the world. Everybody sends to the next.

        Of a ring that is only in part on a host one message leaves it and one enters it.
        """
        most = max(_parts(low, high, line) for low, high in self.hosts())
        stays = (wide > 2 or (wide == 2 and (low + 1) % line) for low, high in self.hosts() for wide in [high - low])
        return Passing(most, any(stays))

    def shifted(self, by: int) -> Passing:
        """Everybody sends to the member `by` places on, around: of w of a world of p, min(w, p-w, by, p-by) do so
        across."""
        near = min(by, self.size - by)
        return Passing(min(near, self._most), self.widest > near)

    def swapped(self, distance: int) -> Passing:
        """Of a power of two members, everybody swaps with the one whose place differs in the bit of `distance`."""
        if self.widest <= distance:
            return Passing(self.widest, False)
        kept = [pairs(low, high, distance) for low, high in self.hosts()]
        alone = (high - low - 2 * both for (low, high), both in zip(self.hosts(), kept, strict=True))
        return Passing(max(alone), any(kept))

    def climbed(self, step: int, line: int) -> Passing:
        """A round of `climb` up the trees of lines of `line` members, the last maybe fewer: those at odd multiples of
        `step` send to the even ones below. No two messages leave one host, or enter it."""
        leave = any(_climbs_over(at, step, line, self.size) for at in self.at)
        stays = self.widest > step and any(_climbs_in(low, high, step, line) for low, high in self.hosts())
        return Passing(int(leave), stays)


def pairs(low: int, high: int, distance: int) -> int:
    """How many pairs of a swap lie between `low` and `high`: by their lower ends, which have the bit clear."""
    return _clear(high - distance, distance) - _clear(low, distance) if high - distance > low else 0


def _clear(count: int, bit: int) -> int:
    """How many of the first `count` numbers have the bit clear."""
    return count // (2 * bit) * bit + min(count % (2 * bit), bit)


def _parts(low: int, high: int, line: int) -> int:
    """How many lines are only in part between `low` and `high`."""
    if low // line == (high - 1) // line:
        return int(high - low < line)
    return (low % line > 0) + (high % line > 0)


def _climbs_over(border: int, step: int, line: int, size: int) -> bool:
    """Whether a message of a climb passes this border."""
    behind = border % line % (2 * step)  # from the one who would hear it on
    sender = border - behind + step
    return 0 < behind <= step and border % line - behind + step < line and sender < size


def _climbs_in(low: int, high: int, step: int, line: int) -> bool:
    """Whether a message of a climb stays between `low` and `high`; the first to hear one is here, or heads a line."""
    begin = low - low % line
    hears = -(-(low - begin) // (2 * step)) * 2 * step
    return begin + (hears if hears + step < line else line) + step < high
