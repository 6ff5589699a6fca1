"""Where everything lies in a lane's memory, and who owns which share of a bucket. Knows no memory and no process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

LINE, PAGE = 64, 4096
UNEVEN = 1.3  # how many times its part one of several members may own
Span = tuple[int, int]


@dataclass(frozen=True)
class Places:
    """Offsets in bytes: a token, every member's words, counters by bucket, what members say, the slots, the result.

    Whatever two members write lies on two cache lines; slots begin on pages.
    """

    size: int
    count: int
    width: int  # bytes of one number
    buckets: int
    shared: bool

    @property
    def words(self) -> int:
        """Every member's own words: announced by bucket, then done by bucket."""
        return LINE

    @property
    def apart(self) -> int:
        """From one member's words to the next."""
        return up(8 * self.buckets, 2 * LINE)

    @property
    def counters(self) -> int:
        """By bucket a line each for: how many announced, how many are done, who sums a small one."""
        return self.words + self.size * self.apart

    @property
    def says(self) -> int:
        """By member a line with the last two numbers it said."""
        return self.counters + self.buckets * 3 * LINE

    @property
    def slots(self) -> int:
        """Every member's numbers."""
        return up(self.says + self.size * LINE, PAGE)

    @property
    def stride(self) -> int:
        """From one slot to the next; odd in lines, so that slots do not compete for the same sets of a cache."""
        return up(self.count * self.width, PAGE) + LINE if self.count else LINE

    @property
    def whole(self) -> int:
        """The one shared result."""
        return up(self.slots + self.size * self.stride, PAGE)

    @property
    def total(self) -> int:
        """Bytes in all."""
        return up(self.whole + (self.count * self.width if self.shared else 0), PAGE)


def up(number: int, multiple: int) -> int:
    """The next multiple."""
    return -(-number // multiple) * multiple


def bounds(count: int, cuts: Sequence[int]) -> tuple[Span, ...]:
    """The buckets as spans of elements."""
    edges = [0, *cuts, count]
    if sorted(edges) != edges:
        raise ValueError(f"the boundaries of buckets must rise from 0 to {count}, not {list(cuts)}")
    return tuple(pairwise(edges))


def equal(bucket: Span, size: int, width: int) -> tuple[Span, ...]:
    """A bucket in equal parts that end on cache lines; the last ones may be short or empty."""
    start, stop = bucket
    part = up(-(-(stop - start) // size), LINE // width)
    edges = [min(start + member * part, stop) for member in range(size)] + [stop]
    return tuple(pairwise(edges))


def by_tensor(bucket: Span, tensors: Sequence[Span], size: int) -> list[Span]:
    """A bucket in spans of whole tensors, as equal as that allows; `tensors` are where they lie."""
    start, stop = bucket
    inner = [start, *[end for _, end in tensors if start < end < stop], stop]
    marks = [min(inner, key=lambda e, k=k: abs(e - start - (stop - start) * k / size)) for k in range(size + 1)]  # type: ignore[misc]
    return list(pairwise(marks))


def whole(buckets: Sequence[Span], tensors: Sequence[Span], size: int) -> list[list[Span]] | None:
    """Shares of buckets that cut no tensor, of about as much for every member; None where one would get far too much.

    Of two members the one that sums a tensor does not copy it, so they have as much to do, whoever owns it.
    """
    owned, shares = [0] * size, list[list[Span]]()
    for start, stop in buckets:
        longest = sorted(by_tensor((start, stop), tensors, size), key=lambda span: span[0] - span[1])
        spans: list[Span] = [(stop, stop)] * size
        for member, span in zip(sorted(range(size), key=owned.__getitem__), longest, strict=True):
            spans[member] = span
        for member, (first, last) in enumerate(spans):
            owned[member] += last - first
        shares.append(spans)
    fair = size == 2 or max(owned) * size <= UNEVEN * sum(owned)
    return shares if fair else None


def checked(
    shares: Sequence[Sequence[Span]] | None, buckets: Sequence[Span], size: int, width: int
) -> tuple[tuple[Span, ...], ...]:
    """The members' shares of every bucket, refused unless each element has exactly one owner."""
    if shares is None:
        return tuple(equal(bucket, size, width) for bucket in buckets)
    if len(shares) != len(buckets) or any(len(spans) != size for spans in shares):
        raise ValueError(f"shares must name one span for each of {size} members in each of {len(buckets)} buckets")
    for number, (spans, (start, stop)) in enumerate(zip(shares, buckets, strict=True)):
        at = start
        for first, last in sorted(span for span in spans if span[0] != span[1]):
            if first != at or last < first:
                raise ValueError(f"bucket {number}: element {at} must have one owner; a share begins at {first}")
            at = last
        if at != stop:
            raise ValueError(f"bucket {number}: nobody owns the elements from {at} to {stop}")
    return tuple(tuple((int(first), int(last)) for first, last in spans) for spans in shares)
