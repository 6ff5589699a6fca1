"""Systems that average all gradients in every step, and differ in how the all-reduce travels."""

from __future__ import annotations

from gossamer.parts.codec import Half
from gossamer.parts.route import BySize, Hierarchical, Ring, ShardedHub, Torus, Tree
from gossamer.strategy.entry import Entry
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import Strategy


def horovod() -> Strategy:
    """All-reduce of gradients along a ring: each sends the fewest bytes possible, in many rounds."""
    return Strategy((Exchange(route=Ring()),))


def firecaffe() -> Strategy:
    """Gradients are added up a tree and the sum comes down it: few rounds, whole vectors in each."""
    return Strategy((Exchange(route=Tree()),))


def tencent(per_host: int = 4, limit: int = 65536) -> Strategy:
    """Short wires go through one master per host, long ones round a ring, in half precision."""
    route = BySize(small=Hierarchical(per_host), large=Ring(), limit=limit)
    return Strategy((Exchange(route=route, codec=Half()),))


def sony(x: int | None = None) -> Strategy:
    """Rows of a grid reduce-scatter, columns all-reduce their share, rows all-gather, in half precision."""
    return Strategy((Exchange(route=Torus(x), codec=Half()),))


def byteps() -> Strategy:
    """Every worker also keeps a share of the server: it adds up one chunk for all and hands the sum out."""
    return Strategy((Exchange(route=ShardedHub()),))


REDUCED: tuple[Entry, ...] = (
    Entry("horovod", horovod, "Sergeev, Del Balso 2018; P1, P2"),
    Entry("firecaffe", firecaffe, "Iandola et al. 2016; P2"),
    Entry("tencent", tencent, "Jia et al. 2018; P1, P5; which size takes which way is our reading"),
    Entry("sony", sony, "Mikami et al. 2018 (P5)"),
    Entry("byteps", byteps, "Jiang et al. 2020; shares beside the workers"),
)
