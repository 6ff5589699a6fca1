"""What a member votes with the last bucket: which tensors it used, and the first that was sick. Knows no fabric."""

from __future__ import annotations

from collections.abc import Sequence

WORD = 62  # yes or no for so many tensors goes into one number of a vote


def row(sick: int, used: Sequence[bool]) -> list[int]:
    """What was sick, counted from 1; whether every tensor was used; and which, 62 to a number."""
    words = [sum(1 << n for n, yes in enumerate(used[i : i + WORD]) if yes) for i in range(0, len(used), WORD)]
    return [sick + 1, int(all(used)), *words]


def uses(said: Sequence[int], place: int) -> bool:
    """Whether the member that said so used a tensor."""
    return bool(said[2 + place // WORD] >> place % WORD & 1)
