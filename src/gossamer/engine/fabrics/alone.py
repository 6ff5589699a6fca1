"""The fabric of a world of one: whoever speaks hears itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gossamer.engine.fabrics.fabric import Board, Key, Pending
from gossamer.parts.codec import Wire, alone
from gossamer.parts.route import Route


class Alone:
    """Nothing leaves, and nothing is waited for."""

    looks, local, ordered = True, True, False

    def __init__(self) -> None:
        self.name, self.member, self.size = "none (one worker)", 0, 1
        self.sent: Counter[int] = Counter()
        self.heard: Counter[int] = Counter()
        self.crossed: Counter[int] = Counter()

    def everyone(self, key: Key, wire: Wire, route: Route) -> Pending:
        """Heard as it was said."""
        return Pending(lambda: alone(wire))

    def neighbours(self, key: Key, wire: Wire, weights: Mapping[int, float], listeners: tuple[int, ...]) -> Pending:
        """Heard as it was said."""
        return Pending(lambda: alone(wire))

    def lend(self, like: Tensor, cuts: Sequence[int]) -> Tensor:
        """Ordinary memory."""
        return torch.zeros_like(like)

    def knows(self, there: Tensor) -> bool:
        """Nothing is mixed."""
        return False

    def load(self, there: Tensor, sources: Sequence[Tensor], scale: float) -> int:
        """Copied; nobody else could be spoilt."""
        torch.cat([source.reshape(-1) for source in sources], out=there)
        return -1

    def board(self, width: int) -> Board:
        """One's own word."""
        return lambda row: lambda: [list(row)]

    def absent(self) -> list[int]:
        """Nobody."""
        return []

    def close(self) -> None:
        """Nothing is under way."""

    def end(self) -> None:
        """Nothing was made."""
