"""The compiled loops of `kernel.c` on 32-bit floats of this host, where they were built; else codecs use torch.

Each says in its name what it does; none allocates more than its answer. Whoever calls them has asked `fits`.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_float, c_int32, c_int64, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.parts.library import loaded

if TYPE_CHECKING:
    from torch import Tensor

    from gossamer.parts.chance import Key

_off = False


def fits(*tensors: Tensor) -> bool:
    """Whether compiled loops are there, and may read and write these."""
    import torch

    return (
        not _off
        and all(t.device.type == "cpu" and t.dtype is torch.float32 and t.is_contiguous() for t in tensors)
        and library() is not None
    )


def switch_off(off: bool = True) -> None:
    """Use torch alone from now on, or choose again."""
    global _off
    _off = off


class Sizes(ctypes.Structure):
    """`sizes` of kernel.c, field by field."""

    _fields_ = (("sum", c_double), ("squares", c_double), ("peak", c_double))


@cache
def library() -> ctypes.CDLL | None:
    """The compiled loops with their types told, or None if they were not built from this source."""
    found = loaded(Path(__file__).with_name("kernel.c"), "codec_stamp")
    if found is None:
        return None
    at, many, word = c_void_p, c_int64, c_uint32
    for name, *types in (
        ("uniform", at, many, word, word),
        ("sizes", at, many, POINTER(Sizes)),
        ("column_means", at, many, many, at, at, at, at),
        ("pack_signs", at, many, at),
        ("pack", at, many, c_int32, at),
        ("quantised", at, many, many, c_int32, word, word, at, at),
        ("bytes", at, many, many, at, at),
        ("powers", at, many, word, word, at),
        ("add_powers", at, at, many, c_float, at),
        ("add_bytes", at, many, many, at, at),
        ("trits", at, many, many, c_float, c_float, word, word, at),
        ("add_signs", at, many, many, many, many, at, at, at),
        ("add_levels", at, many, many, c_int32, at, at),
        ("add_trits", at, many, many, many, c_float, at),
    ):
        loop = getattr(found, f"codec_{name}")
        loop.argtypes, loop.restype = types, None
    found.codec_above.argtypes, found.codec_above.restype = [at, many, c_float, at, many], many
    return found


def uniform(like: Tensor, key: Key) -> Tensor:
    """Draws in [0, 1), one for each element."""
    import torch

    found = torch.empty_like(like)
    _call("uniform", found.data_ptr(), found.numel(), *key)
    return found


def sizes(flat: Tensor) -> Sizes:
    """The sum, the sum of squares, and the largest size, which is no number if anything is not finite."""
    found = Sizes()
    _call("sizes", flat.data_ptr(), flat.numel(), ctypes.byref(found))
    return found


def above(flat: Tensor, least: float, room: int) -> Tensor | None:
    """Where those lie that are not smaller in size, in order; None if there are more than `room`."""
    import torch

    places = torch.empty(room, dtype=torch.int64)
    found: int = _call("above", flat.data_ptr(), flat.numel(), least, places.data_ptr(), room)
    return None if found > room else places[:found]


def column_means(columns: Tensor) -> Tensor:
    """For each column the mean of what is not below zero, then for each that of the others; 0 where there are none."""
    import torch

    rows, many = columns.shape
    found, room, sums = columns.new_empty(2 * many), columns.new_empty(3 * many), torch.empty(3 * many).double()
    places = (found.data_ptr(), found[many:].data_ptr(), room.data_ptr(), sums.data_ptr())
    _call("column_means", columns.data_ptr(), rows, many, *places)
    return found


def packed_signs(flat: Tensor) -> Tensor:
    """A bit for each element, set unless it is below zero, in bytes as `pack_bits` fills them."""
    import torch

    body = torch.empty(-(-flat.numel() // 8), dtype=torch.uint8)
    _call("pack_signs", flat.data_ptr(), flat.numel(), body.data_ptr())
    return body


def packed(codes: Tensor, bits: int) -> Tensor:
    """Codes of 2, 4 or 8 bits, a byte each, as `pack_bits` packs them."""
    body = codes.new_empty(-(-codes.numel() // (8 // bits)))
    _call("pack", codes.data_ptr(), codes.numel(), bits, body.data_ptr())
    return body


def quantised(flat: Tensor, bucket: int, bits: int, key: Key) -> tuple[Tensor, Tensor]:
    """The norm of each bucket, and each element's level with its sign, drawn: a byte each."""
    import torch

    norms, codes = flat.new_empty(-(-flat.numel() // bucket)), torch.empty(flat.numel(), dtype=torch.uint8)
    _call("quantised", flat.data_ptr(), flat.numel(), bucket, bits, *key, norms.data_ptr(), codes.data_ptr())
    return norms, codes


def in_bytes(flat: Tensor, bucket: int) -> tuple[Tensor, Tensor]:
    """The largest size of each bucket, and each element as 127ths of it, to the nearest."""
    import torch

    peaks, codes = flat.new_empty(-(-flat.numel() // bucket)), torch.empty(flat.numel(), dtype=torch.int8)
    _call("bytes", flat.data_ptr(), flat.numel(), bucket, peaks.data_ptr(), codes.data_ptr())
    return peaks, codes


def add_bytes(body: Tensor, bucket: int, units: Tensor, into: Tensor) -> None:
    """Add to each element its whole number times its bucket's unit."""
    _call("add_bytes", body.data_ptr(), into.numel(), bucket, units.data_ptr(), into.data_ptr())


def powers(flat: Tensor, key: Key) -> Tensor:
    """The exponent byte of each element, or the next one, drawn; 255 for what is not finite."""
    import torch

    codes = torch.empty(flat.numel(), dtype=torch.uint8)
    _call("powers", flat.data_ptr(), flat.numel(), *key, codes.data_ptr())
    return codes


def add_powers(codes: Tensor, signs: Tensor, weight: float, into: Tensor) -> None:
    """Add to each element the power of two its exponent byte stands for, with its sign, so often."""
    _call("add_powers", codes.data_ptr(), signs.data_ptr(), into.numel(), weight, into.data_ptr())


def trits(part: Tensor, first: int, bound: float, scale: float, key: Key, codes: Tensor) -> None:
    """Signs, drawn, of a tensor that begins at element `first`, as 0, 1 or 2; into its place of `codes`."""
    _call("trits", part.data_ptr(), first, part.numel(), bound, scale, *key, codes[first:].data_ptr())


def add_signs(body: Tensor, total: int, first: int, means: Tensor, into: Tensor) -> None:
    """Add to a tensor that begins at `first` of `total` elements the mean that each element's bit and column name."""
    many = means.numel() // 2
    places = (means.data_ptr(), means[many:].data_ptr(), into.data_ptr())
    _call("add_signs", body.data_ptr(), total, first, into.numel(), many, *places)


def add_levels(body: Tensor, bucket: int, bits: int, units: Tensor, into: Tensor) -> None:
    """Add to each element its level and sign, times its bucket's unit."""
    _call("add_levels", body.data_ptr(), into.numel(), bucket, bits, units.data_ptr(), into.data_ptr())


def add_trits(body: Tensor, total: int, first: int, unit: float, into: Tensor) -> None:
    """Add to a tensor that begins at `first` of `total` elements its signs times a unit."""
    _call("add_trits", body.data_ptr(), total, first, into.numel(), unit, into.data_ptr())


def _call(name: str, *words: object) -> Any:
    found = library()
    assert found is not None, "asked for compiled loops that were not built"
    return getattr(found, f"codec_{name}")(*words)
