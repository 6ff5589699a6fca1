"""Short words that all members tell each other, over a process group of their own. Knows not what they say.

Not through the store: that may be a file, and words must still be heard when the disk is full.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.loop.place import Place

PATIENCE = timedelta(minutes=30)  # a disk may be slow


class Words:
    """Rounds of words: every member tells one and hears everybody's, so a round is also a place where all meet."""

    def __init__(self, place: Place) -> None:
        self._size = place.size
        self._line = place.groups.make(timeout=PATIENCE, backend="gloo") if place.size > 1 else None

    def share(self, word: str) -> list[str]:
        """Tell a word, hear everybody's in the order of members. All call it alike."""
        if self._size == 1:
            return [word]
        mine = torch.frombuffer(bytearray(word.encode() + b"."), dtype=torch.uint8)  # torch knows no empty buffer
        lengths = [int(length) for length in self._gathered(torch.tensor([len(mine)]))]
        told = self._gathered(torch.nn.functional.pad(mine, (0, max(lengths) - len(mine))))
        return [each[: n - 1].numpy().tobytes().decode() for each, n in zip(told, lengths, strict=True)]

    def end(self) -> None:
        """Nobody tells any more: let go of the process group."""
        self._line = None

    def _gathered(self, mine: Tensor) -> list[Tensor]:
        every = [torch.empty_like(mine) for _ in range(self._size)]
        dist.all_gather(every, mine, self._line)
        return every
