"""One row of the catalogue. Knows no system in particular."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gossamer.strategy.strategy import AnyStrategy

OURS = "ours"  # the paper of an entry that comes from none


@dataclass(frozen=True)
class Entry:
    """One row of the catalogue; what it says of itself is its maker's docstring, unless given."""

    name: str
    make: Callable[..., AnyStrategy]
    paper: str
    says: str = ""

    @property
    def sentence(self) -> str:
        """What the system does, in one sentence."""
        return self.says or (self.make.__doc__ or "").strip()
