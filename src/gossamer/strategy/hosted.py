"""Systems that mix in one way inside a host and in another between hosts."""

from __future__ import annotations

from dataclasses import replace

from gossamer.parts.codec import Codec, ErrorFeedback, Half, OneBit
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.selection import Matrices, Selection
from gossamer.parts.synchrony import Synchrony
from gossamer.parts.topology import Complete, Exponential, Follow, Hub, Inside, Masters, Topology
from gossamer.strategy.compressed import written
from gossamer.strategy.entry import OURS, Entry
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import Strategy


def gossip_hosts(per_host: int = 2, graph: Topology = Exponential(), every: int = 1) -> Strategy:
    """Average gradients inside each host and step; then the hosts' masters gossip, and every host follows its own."""
    whole("gossip_hosts", "per_host", per_host, 1, 2**20)
    kind("gossip_hosts", "graph", graph, Topology)
    if isinstance(graph, Hub):
        raise Refused("gossip_hosts: a hub is no graph of neighbours", "graph=Exponential()")
    met = Synchrony(every=every, staleness=0 if graph.patient else None)
    if per_host == 1:  # a host is its own master, and has nobody to average or to follow with
        return Strategy((Exchange(Payload.PARAMETERS, topology=graph, synchrony=met),))
    between = Exchange(Payload.PARAMETERS, topology=Masters(per_host, graph), synchrony=met)
    after = Exchange(Payload.PARAMETERS, topology=Follow(per_host), synchrony=Synchrony(every=every))
    return Exchange(topology=Inside(per_host)) + between + after


def two_levels(
    per_host: int = 2,
    inside: Codec = Half(),
    across: Codec = ErrorFeedback(codec=OneBit()),
    where: Selection = Matrices(),
) -> Strategy:
    """Average gradients inside each host, hardly compressed; the hosts' masters average theirs, strongly compressed."""
    whole("two_levels", "per_host", per_host, 1, 2**20)
    kind("two_levels", "inside", inside, Codec)
    kind("two_levels", "across", across, Codec)
    masters = written(across, where)
    if per_host == 1:  # a host is its own master
        return masters
    between = [replace(ex, topology=Masters(per_host, Complete())) for ex in masters.exchanges]
    return Strategy((Exchange(topology=Inside(per_host), codec=inside), *between, Exchange(topology=Follow(per_host))))


HOSTED: tuple[Entry, ...] = (
    Entry("two_levels", two_levels, OURS),
    Entry("gossip_hosts", gossip_hosts, "Assran et al. 2019 (several workers a host); Ying et al. 2021 (BlueFog)"),
)
