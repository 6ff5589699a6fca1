"""The lines between members' threads: process groups of their own, and the headers that go ahead of bodies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.parts.codec import Each, Max, Mean

PULL, TELL, TRADE, PUSH, BYE, TAKEN, ANSWER, REST = range(8)
WIRES: tuple[type[Mean] | type[Max] | type[Each], ...] = (Mean, Max, Each)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
)  # fmt: skip
ASK, HEAR = 1, 2  # tags of headers; a body follows its header under the next number
HEADER = 8
FOR_EVER = timedelta(days=365)


@dataclass(frozen=True)
class Lines:
    """Process groups beside the default one, so that no thread stands in another's way.

    Services ask and reply over gloo, which can hear from anyone; mixes that a carrier performs use the default backend.
    """

    asks: dist.ProcessGroup
    replies: dist.ProcessGroup
    mixes: dist.ProcessGroup


def head(*numbers: int) -> Tensor:
    """A header with these numbers, filled up with zeros."""
    return torch.tensor([*numbers, *[0] * (HEADER - len(numbers))], dtype=torch.int64)
