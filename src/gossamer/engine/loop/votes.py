"""What a member votes with the last bucket: which tensors it used, the first that was sick, and two numbers more.

Knows no fabric.
"""

from __future__ import annotations

from collections.abc import Sequence

WORD = 62  # yes or no for so many tensors goes into one number of a vote


def row(sick: int, used: Sequence[bool], beside: tuple[int, int] = (0, 0)) -> list[int]:
    """What was sick, counted from 1; whether every tensor was used; which, 62 to a number; and what else is told."""
    words = [sum(1 << n for n, yes in enumerate(used[i : i + WORD]) if yes) for i in range(0, len(used), WORD)]
    return [sick + 1, int(all(used)), *words, *beside]


def beside(said: Sequence[int]) -> tuple[int, int]:
    """What else the member told."""
    return said[-2], said[-1]


def uses(said: Sequence[int], place: int) -> bool:
    """Whether the member that said so used a tensor."""
    return bool(said[2 + place // WORD] >> place % WORD & 1)
