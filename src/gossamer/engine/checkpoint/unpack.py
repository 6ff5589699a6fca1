"""Packed trees put together again. Knows no file."""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gossamer.engine.checkpoint.pack import JSON, NUMBERS
from gossamer.parts.refusal import Refused

Tensors = Mapping[str, Tensor]


def unpack(plain: JSON, tensors: Tensors) -> Any:
    """The tree that `pack` took apart; what `pack` cannot have written is refused."""
    try:
        return _value(plain, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, struct.error) as error:
        raise Refused(f"not a packed tree: {type(error).__name__}: {error}") from error


def _value(plain: JSON, tensors: Tensors) -> Any:
    if isinstance(plain, list):
        return [_value(item, tensors) for item in plain]
    if not isinstance(plain, dict):
        return plain
    match plain["is"]:
        case "tuple":
            return tuple(_value(item, tensors) for item in plain["of"])
        case "dict":
            return dict(_entries(plain, tensors))
        case "OrderedDict":
            return OrderedDict(_entries(plain, tensors))
        case "Counter":
            return Counter(dict(_entries(plain, tensors)))
        case "int":
            return int(plain["hex"], 16)
        case "float":
            return struct.unpack(">d", bytes.fromhex(plain["hex"]))[0]
        case "tensor":
            return _tensor(plain, tensors[plain["name"]])
        case "array":
            return _array(plain, tensors[plain["name"]])
        case "scalar":
            return _array(plain, tensors[plain["name"]])[()]
        case other:
            raise ValueError(f"nothing is packed as {other!r}")


def _entries(plain: dict[str, Any], tensors: Tensors) -> list[tuple[Any, Any]]:
    return [(_value(key, tensors), _value(value, tensors)) for key, value in plain["of"]]


def _tensor(note: dict[str, Any], laid: Tensor) -> Tensor:
    """The tensor with its dimensions in their order again."""
    if "dtype" in note:
        dtype = getattr(torch, note["dtype"])
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"torch has no dtype {note['dtype']!r}")
        laid = laid.view(dtype).reshape(note["shape"])
    order = note.get("order")
    return laid if order is None else laid.permute([order.index(at) for at in range(laid.ndim)])


def _array(note: dict[str, Any], raw: Tensor) -> Any:
    """A numpy array of its own memory; dtypes that are more than bytes (objects) are refused."""
    dtype = np.dtype(note["dtype"])
    if dtype.kind not in NUMBERS or raw.dtype != torch.uint8:
        raise ValueError(f"no plain numbers: {note['dtype']}")
    return np.frombuffer(raw.numpy().tobytes(), dtype=dtype).reshape(note["shape"]).copy()
