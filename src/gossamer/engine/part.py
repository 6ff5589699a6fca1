"""A part of a centre: pieces of its tensors, and the optimizer that steps them for whoever holds the part's lock.

What the optimizer remembers lies where all members see it, so that whoever steps next goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.parts.refusal import Refused
from gossamer.replica.layout import flat_of
from gossamer.replica.stretch import Piece

BYTES = 1 << 23  # of a part, about: parts of 2 MB took 4 ms of a step more, for calls of the optimizer
STEPPED, BUSY, WORDS = range(3)  # a part's words: whether it was ever stepped, and whether it just is

Words = np.ndarray[Any, np.dtype[np.int64]]
Kept = list[dict[str, Tensor]]  # by tensor: what is remembered of it, by name


def shared_out(counts: Sequence[int], itemsize: int) -> list[list[Piece]]:
    """Tensors of so many elements in parts of about as many bytes; large ones are cut."""
    most = max(1, BYTES // itemsize)
    parts, held = list[list[Piece]]([[]]), 0
    for tensor, count in enumerate(counts):
        pieces = -(-count // most)
        for number in range(pieces):
            piece = Piece(tensor, number * count // pieces, (number + 1) * count // pieces)
            if held and held + piece.stop - piece.start > most:
                parts.append([])
                held = 0
            parts[-1].append(piece)
            held += piece.stop - piece.start
    return [part for part in parts if part]


class Remembered:
    """An optimizer over tensors that several members step, one at a time, and what it remembers of them."""

    def __init__(self, optimizer: torch.optim.Optimizer, tensors: Sequence[Tensor], kept: Kept) -> None:
        self.optimizer, self._tensors, self._kept, self._bound = optimizer, tensors, kept, False

    def recall(self, stepped: bool) -> None:
        """Somebody has stepped them: remember what it did."""
        if stepped and not self._bound:
            for tensor, kept in zip(self._tensors, self._kept, strict=True):
                self.optimizer.state[tensor] = dict(kept)
            self._bound = True

    def lay(self) -> bool:
        """Lay down what I remember, where it is not there already; whether there is anything."""
        if not any(self.optimizer.state.values()):
            return False
        for tensor, kept in zip(self._tensors, self._kept, strict=True):
            state = self.optimizer.state[tensor]
            if any(isinstance(value, Tensor) and name not in kept for name, value in state.items()):
                new = sorted(state.keys() - kept.keys())
                raise Refused(f"this {type(self.optimizer).__name__} remembers {new} only now", "another optimizer")
            for name, place in kept.items():
                if state[name].data_ptr() != place.data_ptr():
                    place.copy_(state[name])
                    state[name] = place
        self._bound = True
        return True


class Part:
    """Pieces of a centre's tensors under one lock; `span` is where they lie in the centre, one after the other."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        span: tuple[int, int],
        remembered: Remembered,
        views: Sequence[Tensor],
        words: Words,
        kept: Kept,
    ) -> None:
        self.pieces, self.span, self.words = pieces, span, words
        self._remembered, self._views, self._kept = remembered, views, kept

    def step(self, slopes: Sequence[Tensor]) -> bool:
        """Step with everybody's tensors' gradients; whether the one before died in the midst of its step."""
        unfinished, self.words[BUSY] = bool(self.words[BUSY]), 1
        self._remembered.recall(bool(self.words[STEPPED]))
        for view, piece in zip(self._views, self.pieces, strict=True):
            slope = slopes[piece.tensor]
            flat = slope.view(-1) if slope.is_contiguous() else flat_of(slope)
            view.grad = flat[piece.start : piece.stop].view(view.shape)
        self._remembered.optimizer.step()
        for view in self._views:
            view.grad = None
        self.words[STEPPED] = self._remembered.lay()
        self.words[BUSY] = 0
        return unfinished

    def ask(self, whole: Kept) -> bool:
        """Let what is remembered of whole tensors be what was remembered last; whether anything is."""
        self._level(whole, to_me=False)
        return bool(self.words[STEPPED])

    def tell(self, whole: Kept, stepped: bool) -> None:
        """Remember what is remembered of whole tensors."""
        self._level(whole, to_me=True)
        self.words[STEPPED], self.words[BUSY] = stepped, 0

    def _level(self, whole: Kept, *, to_me: bool) -> None:
        """What lies in one place needs no word; counts of steps are told."""
        for piece, kept in zip(self.pieces, self._kept, strict=True):
            for name, mine in kept.items():
                theirs = whole[piece.tensor][name]
                if mine.shape == theirs.shape:
                    mine.copy_(theirs) if to_me else theirs.copy_(mine)
