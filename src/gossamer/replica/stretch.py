"""A stretch of what an exchange carries: elements that lie together, as pieces of its tensors. Knows no values."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

from torch import Tensor

from gossamer.replica.layout import Chosen


@dataclass(frozen=True)
class Piece:
    """Elements of one tensor: the first, and the one after the last."""

    tensor: int
    start: int
    stop: int


class Stretch:
    """The elements from `start` to `stop` of those chosen; a tensor that is cut is a vector there."""

    def __init__(self, chosen: Chosen, start: int, stop: int) -> None:
        self.bounds, self.count = (start, stop), stop - start
        ends = [0, *accumulate(prod(shape) for shape in chosen.shapes)]
        self.pieces = [
            Piece(tensor, max(start, left) - left, min(stop, right) - left)
            for tensor, (left, right) in enumerate(pairwise(ends))
            if max(start, left) < min(stop, right)
            or (left == right and (start <= left < stop or left == stop == ends[-1]))
        ]
        whole = [prod(chosen.shapes[piece.tensor]) == piece.stop - piece.start for piece in self.pieces]
        self.places = tuple(chosen.places[piece.tensor] for piece in self.pieces)
        self.shapes: tuple[tuple[int, ...], ...] = tuple(
            chosen.shapes[piece.tensor] if uncut else (piece.stop - piece.start,)
            for piece, uncut in zip(self.pieces, whole, strict=True)
        )

    def views(self, values: Tensor) -> list[Tensor]:
        """A vector of its elements, cut into the shapes of its pieces."""
        parts = values.split_with_sizes([prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def balanced(chosen: Chosen, count: int, *, anywhere: bool) -> list[Stretch]:
    """Those chosen in `count` stretches of as many elements, to one; unless they may be cut `anywhere`, at the ends of
    tensors, as near to that as can be, and then maybe in fewer."""
    edges = [number * chosen.count // count for number in range(count + 1)]
    if not anywhere:
        ends = [0, *accumulate(prod(shape) for shape in chosen.shapes)]
        edges = [min(ends, key=lambda end, edge=edge: abs(end - edge)) for edge in edges]  # type: ignore[misc]
    return [Stretch(chosen, start, stop) for start, stop in pairwise(sorted(set(edges)))]
