"""The systems of the catalogue that write gradients, or gains, in fewer bytes. Each is one exchange with a codec."""

from __future__ import annotations

from gossamer.parts.codec import QSGD, ErrorFeedback, OneBit
from gossamer.strategy.entry import Entry
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import Strategy


def one_bit() -> Strategy:
    """All-reduce of the gradient's signs and of two means per column, with error feedback."""
    return Strategy((Exchange(codec=ErrorFeedback(OneBit())),))


def qsgd(bits: int = 4) -> Strategy:
    """All-reduce of gradients rounded at random to a few levels of each bucket's norm, so that their mean is right."""
    return Strategy((Exchange(codec=QSGD(bits)),))


COMPRESSED: tuple[Entry, ...] = (
    Entry("one_bit", one_bit, "Seide et al. 2014; P1"),
    Entry("qsgd", qsgd, "Alistarh et al. 2017; P1"),
)
