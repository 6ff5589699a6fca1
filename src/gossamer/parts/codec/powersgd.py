"""PowerSGD: a tensor, seen as a matrix, becomes the product of two thin factors, by one warm power iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from gossamer.parts.chance import Chance
from gossamer.parts.codec.wire import Block, Codec, Conversation, Mean, Meant, Memory, Shapes, Size, exactly
from gossamer.parts.refusal import whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NEAR = 1 << 17  # elements of a product that a core's own cache holds


@dataclass(frozen=True, repr=False)
class PowerSGD(Codec):
    """P = mean(M Q), made orthonormal; Q = mean(M' P); result P Q'. All factors of a block share one wire per turn.

    What has one row or one column goes as it is, beside P: factors would be no smaller. Q lies transposed, a row for
    each column of P: thin products are several times faster that way.
    """

    rank: int = 2

    def __post_init__(self) -> None:
        whole("PowerSGD", "rank", self.rank, 1, 2**14)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        matrices = [part.reshape(matrix(part.shape)) for part in block.tensors()]
        places = [place for place, m in enumerate(matrices) if thick(tuple(m.shape))]
        rows = {place: self._start(matrices[place], n, memory, chance) for n, place in enumerate(places)}
        own = [m @ rows[place].T if place in rows else m.clone() for place, m in enumerate(matrices)]
        heard = yield Mean(_joined(own, block))
        sums, sides = heard.one(), [tuple(each.shape) for each in own]
        kind = block.flat.dtype  # 16-bit wires are heard in 32 bits
        left = heard.once("left", lambda: [_basis(p, n in rows, kind) for n, p in enumerate(_parted(sums, sides))])
        mine = {place: left[place].T @ matrices[place] for place in places}
        heard = yield Mean(_joined(list(mine.values()), block))
        parted = _parted(heard.one().to(kind), [tuple(q.shape) for q in mine.values()])
        right = dict(zip(places, parted, strict=True))
        memory.update({f"rows {n}": q.clone() for n, q in enumerate(right.values())})
        told = [left[place] if place in mine else vector for place, vector in enumerate(own)]
        meant = Meant(lambda into, weight: _add(told, mine, block, into, weight), block.flat)
        return heard.once("product", lambda: _products(left, right, block)), meant

    def _start(self, m: Tensor, number: int, memory: Memory, chance: Chance) -> Tensor:
        known = memory.get(f"rows {number}")
        if known is not None:
            return known
        return chance.shared_normal(m.new_empty(m.shape[1], self._rank(tuple(m.shape))), number).T.contiguous()

    def _rank(self, shape: tuple[int, ...]) -> int:
        return min(self.rank, *shape)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        sides = [matrix(shape) for shape in shapes]
        factors = [[side[turn] * self._rank(side) for side in sides if thick(side)] for turn in (0, 1)]
        vectors = sum(prod(side) for side in sides if not thick(side))
        return exactly((sum(factors[0]) + vectors) * itemsize), exactly(sum(factors[1]) * itemsize)


def matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor seen as a matrix: its first dimension against all the others."""
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def thick(side: tuple[int, ...]) -> bool:
    """Whether a matrix has more than one row and one column, so that thin factors may be smaller."""
    return min(side) > 1


def _basis(p: Tensor, factor: bool, kind: torch.dtype) -> Tensor:
    """An orthonormal basis of a factor's columns, found in 32 bits where there are fewer; a vector as it is."""
    import torch

    if not factor:
        return p
    basis: Tensor = torch.linalg.qr(p.to(torch.promote_types(p.dtype, torch.float32))).Q
    return basis.to(kind)


def _joined(parts: list[Tensor], block: Block) -> Tensor:
    import torch

    return torch.cat([part.reshape(-1) for part in parts]) if parts else block.flat.new_zeros(0)


def _parted(flat: Tensor, shapes: list[tuple[int, ...]]) -> Iterator[Tensor]:
    return Block(flat, tuple(shapes)).tensors()


def _products(left: list[Tensor], right: dict[int, Tensor], block: Block) -> Tensor:
    """Each tensor as the product of its factors, or as it is, laid where it belongs."""
    import torch

    whole = torch.empty_like(block.flat)
    for place, (part, p) in enumerate(zip(block.tensors(whole), left, strict=True)):
        seen = part.view(matrix(tuple(part.shape)))
        if place in right:
            torch.mm(p, right[place], out=seen)
        else:
            seen.copy_(p)
    return whole


def _add(left: list[Tensor], right: dict[int, Tensor], block: Block, into: Tensor, weight: float) -> None:
    """Add so much of these products, rounded as the others hear them; some rows at a time, so that they stay near."""
    for place, (part, p) in enumerate(zip(block.tensors(into), left, strict=True)):
        seen = part.view(matrix(tuple(part.shape)))
        rows = max(1, NEAR // max(1, seen.shape[1]))
        for start in range(0, len(seen), rows):
            few = p[start : start + rows]
            seen[start : start + rows].add_(few @ right[place] if place in right else few, alpha=weight)
