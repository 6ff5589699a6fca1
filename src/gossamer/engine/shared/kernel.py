"""The compiled loops of `kernel.c`, loaded if they were built, and which kind is in use. Knows no memory."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_int32, c_int64, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Literal

import torch

from gossamer.parts.library import loaded

Kind = Literal["compiled", "torch"]
KINDS = {torch.float32: 0, torch.float64: 1}  # the numbers that compiled loops add up

_forced: Kind | None = None


class Table(ctypes.Structure):
    """`struct lane` of kernel.c, field by field."""

    _fields_ = (
        *((name, c_int32) for name in ("member", "size", "buckets", "kind", "spins", "pad")),
        *((name, c_int64) for name in ("slice", "stream")),
        ("slots", c_void_p),
        ("stride", c_int64),
        ("whole", c_void_p),
        ("words", c_void_p),
        ("apart", c_int64),
        ("counters", c_void_p),
        ("shares", POINTER(c_int64)),
        ("small", POINTER(c_int32)),
        ("rounds", POINTER(c_uint32)),
        ("progress", POINTER(c_int32)),
        ("stays", POINTER(c_void_p)),
        ("sick", POINTER(c_int32)),
        ("ways", c_void_p),
    )


class Way(ctypes.Structure):
    """`struct way` of kernel.c, field by field."""

    _fields_ = (("tried", c_int64), ("taken", c_double))


class Stay(ctypes.Structure):
    """`struct stay` of kernel.c, field by field."""

    _fields_ = (("first", c_int64), ("last", c_int64), ("at", c_void_p))


def in_use() -> Kind:
    """Which loops the next lane uses: the compiled ones where they are there."""
    return _forced or ("torch" if library() is None else "compiled")


def force(kind: Kind | None) -> None:
    """Use these loops from now on, whatever is there; None chooses again."""
    global _forced
    if kind == "compiled" and library() is None:
        raise ValueError("the compiled loops are not built: install the package where a C compiler is at hand")
    _forced = kind


@cache
def library() -> ctypes.CDLL | None:
    """The compiled loops, or None if they were not built, or built for another version of this package."""
    found = loaded(Path(__file__).with_name("kernel.c"), "lane_stamp")
    if found is None:
        return None
    lane, bucket = c_void_p, c_int32
    for name in ("announce", "ready", "gather", "done", "settle"):
        getattr(found, f"lane_{name}").argtypes = [lane, bucket]
    for name in ("reduce", "mix"):
        getattr(found, f"lane_{name}").argtypes = [lane, bucket, c_int32, POINTER(c_double)]
    found.lane_sum.argtypes = [lane, c_int64, c_int64, c_int32, POINTER(c_double)]
    found.lane_sum.restype = None
    found.lane_load.argtypes = [lane, c_void_p, POINTER(c_void_p), POINTER(c_int64), c_int64, c_double]
    found.lane_load.restype = c_int64
    return found
