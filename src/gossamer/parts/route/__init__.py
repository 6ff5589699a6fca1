"""How an all-reduce travels: schedules as data."""

from gossamer.parts.route.backend import Auto, Native, Sharded
from gossamer.parts.route.blocks import BinaryBlocks
from gossamer.parts.route.crossing import crossing
from gossamer.parts.route.direct import Direct
from gossamer.parts.route.halving import Doubling, HalvingDoubling
from gossamer.parts.route.hierarchical import Hierarchical
from gossamer.parts.route.hosts import Hosts, Link, cheapest_on, cost_on
from gossamer.parts.route.hybrid import BySize
from gossamer.parts.route.operations import AllGather, Broadcast, Operation, Reduce, ReduceScatter
from gossamer.parts.route.price import cheapest, cost
from gossamer.parts.route.ring import Ring
from gossamer.parts.route.schedule import Hop, Move, Route, Schedule, counted, leaving, span
from gossamer.parts.route.sharded import ShardedHub
from gossamer.parts.route.torus import Torus
from gossamer.parts.route.tree import Tree

__all__ = [
    "AllGather", "Auto", "BinaryBlocks", "Broadcast", "BySize", "Direct", "Doubling", "HalvingDoubling",
    "Hierarchical", "Hop", "Hosts", "Link", "Move", "Native", "Operation", "Reduce", "ReduceScatter", "Ring", "Route",
    "Schedule", "Sharded", "ShardedHub", "Torus", "Tree", "cheapest", "cheapest_on", "cost", "cost_on", "counted",
    "crossing", "leaving", "span",
]  # fmt: skip
