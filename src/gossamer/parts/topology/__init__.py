"""Who mixes with whom, and with which weights."""

from gossamer.parts.topology.central import Complete, Hub
from gossamer.parts.topology.mixing import AtHub, Everyone, Mixing, Neighbours, Topology, Weighing, hears
from gossamer.parts.topology.peers import Cycle, Exponential, Graph, RandomPeer

__all__ = [
    "AtHub", "Complete", "Cycle", "Everyone", "Exponential", "Graph", "Hub", "Mixing", "Neighbours",
    "RandomPeer", "Topology", "Weighing", "hears",
]  # fmt: skip
