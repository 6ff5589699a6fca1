"""What a tensor becomes on the wire."""

from gossamer.parts.codec.dense import Brain, Dense, Half
from gossamer.parts.codec.levels import QSGD, Int8, Natural
from gossamer.parts.codec.momentum import DGC, Corrected
from gossamer.parts.codec.partial import Significant, Slice
from gossamer.parts.codec.powersgd import PowerSGD
from gossamer.parts.codec.sign import OneBit, Sign
from gossamer.parts.codec.signed import AdaComp, Proportion, Threshold
from gossamer.parts.codec.sparse import RandomK, TopK
from gossamer.parts.codec.ternary import Ternary
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Heard,
    Max,
    Mean,
    Meant,
    Memory,
    Size,
    Wire,
    alone,
    decoded,
    laid_down,
)
from gossamer.parts.codec.wrappers import Difference, ErrorFeedback

__all__ = [
    "AdaComp", "Block", "Brain", "Codec", "Conversation", "Corrected", "DGC", "Dense", "Difference", "Each",
    "ErrorFeedback", "Half", "Heard", "Int8", "Max", "Mean", "Meant", "Memory", "Natural", "OneBit", "PowerSGD",
    "Proportion", "QSGD", "RandomK", "Sign", "Significant", "Size", "Slice", "Ternary", "Threshold", "TopK", "Wire",
    "alone", "decoded", "laid_down",
]  # fmt: skip
