"""The catalogue's relaxed half: servers that do not wait, replicas that are combined, and gossip."""

from __future__ import annotations

from gossamer.parts.merge import Compensated, Elastic, Outer, Tempered
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.synchrony import Late, OneIn, Synchrony
from gossamer.parts.topology import (
    Cycle,
    Dissemination,
    Exponential,
    Hub,
    RandomPair,
    RandomPush,
    Topology,
)
from gossamer.strategy.entry import Entry
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import Staged, Strategy


def _free(every: int = 1) -> Synchrony:
    """Nobody waits, and a hub counts each contribution as it comes."""
    return Synchrony(every=every, staleness=None, quorum=1, late=Late.APPLY)


def softsync(n: int = 1) -> Strategy:
    """A hub steps after every floor(workers / n) gradients, each divided by its staleness; nobody waits."""
    whole("softsync", "n", n, 1, 2**20)
    synchrony = Synchrony(staleness=None, quorum=OneIn(n), late=Late.APPLY)
    return Strategy((Exchange(topology=Hub(), synchrony=synchrony, merge=Tempered()),))


def hogwild() -> Strategy:
    """Every gradient is applied to the shared parameters the moment it is there; nobody waits and nothing is locked."""
    return Strategy((Exchange(topology=Hub(), synchrony=_free()),))


def dc_asgd(strength: float = 0.04, adaptive: bool = False) -> Strategy:
    """An asynchronous hub that moves each late gradient to where its parameters are now, to first order."""
    return Strategy((Exchange(topology=Hub(), synchrony=_free(), merge=Compensated(strength, adaptive)),))


def sparknet(every: int = 50) -> Strategy:
    """Step alone, and let a master average everybody's parameters every so often."""
    return Strategy((Exchange(Payload.PARAMETERS, topology=Hub(), synchrony=Synchrony(every=every)),))


def post_local_sgd(switch: int = 100, every: int = 8) -> Staged:
    """All-reduce until a step, then step alone and average the parameters every so often."""
    later = Exchange(Payload.PARAMETERS, synchrony=Synchrony(every=every))
    return Staged(Strategy((Exchange(),)), switch, Strategy((later,)))


def bmuf(every: int = 20, rate: float = 1.0, momentum: float = 0.9, nesterov: bool = False) -> Strategy:
    """Blockwise model-update filtering: the mean of a block's local gains is followed with block momentum."""
    merge = Outer(rate, momentum, nesterov)
    return Strategy((Exchange(Payload.DELTAS, synchrony=Synchrony(every=every), merge=merge),))


def crossbow(rate: float = 1.0, inertia: float = 0.9) -> Strategy:
    """Synchronous model averaging: replicas and a centre with momentum pull on each other at every step."""
    merge = Elastic(rate, inertia=inertia)
    return Strategy((Exchange(Payload.PARAMETERS, topology=Hub(), merge=merge, order=Order.BEFORE),))


def async_easgd(rate: float = 0.9, every: int = 10) -> Strategy:
    """Elastic averaging in which each replica and the centre pull on each other in its own time; nobody waits."""
    return _elastic(Elastic(rate), every)


def eamsgd(rate: float = 0.9, every: int = 10, momentum: float = 0.99) -> Strategy:
    """Asynchronous elastic averaging with Nesterov momentum on each replica."""
    return _elastic(Elastic(rate, lookahead=momentum), every)


def _elastic(merge: Elastic, every: int) -> Strategy:
    return Strategy(
        (Exchange(Payload.PARAMETERS, topology=Hub(), synchrony=_free(every), merge=merge, order=Order.BEFORE),)
    )


def slowmo(every: int = 12, rate: float = 1.0, momentum: float = 0.7) -> Strategy:
    """Step alone, average, and follow the averaged move with slow momentum; the local rate must stay constant."""
    merge = Outer(rate, momentum, nesterov=False)
    return Strategy((Exchange(Payload.DELTAS, synchrony=Synchrony(every=every), merge=merge),))


def gossip_push(every: int = 1) -> Strategy:
    """Step, lay oneself into a random member's inbox, then average oneself with one's own inbox; nobody waits."""
    synchrony = Synchrony(every=every, staleness=None)
    return Strategy((Exchange(Payload.PARAMETERS, topology=RandomPush(), synchrony=synchrony),))


def _graph(owner: str, graph: Topology) -> None:
    kind(owner, "graph", graph, Topology)
    if isinstance(graph, Hub):
        raise Refused(f"{owner}: a hub is no graph of neighbours", "graph=Cycle()")


def dpsgd(graph: Topology = Cycle()) -> Strategy:
    """Average the parameters with one's neighbours on a fixed graph, then step with the gradient taken before."""
    _graph("dpsgd", graph)
    return Strategy((Exchange(Payload.PARAMETERS, topology=graph, order=Order.BEFORE),))


def adpsgd(every: int = 1) -> Strategy:
    """Oneself and a random partner both become the mean of the two in one move, then step; nobody waits."""
    synchrony = Synchrony(every=every, staleness=None)
    return Strategy((Exchange(Payload.PARAMETERS, topology=RandomPair(), synchrony=synchrony, order=Order.BEFORE),))


def osgp(delay: int = 1) -> Strategy:
    """Stochastic gradient push every so many steps, whose messages take as many to arrive, hidden by computing."""
    whole("osgp", "delay", delay, 0, 1000)
    synchrony = Synchrony(every=max(1, delay), delay=delay)
    return Strategy((Exchange(Payload.PARAMETERS, topology=Exponential(), synchrony=synchrony),))


def gossipgrad(every: int = 1) -> Strategy:
    """Step, then average with a partner that changes every round, so that all hear of all in log2 n rounds."""
    synchrony = Synchrony(every=every)
    return Strategy((Exchange(Payload.PARAMETERS, topology=Dissemination(), synchrony=synchrony),))


def gossip_pga(every: int = 6, graph: Topology = Cycle()) -> Strategy:
    """Average with one's neighbours at every step, and with everybody every so often."""
    _graph("gossip_pga", graph)
    gossip = Exchange(Payload.PARAMETERS, topology=graph)
    return gossip + Exchange(Payload.PARAMETERS, synchrony=Synchrony(every=every))


RELAXED: tuple[Entry, ...] = (
    Entry("softsync", softsync, "Zhang et al. 2016; P1"),
    Entry("hogwild", hogwild, "Niu et al. 2011; P1, P2"),
    Entry("dc_asgd", dc_asgd, "Zheng et al. 2017; P1"),
    Entry("sparknet", sparknet, "Moritz et al. 2015; P2"),
    Entry("post_local_sgd", post_local_sgd, "Lin et al. 2018 (post-local SGD)"),
    Entry("bmuf", bmuf, "Chen, Huo 2016; P2"),
    Entry("crossbow", crossbow, "Koliousis et al. 2019; P2"),
    Entry("async_easgd", async_easgd, "Zhang, Choromanska, LeCun 2015; P1, P3"),
    Entry("eamsgd", eamsgd, "Zhang, Choromanska, LeCun 2015; P1"),
    Entry("slowmo", slowmo, "Wang et al. 2019 (SlowMo)"),
    Entry("gossip_push", gossip_push, "Jin et al. 2016 (P3)"),
    Entry("dpsgd", dpsgd, "Lian et al. 2017; P2"),
    Entry("adpsgd", adpsgd, "Lian et al. 2018; P2"),
    Entry("osgp", osgp, "Assran et al. 2019"),
    Entry("gossipgrad", gossipgrad, "Daily et al. 2018; P2"),
    Entry("gossip_pga", gossip_pga, "Chen et al. 2021 (Gossip-PGA)"),
)
