"""The catalogue: each named system of the literature is one expression, one sentence and the paper it comes from."""

from __future__ import annotations

from gossamer.parts.codec import DGC, Corrected, Dense, ErrorFeedback, PowerSGD
from gossamer.parts.merge import Elastic, Outer, Share
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import whole
from gossamer.parts.route import Auto, Route
from gossamer.parts.selection import Everything, Matrices, Selection
from gossamer.parts.synchrony import AllBut, Late, Synchrony
from gossamer.parts.topology import Exponential, Hub, RandomPeer
from gossamer.strategy.compressed import COMPRESSED, written
from gossamer.strategy.entry import OURS, Entry
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.hosted import HOSTED
from gossamer.strategy.reduced import REDUCED
from gossamer.strategy.relaxed import RELAXED
from gossamer.strategy.strategy import AnyStrategy, Strategy

__all__ = ["CATALOG", "OURS", "Entry"]


def allreduce(route: Route = Auto()) -> Strategy:
    """Average all gradients, then step: every replica stays the same."""
    return Strategy((Exchange(route=route),))


def parameter_server() -> Strategy:
    """A hub averages all gradients, steps, and hands the new parameters back."""
    return Strategy((Exchange(topology=Hub()),))


def backup_workers(backups: int = 1) -> Strategy:
    """A hub steps as soon as all but a few gradients are in, and drops the late ones."""
    return Strategy((Exchange(topology=Hub(), synchrony=Synchrony(quorum=AllBut(backups))),))


def ssp(staleness: int = 3) -> Strategy:
    """A hub applies each gradient as it comes; nobody runs more than `staleness` steps ahead of the slowest."""
    whole("ssp", "staleness", staleness, 0, 10**6)
    if staleness == 0:  # no slack is left, so a round closes when all are in: the synchronous server itself
        return parameter_server()
    synchrony = Synchrony(staleness=staleness, quorum=1, late=Late.APPLY)
    return Strategy((Exchange(topology=Hub(), synchrony=synchrony, merge=Share()),))


def downpour(every: int = 1) -> Strategy:
    """Step locally, and every so often add what was gained to a hub and fetch its parameters; nobody waits."""
    synchrony = Synchrony(every=every, staleness=None, quorum=1, late=Late.APPLY)
    return Strategy((Exchange(Payload.DELTAS, topology=Hub(), synchrony=synchrony),))


def easgd(rate: float = 0.9, every: int = 10) -> Strategy:
    """Replicas and a centre pull on each other with an elastic force of rate/n, then step."""
    return Strategy(
        (
            Exchange(
                Payload.PARAMETERS,
                topology=Hub(),
                synchrony=Synchrony(every=every),
                merge=Elastic(rate),
                order=Order.BEFORE,
            ),
        )
    )


def local_sgd(every: int = 8) -> Strategy:
    """Step alone, and average the parameters every so often."""
    return Strategy((Exchange(Payload.PARAMETERS, synchrony=Synchrony(every=every)),))


def diloco(every: int = 50, rate: float = 0.7, momentum: float = 0.9) -> Strategy:
    """Step alone for long, then step an outer Nesterov optimizer along the mean of what was gained."""
    return Strategy((Exchange(Payload.DELTAS, synchrony=Synchrony(every=every), merge=Outer(rate, momentum)),))


def gossip_pull(pulls: int = 1, every: int = 1) -> Strategy:
    """Step, then average with a random partner as it is right now; the partner does not notice."""
    synchrony = Synchrony(every=every, staleness=None)
    return Strategy((Exchange(Payload.PARAMETERS, topology=RandomPeer(pulls), synchrony=synchrony),))


def sgp(every: int = 1) -> Strategy:
    """Stochastic gradient push: send half of oneself and of one's mass on along an exponential graph."""
    return Strategy((Exchange(Payload.PARAMETERS, topology=Exponential(), synchrony=Synchrony(every=every)),))


def powersgd(rank: int = 2) -> Strategy:
    """All-reduce of two thin factors of each matrix's gradient, with error feedback; vectors go as they are."""
    return Strategy((Exchange(codec=ErrorFeedback(PowerSGD(rank))),))


def dgc(
    density: float = 0.001,
    momentum: float = 0.9,
    masking: bool = True,
    warmup: int = 0,
    nesterov: bool = False,
    clip: float = 0.0,
    where: Selection = Matrices(),
) -> Strategy:
    """All-reduce of the largest thousandth of the gradient, momentum kept where it is local."""
    if clip:  # the length that is cut is that of the whole gradient
        where = Everything()
    rest = Corrected(Dense(), momentum, nesterov, clip=clip)  # goes as it is, but for the momentum
    return written(DGC(density, momentum, nesterov, masking, warmup, clip), where, rest)


CATALOG: tuple[Entry, ...] = (
    Entry("allreduce", allreduce, "Chahal et al. 2018 (P1); torus: Mikami et al. 2018 (P5)"),
    Entry("parameter_server", parameter_server, "Li et al. 2014; P1, P2, P4"),
    Entry("backup_workers", backup_workers, "Chen et al. 2016; P1"),
    Entry("ssp", ssp, "Ho et al. 2013; P2"),
    Entry("downpour", downpour, "Dean et al. 2012 (DistBelief); P1, P2"),
    Entry("easgd", easgd, "Zhang, Choromanska, LeCun 2015; P1, P3"),
    Entry("local_sgd", local_sgd, "Moritz et al. 2015 (SparkNet); Stich 2018; P2"),
    Entry("diloco", diloco, "Douillard et al. 2023"),
    Entry("gossip_pull", gossip_pull, "Jin et al. 2016 (P3)"),
    Entry("sgp", sgp, "Assran et al. 2019"),
    Entry("powersgd", powersgd, "Vogels et al. 2019"),
    Entry("dgc", dgc, "Lin et al. 2018; P1, algorithm 7"),
    *REDUCED,
    *RELAXED,
    *HOSTED,
    *COMPRESSED,
)


def named(strategy: AnyStrategy) -> str:
    """What a strategy is called: the name of the entry it is, bare, or else its expression."""
    return next((entry.name for entry in CATALOG if entry.make() == strategy), repr(strategy))
