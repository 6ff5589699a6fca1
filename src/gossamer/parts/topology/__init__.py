"""Who mixes with whom, and with which weights."""

from gossamer.parts.topology.central import Complete, Hub
from gossamer.parts.topology.drawn import RandomPair, RandomPeer, RandomPush
from gossamer.parts.topology.hosts import Follow, Inside, Masters
from gossamer.parts.topology.mixing import (
    AtHub,
    Common,
    Everyone,
    Into,
    Mixing,
    Neighbours,
    Pair,
    Topology,
    Weighing,
    hears,
)
from gossamer.parts.topology.peers import Cycle, Dissemination, Exponential, Graph, Grid

__all__ = [
    "AtHub", "Common", "Complete", "Cycle", "Dissemination", "Everyone", "Exponential", "Follow", "Graph", "Grid",
    "Hub", "Inside", "Into", "Masters", "Mixing", "Neighbours", "Pair", "RandomPair", "RandomPeer", "RandomPush",
    "Topology", "Weighing", "hears",
]  # fmt: skip
