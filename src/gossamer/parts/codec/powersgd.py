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
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class PowerSGD(Codec):
    """P = mean(M Q), made orthonormal; Q = mean(M' P); result P Q'. All factors of a block share one wire per turn."""

    rank: int = 2

    def __post_init__(self) -> None:
        whole("PowerSGD", "rank", self.rank, 1, 2**14)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        matrices = [part.reshape(matrix(part.shape)) for part in block.tensors()]
        factors = [self._start(m, place, memory, chance) for place, m in enumerate(matrices)]
        heard = yield Mean(_joined([m @ q for m, q in zip(matrices, factors, strict=True)]))
        thin = [(m.shape[0], q.shape[1]) for m, q in _pairs(matrices, factors)]
        sums = heard.one()
        left = heard.once("orthonormal", lambda: [_orthonormal(p) for p in _parted(sums, thin)])
        mine = [m.T @ p for m, p in zip(matrices, left, strict=True)]
        heard = yield Mean(_joined(mine))
        right = list(_parted(heard.one(), [tuple(q.shape) for q in mine]))
        memory.update({f"factor {place}": q.clone() for place, q in enumerate(right)})
        meant = Meant(lambda into, weight: _add(left, mine, block, into, weight), block.flat)
        return heard.once("product", lambda: _products(left, right, block)), meant

    def _start(self, m: Tensor, place: int, memory: Memory, chance: Chance) -> Tensor:
        known = memory.get(f"factor {place}")
        if known is not None:
            return known
        return chance.shared_normal(m.new_empty(m.shape[1], self._rank(tuple(m.shape))), place)

    def _rank(self, shape: tuple[int, ...]) -> int:
        return min(self.rank, *shape)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        sides = [matrix(shape) for shape in shapes]
        return tuple(exactly(sum(side[turn] * self._rank(side) for side in sides) * itemsize) for turn in (0, 1))


def matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor seen as a matrix: its first dimension against all the others."""
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def _orthonormal(p: Tensor) -> Tensor:
    """An orthonormal basis of the columns; found in 32 bits where there are fewer."""
    import torch

    basis: Tensor = torch.linalg.qr(p.to(torch.promote_types(p.dtype, torch.float32))).Q
    return basis.to(p.dtype)


def _pairs(a: list[Tensor], b: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(a, b, strict=True)


def _joined(parts: list[Tensor]) -> Tensor:
    import torch

    return torch.cat([part.reshape(-1) for part in parts])


def _parted(flat: Tensor, shapes: list[tuple[int, int]] | list[tuple[int, ...]]) -> Iterator[Tensor]:
    return Block(flat, tuple(shapes)).tensors()


def _products(left: list[Tensor], right: list[Tensor], block: Block) -> Tensor:
    """Each tensor as the product of its factors, laid where it belongs."""
    import torch

    whole = torch.empty_like(block.flat)
    for part, p, q in zip(block.tensors(whole), left, right, strict=True):
        torch.mm(p, q.T, out=part.view(matrix(tuple(part.shape))))
    return whole


def _add(left: list[Tensor], right: list[Tensor], block: Block, into: Tensor, weight: float) -> None:
    """Add so much of these products."""
    for part, p, q in zip(block.tensors(into), left, right, strict=True):
        part.view(matrix(tuple(part.shape))).addmm_(p, q.T, alpha=weight)
