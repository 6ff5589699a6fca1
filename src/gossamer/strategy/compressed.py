"""The systems of the catalogue that write gradients, or gains, in fewer bytes: an exchange with a codec.

Where a codec looks at a tensor as a whole, small tensors and those of one dimension (`where`) go as they are, in an
exchange of their own: they are few bytes, and biases and norms take being cut down badly. Codecs that write number by
number carry everything.
"""

from __future__ import annotations

from gossamer.parts.codec import (
    QSGD,
    AdaComp,
    Brain,
    Codec,
    Dense,
    ErrorFeedback,
    Half,
    Int8,
    Natural,
    OneBit,
    Proportion,
    RandomK,
    Sign,
    Significant,
    Slice,
    Ternary,
    Threshold,
    TopK,
)
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import kind
from gossamer.parts.selection import Everything, Except, Matrices, Selection
from gossamer.parts.synchrony import Synchrony
from gossamer.strategy.entry import OURS, Entry
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import Strategy


def half() -> Strategy:
    """All-reduce of gradients in 16 bits."""
    return written(Half())


def bf16() -> Strategy:
    """All-reduce of gradients in 16 bits that keep the range of 32."""
    return written(Brain())


def eight_bits(bucket: int = 256, where: Selection = Matrices()) -> Strategy:
    """All-reduce of gradients as whole numbers of eight bits, times a size for each bucket; the rest waits."""
    return written(ErrorFeedback(Int8(bucket)), where)


def random_k(keep: float = 0.01, where: Selection = Matrices()) -> Strategy:
    """All-reduce of a random hundredth of the gradient, the same for all members; the rest waits."""
    return written(ErrorFeedback(RandomK(keep)), where)


def one_bit(where: Selection = Matrices()) -> Strategy:
    """All-reduce of the gradient's signs and of two means per column, with error feedback."""
    return written(ErrorFeedback(OneBit()), where)


def qsgd(bits: int = 4, where: Selection = Matrices()) -> Strategy:
    """All-reduce of gradients rounded at random to a few levels of each bucket's norm, so that their mean is right."""
    return written(QSGD(bits), where)


def terngrad(clip: float = 2.5, where: Selection = Matrices()) -> Strategy:
    """All-reduce of gradients clipped, then rounded at random to -s, 0 or s, s being the same for all members."""
    return written(Ternary(clip), where)


def strom(threshold: float = 0.1, where: Selection = Matrices()) -> Strategy:
    """All-reduce of plus or minus a threshold, wherever what has gathered up passes it; the rest waits."""
    return written(ErrorFeedback(Threshold(threshold)), where)


def gradient_dropping(keep: float = 0.01, where: Selection = Matrices()) -> Strategy:
    """All-reduce of the largest hundredth of each tensor's gradient; the rest waits."""
    return written(ErrorFeedback(TopK(keep)), where)


def dryden(keep: float = 0.01, where: Selection = Matrices()) -> Strategy:
    """All-reduce of a fixed share of the positive and of the negative elements, each side as a mean; the rest waits."""
    return written(ErrorFeedback(Proportion(keep)), where)


def adacomp(bin: int = 50, where: Selection = Matrices()) -> Strategy:
    """All-reduce of what stands out in each bin of a tensor, of one size for all of it; the rest waits."""
    return written(AdaComp(bin), where)


def ef_signsgd(where: Selection = Matrices()) -> Strategy:
    """All-reduce of the gradient's signs times the mean size of each tensor, with error feedback."""
    return written(ErrorFeedback(Sign()), where)


def natural() -> Strategy:
    """All-reduce of gradients rounded at random to powers of two, so that their mean is right."""
    return written(Natural())


def ako(parts: int = 4) -> Strategy:
    """Each member sends another part of its gradient every step; the rest gathers up, and answers come a step late."""
    return Strategy((Exchange(codec=ErrorFeedback(Slice(parts)), synchrony=Synchrony(delay=1)),))


def gaia(threshold: float = 0.01) -> Strategy:
    """Step locally and tell the others only what changes a parameter noticeably; the rest waits."""
    return Strategy((Exchange(Payload.DELTAS, codec=ErrorFeedback(Significant(threshold))),))


def written(codec: Codec, where: Selection = Everything(), rest: Codec = Dense()) -> Strategy:
    """All-reduce of gradients through a codec where it says so, and of the rest as it is."""
    kind("entry", "where", where, Selection)
    coded = Exchange(where=where, codec=codec)
    return Strategy((coded,)) if where == Everything() else coded + Exchange(where=Except(where), codec=rest)


COMPRESSED: tuple[Entry, ...] = (
    Entry("half", half, "P1, P5 (mixed precision)"),
    Entry("bf16", bf16, OURS),
    Entry("eight_bits", eight_bits, OURS),
    Entry("random_k", random_k, "Stich et al. 2018 (sparsified SGD with memory)"),
    Entry("one_bit", one_bit, "Seide et al. 2014; P1"),
    Entry("qsgd", qsgd, "Alistarh et al. 2017; P1"),
    Entry("terngrad", terngrad, "Wen et al. 2017; P1"),
    Entry("strom", strom, "Strom 2015; P1"),
    Entry("gradient_dropping", gradient_dropping, "Aji, Heafield 2017; P1"),
    Entry("dryden", dryden, "Dryden et al. 2016; P1"),
    Entry("adacomp", adacomp, "Chen et al. 2018 (AdaComp); P1"),
    Entry("ef_signsgd", ef_signsgd, "Karimireddy et al. 2019"),
    Entry("natural", natural, "Horvath et al. 2019"),
    Entry("ako", ako, "Watcharapichat et al. 2016 (Ako), in our reading; P2"),
    Entry("gaia", gaia, "Hsieh et al. 2017 (Gaia), in our reading; P2"),
)
