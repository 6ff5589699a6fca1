"""Codes of few bits, packed into bytes and read back. Knows no codec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.parts import kernel

if TYPE_CHECKING:
    from torch import Tensor


def packed_bytes(count: int, bits: int) -> int:
    """Bytes that `count` codes of 1, 2, 4 or 8 bits fill, the last one filled up with zeros."""
    return -(-count // (8 // bits))


def pack_bits(codes: Tensor, bits: int) -> Tensor:
    """Codes (bytes below 2**bits, or truths) as bytes; of m bytes the j-th holds codes j, j + m, j + 2m, ...

    Codes that lie together go to neighbouring bytes, so every pass reads and writes memory in order.
    """
    import torch

    if bits > 1 and codes.dtype is torch.uint8 and kernel.fits() and codes.device.type == "cpu":
        return kernel.packed(codes.contiguous(), bits)
    places, length = 8 // bits, packed_bytes(codes.numel(), bits)
    whole = torch.nn.functional.pad(codes.view(torch.uint8), (0, places * length - codes.numel()))
    rows = whole.view(places, length)
    body = rows[0].clone()
    for place in range(1, places):
        body |= rows[place] << (bits * place)
    return body


def pack_signs(flat: Tensor) -> Tensor:
    """A bit for each number, set unless it is below zero or no number."""
    return kernel.packed_signs(flat) if kernel.fits(flat) else pack_bits(flat >= 0, 1)


def unpack_bits(body: Tensor, bits: int, count: int) -> Tensor:
    """The first `count` codes of what `pack_bits` packed, as bytes."""
    import torch

    return torch.cat([body >> shift & (2**bits - 1) for shift in range(0, 8, bits)])[:count]


def as_bytes(*parts: Tensor) -> Tensor:
    """Tensors of any kind, one after the other, as one run of bytes."""
    import torch

    return torch.cat([part.contiguous().view(torch.uint8) for part in parts])
