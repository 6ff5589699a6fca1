"""The 2D-torus all-reduce of paper 5, and the choice of its grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

from gossamer.parts.refusal import Refused, whole
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.lines import circled, gather, scatter
from gossamer.parts.route.load import Loads, mirrored_loads
from gossamer.parts.route.schedule import Move, Route


@dataclass(frozen=True, repr=False)
class Torus(Route):
    """Reduce-scatter along rows of `x`, all-reduce of 1/x along columns, all-gather along rows (P5).

    Without `x` the grid is the factor pair nearest a square, x >= y; a prime gives x = n, which is a ring.
    """

    x: int | None = None

    def __post_init__(self) -> None:
        if self.x is not None:
            whole("Torus", "x", self.x, 1, 2**20)

    def grid(self, size: int) -> tuple[int, int]:
        """Columns and rows of the grid for `size` members."""
        if self.x is not None:
            return self.x, size // self.x
        y = next(y for y in range(isqrt(size), 0, -1) if size % y == 0)
        return size // y, y

    def chunks(self, size: int) -> int:
        return size

    def moves(self, member: int, size: int) -> Iterator[Move]:
        x, y = self.grid(size)
        down, along = divmod(member, x)
        row, column = range(down * x, down * x + x), range(along, size, x)
        yield from scatter(row, along, 0, y)  # leaves the coarse chunk `along` here, y fine ones wide
        yield from scatter(column, down, along * y)
        yield from gather(column, down, along * y)
        yield from gather(row, along, 0, y)

    def rounds(self, size: int) -> int:
        x, y = self.grid(size)
        return 2 * (x - 1) + 2 * (y - 1)

    def sent(self, size: int, nbytes: float) -> float:
        x, y = self.grid(size)
        return 2.0 * nbytes * (x - 1) / x + 2.0 * (nbytes / x) * (y - 1) / y

    def loads(self, borders: Borders) -> Loads:
        """A column is the members `x` apart, around, so all of them together are one shift."""
        x, y = self.grid(borders.size)
        rows = [(borders.circled(x).load(y, add=True), x - 1)] if x > 1 else []
        return mirrored_loads([*rows, (borders.shifted(x).load(1, add=True), y - 1)])

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        x, y = self.grid(size)
        down, along = divmod(member, x)
        row = circled(along, x, (0, size), size, length)
        column = circled(down, y, (along * y, along * y + y), size, length)
        return row[0] + column[0], row[1] + column[1]

    def fits(self, size: int) -> None:
        if self.x is not None and size % self.x:
            x, _ = Torus().grid(size)
            raise Refused(f"Torus: {size} members do not fill rows of {self.x}", f"Torus(x={x})")
