"""What a tensor becomes on the wire."""

from gossamer.parts.codec.dense import Dense, Half
from gossamer.parts.codec.levels import QSGD, Natural
from gossamer.parts.codec.partial import Significant, Slice
from gossamer.parts.codec.powersgd import PowerSGD
from gossamer.parts.codec.sign import OneBit, Sign
from gossamer.parts.codec.signed import AdaComp, Proportion, Threshold
from gossamer.parts.codec.sparse import DGC, TopK
from gossamer.parts.codec.ternary import Ternary
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Heard,
    Max,
    Mean,
    Memory,
    Size,
    Wire,
    alone,
    decoded,
)
from gossamer.parts.codec.wrappers import Difference, ErrorFeedback

__all__ = [
    "AdaComp", "Block", "Codec", "Conversation", "DGC", "Dense", "Difference", "Each", "ErrorFeedback", "Half", "Heard",
    "Max", "Mean", "Memory", "Natural", "OneBit", "PowerSGD", "Proportion", "QSGD", "Sign", "Significant", "Size",
    "Slice", "Ternary", "Threshold", "TopK", "Wire", "alone", "decoded",
]  # fmt: skip
