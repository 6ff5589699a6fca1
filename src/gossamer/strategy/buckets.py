"""How gradients are cut into buckets that leave while backward still runs. Knows shapes, never values."""

from __future__ import annotations

from collections.abc import Sequence

from gossamer.parts.selection import Tag

FIRST, LATER = 1 << 20, 32 << 20  # bytes of the first bucket, which should leave early, and of the others at most
FAR = 8 << 20  # of the others at most, where mixes take longer than memory does: they are to hide behind backward
COUNT = 12  # buckets at least, where mixes take long: the last one is waited for, with nothing to hide behind


def length(nbytes: int, *, local: bool) -> int:
    """Bytes of a later bucket, of a model of so many: `local` where mixes take no longer than memory does."""
    return LATER if local else max(FIRST, min(LATER, FAR, nbytes // COUNT))


def cut(tags: Sequence[Tag], places: Sequence[int], nbytes: int) -> list[tuple[int, ...]]:
    """The tensors at these places in buckets of at least `nbytes`, the last tensors first, as their gradients come."""
    buckets: list[list[int]] = [[]]
    held = 0
    for place in reversed(places):
        if held >= nbytes:
            buckets.append([])
            held = 0
        buckets[-1].insert(0, place)
        held += tags[place].bytes
    return [tuple(bucket) for bucket in buckets]


def parted(tags: Sequence[Tag], places: Sequence[int], later: int) -> list[tuple[int, ...]]:
    """A small first bucket that leaves early, then larger ones."""
    first, *rest = cut(tags, places, FIRST)
    if not rest:
        return [first]
    return [first, *cut(tags, [place for bucket in reversed(rest) for place in bucket], later)]
