"""Places and signs as 32-bit words: 31 bits of index, one of sign. Knows no codec."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from gossamer.parts.codec.bits import as_bytes
from gossamer.parts.codec.wire import Block
from gossamer.parts.refusal import Refused

if TYPE_CHECKING:
    from torch import Tensor

LOST = -1  # all bits set, an index that no element has: here is something that no word can tell


def written(places: Tensor, negative: Tensor) -> Tensor:
    """The words as bytes: a negative element's word is its index less 2**31, so that its highest bit is set."""
    import torch

    return as_bytes(places.sub(negative.long() << 31).to(torch.int32))


def lost(like: Tensor) -> Tensor:
    """The one word that says that something was not finite."""
    import torch

    return as_bytes(torch.full((1,), LOST, dtype=torch.int32, device=like.device))


def read(body: Tensor, like: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Places, where they are negative, and whether something was lost, which then concerns every place of `like`."""
    import torch

    if like.numel() >= 2**31 - 1:
        raise Refused(f"a block of {like.numel()} elements cannot be indexed by 31 bits", "where=... that divides it")
    found = body.clone().view(torch.int32)
    if found.numel() == 1 and int(found) == LOST:
        places = torch.arange(like.numel(), device=like.device)
        return places, torch.zeros_like(places, dtype=torch.bool), True
    return found.long() & (2**31 - 1), found < 0, False


def written_with(means: list[Tensor], places: list[Tensor], negative: list[Tensor], like: Tensor) -> Tensor:
    """Means in the type of `like`, then words."""
    import torch

    head = torch.stack(means).to(like.dtype) if means else like.new_zeros(0)
    none = torch.zeros(0, dtype=torch.int64, device=like.device)
    return as_bytes(head, written(torch.cat([none, *places]), torch.cat([none.bool(), *negative])))


def read_with(body: Tensor, block: Block, each: int) -> tuple[Tensor, Tensor, Tensor]:
    """The means that a body begins with, `each` of them for every tensor, then places and where they are negative."""
    head = each * len(block.shapes) * block.flat.element_size()
    places, negative, _ = read(body[head:], block.flat)
    return body[:head].clone().view(block.flat.dtype), places, negative


def tensor_of(places: Tensor, block: Block) -> Tensor:
    """The number of the tensor that each place lies in."""
    import torch

    ends = torch.tensor([prod(shape) for shape in block.shapes], device=places.device).cumsum(0)
    return torch.bucketize(places, ends, right=True)
