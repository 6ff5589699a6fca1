"""One table of specimens: the values every law is tried on. A part without a line here fails `test_specimens`."""

from __future__ import annotations

from gossamer.parts.codec import (
    DGC,
    QSGD,
    AdaComp,
    Codec,
    Dense,
    Difference,
    ErrorFeedback,
    Half,
    Natural,
    OneBit,
    PowerSGD,
    Proportion,
    Sign,
    Significant,
    Slice,
    Ternary,
    Threshold,
    TopK,
)
from gossamer.parts.merge import Adopt, Elastic, Merge, Outer, Share
from gossamer.parts.route import Auto, Native, Ring, Route, Torus
from gossamer.parts.selection import Bytes, Dims, Everything, Except, Named, Part, Selection
from gossamer.parts.synchrony import AllBut, Late, Synchrony
from gossamer.parts.topology import Complete, Cycle, Exponential, Graph, Hub, RandomPeer, Topology
from gossamer.parts.trouble import Fail, Slow, Trouble
from gossamer.strategy import CATALOG

TOPOLOGIES: tuple[Topology, ...] = (
    Complete(),
    Hub(),
    Cycle(),
    Exponential(),
    Graph(edges=((0, 1), (1, 0))),
    Graph(edges=((0, 1), (1, 2), (2, 0), (2, 1))),
    RandomPeer(),
    RandomPeer(pulls=3),
)
ROUTES: tuple[Route, ...] = (
    Auto(),
    Native(),
    Ring(),
    Torus(),
    Torus(x=1),
    Torus(x=2),
    Torus(x=3),
)
CODECS: tuple[Codec, ...] = (
    Dense(),
    Half(),
    TopK(),
    TopK(keep=0.3),
    TopK(keep=1.0),
    DGC(),
    DGC(density=0.25, momentum=0.5, nesterov=True, masking=False),
    DGC(density=0.01, warmup=8),
    Ternary(),
    Ternary(clip=0.0),
    PowerSGD(),
    PowerSGD(rank=1),
    PowerSGD(rank=64),
    ErrorFeedback(),
    ErrorFeedback(codec=TopK(keep=0.1)),
    ErrorFeedback(codec=Ternary()),
    ErrorFeedback(codec=PowerSGD(rank=1)),
    Difference(),
    Difference(codec=Half(), rate=1.0),
    Difference(codec=TopK(keep=0.4), rate=0.25),
    Difference(codec=PowerSGD(rank=1), rate=0.05),
    OneBit(),
    Sign(),
    QSGD(),
    QSGD(bits=2, bucket=3),
    QSGD(bits=8, bucket=7),
    Natural(),
    Threshold(),
    Threshold(threshold=0.7),
    Proportion(),
    Proportion(keep=0.4),
    AdaComp(),
    AdaComp(bin=4),
    Slice(),
    Slice(of=100),
    Significant(),
    Significant(threshold=2.0),
    ErrorFeedback(codec=Significant(threshold=1.0)),
)
MERGES: tuple[Merge, ...] = (
    Adopt(),
    Share(),
    Elastic(),
    Elastic(rate=0.25),
    Outer(),
    Outer(rate=1.0, momentum=0.0, nesterov=False),
    Outer(rate=0.5, momentum=0.5, nesterov=False),
)
SELECTIONS: tuple[Selection, ...] = (
    Everything(),
    Named(glob="*.weight"),
    Named(glob="Ümläut [0-9] \\d ' \" \n"),
    Dims(least=2),
    Dims(most=1),
    Dims(least=1, most=1),
    Bytes(least=12),
    Bytes(least=4, most=16),
    Part(index=0, of=2),
    Part(index=1, of=2),
    Except(but=Named(glob="0.*")),
    Except(but=Except(but=Dims(least=2))),
)
TROUBLES: tuple[Trouble, ...] = (
    Slow(rank=1, factor=5.0),
    Slow(rank=0, factor=2.5, start=3, stop=7),
    Fail(rank=2, step=30),
    Fail(rank=0, step=0),
)
SYNCHRONIES: tuple[Synchrony, ...] = (
    Synchrony(),
    Synchrony(every=2),
    Synchrony(every=3, delay=2),
    Synchrony(delay=1),
    Synchrony(staleness=2),
    Synchrony(staleness=None),
    Synchrony(every=2, staleness=None),
    Synchrony(quorum=1),
    Synchrony(quorum=2, late=Late.APPLY),
    Synchrony(quorum=AllBut(count=1)),
    Synchrony(staleness=1, quorum=1, late=Late.APPLY),
    Synchrony(staleness=None, quorum=1, late=Late.APPLY),
    Synchrony(every=2, staleness=None, quorum=2, late=Late.DROP),
)
ENTRIES: tuple[str, ...] = (
    *(entry.name for entry in CATALOG),  # every entry bare, and some with arguments
    "allreduce(ring)",
    "allreduce(route=torus(x=2))",
    "backup_workers(backups=3)",
    "ssp(staleness=0)",
    "ssp(staleness=1)",
    "downpour(every=5)",
    "easgd(rate=0.5, every=2)",
    "local_sgd(every=1)",
    "diloco(every=3, rate=1, momentum=0)",
    "gossip_pull(pulls=2, every=3)",
    "sgp(every=2)",
    "powersgd(rank=1)",
    "dgc(density=0.1, momentum=0.5, masking=False, warmup=4)",
    "qsgd(bits=2)",
    "terngrad(clip=0)",
    "strom(threshold=0.01)",
    "gradient_dropping(keep=0.3)",
    "dryden(keep=0.3)",
    "adacomp(bin=3)",
    "ako(parts=3)",
    "gaia(threshold=0.5)",
)

TABLE: dict[type, tuple[object, ...]] = {
    Topology: TOPOLOGIES,
    Route: ROUTES,
    Codec: CODECS,
    Merge: MERGES,
    Selection: SELECTIONS,
    Trouble: TROUBLES,
}
