"""Codecs that round each element to one of a few values: at random, so that the mean over draws is the element, or
to the nearest."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp
from typing import TYPE_CHECKING

from gossamer.parts import kernel
from gossamer.parts.chance import Chance
from gossamer.parts.codec.bits import as_bytes, pack_bits, pack_signs, packed_bytes, unpack_bits
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Meant,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
    sum_of,
    wide,
)
from gossamer.parts.refusal import Refused, told, whole

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BIAS, LEAST = 127, -126  # of the exponent of a 32-bit float
EIGHT = 127  # the largest whole number of eight bits whose opposite there is, too


@dataclass(frozen=True, repr=False)
class QSGD(Codec):
    """Each `bucket` elements v become ||v|| sign(v) l/s, l one of the whole numbers beside s |v|/||v||, unbiased.

    A code has `bits` bits, one of them the sign, so s = 2**(bits - 1) - 1 (QSGD, Alistarh et al. 2017).
    """

    bits: int = 4
    bucket: int = 512

    def __post_init__(self) -> None:
        if type(self.bits) is not int or self.bits not in (2, 4, 8):
            raise Refused(f"QSGD: bits must fill a byte, so 2, 4 or 8, not {told(self.bits)}", "bits=4")
        whole("QSGD", "bucket", self.bucket, 1, 2**30)

    @property
    def levels(self) -> int:
        """s: how many levels there are above zero."""
        return int(2 ** (self.bits - 1) - 1)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        mine = self._written(block.flat, chance)
        meant = Meant(lambda into, weight: self._add(mine, into, weight), block.flat)
        heard = yield Each(mine, meant)
        return sum_of(heard, block.flat, self._add), meant

    def _written(self, flat: Tensor, chance: Chance) -> Tensor:
        if kernel.fits(flat):
            norms, codes = kernel.quantised(flat, self.bucket, self.bits, chance.uniform_key)
        else:
            rows = _rows(flat.to(wide(flat)), self.bucket)
            norms = _norms(rows)
            safe = norms.where(norms > 0, norms.new_ones(()))  # what is not a number is not above 0: its level is 0
            drawn = _rows(chance.uniform_like(flat.to(wide(flat))), self.bucket)
            level = rows.abs().div_(safe).mul_(self.levels).add_(drawn).floor_()
            rounded = level.clamp_(max=self.levels).to(_byte()) & self.levels
            rounded |= (rows < 0).to(_byte()) << (self.bits - 1)
            codes = rounded.reshape(-1)[: flat.numel()]
        return as_bytes(norms.reshape(-1), pack_bits(codes, self.bits))

    def _add(self, body: Tensor, into: Tensor, weight: float) -> None:
        kind = wide(into)
        head = _buckets(into.numel(), self.bucket) * kind.itemsize
        units = body[:head].clone().view(kind) * (weight / self.levels)
        if kernel.fits(into):
            kernel.add_levels(body[head:], self.bucket, self.bits, units, into)
            return
        codes = unpack_bits(body[head:], self.bits, into.numel())
        values = (codes & self.levels).to(kind)
        values = values.where(codes <= self.levels, -values)
        into.add_((_rows(values, self.bucket) * units.unsqueeze(1)).reshape(-1)[: into.numel()])

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        count = elements(shapes)
        norms = _buckets(count, self.bucket) * max(4, itemsize)
        return (exactly(norms + packed_bytes(count, self.bits), gathered=True),)


@dataclass(frozen=True, repr=False)
class Int8(Codec):
    """Each `bucket` elements become whole numbers from -127 to 127 times 1/127 of their largest size, to the nearest.

    What is not finite makes its whole bucket come out as not a number.
    """

    bucket: int = 256

    def __post_init__(self) -> None:
        whole("Int8", "bucket", self.bucket, 1, 2**30)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        mine = self._written(block.flat)
        meant = Meant(lambda into, weight: self._add(mine, into, weight), block.flat)
        heard = yield Each(mine, meant)
        return sum_of(heard, block.flat, self._add), meant

    def _written(self, flat: Tensor) -> Tensor:
        import torch

        if kernel.fits(flat):
            return as_bytes(*kernel.in_bytes(flat, self.bucket))
        rows = _rows(flat.to(wide(flat)), self.bucket)
        peaks = rows.abs().amax(1, keepdim=True) if rows.numel() else rows.new_zeros(len(rows), 1)
        safe = peaks.where(peaks > 0, peaks.new_ones(()))
        codes = (rows / safe).mul_(EIGHT).round_().nan_to_num_(0.0).to(torch.int8)
        return as_bytes(peaks.reshape(-1), codes.reshape(-1)[: flat.numel()])

    def _add(self, body: Tensor, into: Tensor, weight: float) -> None:
        import torch

        kind = wide(into)
        head = _buckets(into.numel(), self.bucket) * kind.itemsize
        units = body[:head].clone().view(kind) * (weight / EIGHT)
        if kernel.fits(into):
            kernel.add_bytes(body[head:], self.bucket, units, into)
            return
        numbers = _rows(body[head:].view(torch.int8).to(kind), self.bucket)
        into.add_((numbers * units.unsqueeze(1)).reshape(-1)[: into.numel()])

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        count = elements(shapes)
        return (exactly(_buckets(count, self.bucket) * max(4, itemsize) + count, gathered=True),)


@dataclass(frozen=True, repr=False)
class Natural(Codec):
    """Each t, 2**a <= |t| < 2**(a+1), becomes 2**a with probability (2**(a+1) - |t|)/2**a, else 2**(a+1), signed.

    Nine bits each: the exponent byte of a 32-bit float, and a sign. Below 2**-126 it is 0 or 2**-126, unbiased, too;
    above the largest power of two its type can hold it is that power; what is not finite comes out infinite
    (natural compression, Horvath et al. 2019).
    """

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        mine = as_bytes(_exponents(block.flat, chance), pack_signs(block.flat))
        meant = Meant(lambda into, weight: _add_powers(mine, into, weight), block.flat)
        heard = yield Each(mine, meant)
        return sum_of(heard, block.flat, _add_powers), meant

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        count = elements(shapes)
        return (exactly(count + packed_bytes(count, 1), gathered=True),)


def _exponents(flat: Tensor, chance: Chance) -> Tensor:
    """Exponents, drawn and biased by 127, as bytes: 0 stands for zero and 255 for what is not finite."""
    import torch

    if kernel.fits(flat):
        return kernel.powers(flat, chance.uniform_key)
    top, flat = _top(flat), flat.to(wide(flat))
    size = flat.abs()
    share, exponent = torch.frexp(size)  # |t| = share 2**exponent, share from 1/2 to below 1
    small = size < 2.0**LEAST
    likely = torch.where(small, size * 2.0**-LEAST, 2 * share - 1)  # how likely the upper neighbour is
    lower = torch.where(small, 0, exponent + (BIAS - 1))
    codes = (lower + (chance.uniform_like(flat) < likely)).clamp_max_(top + BIAS)
    return torch.where(flat.isfinite(), codes, 2 * BIAS + 1).to(torch.uint8)


def _add_powers(body: Tensor, into: Tensor, weight: float) -> None:
    """Add what a body of Natural stands for: the exponent bytes put where a 32-bit float has them."""
    import torch

    codes, signs = body[: into.numel()], body[into.numel() :]
    if kernel.fits(into):
        kernel.add_powers(codes, signs, weight, into)
        return
    sizes = (codes.to(torch.int32) << 23).view(torch.float32).to(into.dtype)
    into.add_(torch.where(unpack_bits(signs, 1, into.numel()).view(torch.bool), sizes, -sizes), alpha=weight)


def _top(flat: Tensor) -> int:
    """The exponent of the largest power of two that the type of `flat` and the exponent byte both hold."""
    import torch

    return min(BIAS, frexp(torch.finfo(flat.dtype).max)[1] - 1)


def _rows(flat: Tensor, bucket: int) -> Tensor:
    """Buckets as rows, the last one filled up with zeros."""
    import torch

    width = max(1, min(bucket, flat.numel()))
    return torch.nn.functional.pad(flat, (0, -flat.numel() % width)).view(-1, width)


def _buckets(count: int, bucket: int) -> int:
    return -(-count // bucket)


def _norms(rows: Tensor) -> Tensor:
    """The 2-norm of each row, as a column; squares neither overflow nor vanish, being those of shares of the peak."""
    peak = rows.abs().amax(1, keepdim=True) if rows.numel() else rows.new_zeros(len(rows), 1)
    safe = peak.where(peak > 0, peak.new_ones(()))
    norms: Tensor = (rows / safe).norm(dim=1, keepdim=True) * peak
    return norms


def _byte() -> torch.dtype:
    import torch

    return torch.uint8
