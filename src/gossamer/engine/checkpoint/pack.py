"""Trees of tensors and plain values, taken apart into JSON and named tensors. Knows no file."""

from __future__ import annotations

import math
import struct
from collections import Counter, OrderedDict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.parts.refusal import Refused, told

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]
Path = tuple[object, ...]  # the keys on the way to a value

DEEP = 100  # levels; a tree that holds itself is told from a deep one by nothing else
NARROW = range(-(2**63), 2**63)  # integers every JSON reader gives back as they were
MAPPINGS: dict[type, str] = {dict: "dict", OrderedDict: "OrderedDict", Counter: "Counter"}
NUMBERS = "biufcmMSU"  # kinds of numpy dtypes that are nothing but their bytes
INTEGERS = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64"
FLOATS = "float16 bfloat16 float32 float64 complex64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
# What a safetensors file holds and torch reads back; other dtypes travel as their bytes.
WRITABLE = {getattr(torch, name) for name in f"{INTEGERS} {FLOATS}".split()}


def pack(tree: object) -> tuple[JSON, dict[str, Tensor]]:
    """Any nesting of dict, list and tuple over tensors, numpy values and plain ones, as (JSON, tensors by name).

    `unpack` is the exact inverse: types of keys, order of entries, tuples, dtypes, every bit of a float. Tensors are
    not copied where they lie in one piece; one that appears twice comes back as two, on the CPU.
    """
    tensors: dict[str, Tensor] = {}
    return _value(tree, (), tensors), tensors


def _value(value: Any, path: Path, tensors: dict[str, Tensor]) -> JSON:
    """One value and all below it; exact types only, since a subclass would come back as its parent."""
    kind = type(value)
    if len(path) > DEEP:
        raise Refused(f"{_spelt(path[:3])}...: nested more than {DEEP} deep, or it holds itself")
    if value is None or kind in (bool, str):
        return value  # type: ignore[no-any-return]
    if kind in (int, float):
        return _number(value)
    if kind in (list, tuple):
        inner = [_value(item, (*path, at), tensors) for at, item in enumerate(value)]
        return inner if kind is list else {"is": "tuple", "of": inner}
    if kind in MAPPINGS:
        return {"is": MAPPINGS[kind], "of": [_entry(key, inner, path, tensors) for key, inner in value.items()]}
    if isinstance(value, np.ndarray | np.generic):
        return _array(value, path, tensors)
    if isinstance(value, Tensor):
        return _tensor(value, path, tensors)
    raise Refused(
        f"{_spelt(path)} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint does not hold",
        "tensors, numpy arrays, None, bool, int, float, str, and dict, list and tuple of them",
    )


def _entry(key: object, value: object, path: Path, tensors: dict[str, Tensor]) -> list[JSON]:
    if not _is_key(key):
        raise Refused(f"{_spelt(path)} has the key {told(key)}", "keys that are str, int, bool, None or tuples of them")
    return [_value(key, path, tensors), _value(value, (*path, key), tensors)]


def _number(value: int | float) -> JSON:
    """JSON's own number where it comes back with every bit, else its digits or bits in hexadecimal."""
    if isinstance(value, int):
        return value if value in NARROW else {"is": "int", "hex": hex(value)}
    return value if math.isfinite(value) else {"is": "float", "hex": struct.pack(">d", value).hex()}


def _tensor(value: Tensor, path: Path, tensors: dict[str, Tensor]) -> JSON:
    """Its numbers as they lie in memory; the order of its dimensions beside, where it is another (channels last)."""
    if type(value) not in (Tensor, torch.nn.Parameter) or value.layout != torch.strided or value.is_quantized:
        raise Refused(f"{_spelt(path)} is no plain dense tensor ({type(value).__name__}, {value.layout})")
    if value.is_meta:
        raise Refused(f"{_spelt(path)} is on the meta device: it has no numbers to save")
    value = value.detach().resolve_conj().resolve_neg()
    order = sorted(range(value.ndim), key=value.stride().__getitem__, reverse=True)
    if value.is_contiguous() or not value.permute(order).is_contiguous():
        order = list(range(value.ndim))
    laid = value.permute(order).contiguous()
    note: dict[str, Any] = {"is": "tensor", "name": _named(path, tensors)}
    if order != sorted(order):
        note["order"] = order
    if value.dtype not in WRITABLE:
        note |= {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(laid.shape)}
        laid = laid.reshape(-1).view(torch.uint8)
    tensors[note["name"]] = laid
    return note


def _array(value: Any, path: Path, tensors: dict[str, Tensor]) -> JSON:
    """A numpy array or scalar as its bytes, its dtype (byte order included) and its shape."""
    if value.dtype.kind not in NUMBERS or type(value) not in (np.ndarray, value.dtype.type):
        raise Refused(f"{_spelt(path)} is a numpy {type(value).__name__} of {value.dtype}, which is no plain number")
    name, raw = _named(path, tensors), bytearray(value.tobytes())
    tensors[name] = torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return {"is": kind, "name": name, "dtype": value.dtype.str, "shape": list(value.shape)}


def _named(path: Path, tensors: dict[str, Tensor]) -> str:
    """A name of its own for every tensor, readable where the path allows."""
    stem = ".".join(map(str, path)).encode("utf-8", "backslashreplace").decode() or "value"
    name, again = stem, 1
    while name in tensors or name.startswith("__"):  # safetensors keeps such a name for itself
        name, again = f"{stem.strip('_')}#{again}", again + 1
    return name


def _is_key(key: object) -> bool:
    return type(key) in (str, int, bool, type(None)) or (isinstance(key, tuple) and all(map(_is_key, key)))


def _spelt(path: Path) -> str:
    return "the tree" + "".join(f"[{key!r}]" for key in path)
