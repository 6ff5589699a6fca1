"""The imagined run: real numbers in virtual time."""

from gossamer.sim.cluster import Cluster
from gossamer.sim.plan import Outcome, Plan
from gossamer.sim.rehearse import Rehearsal, rehearse

__all__ = ["Cluster", "Outcome", "Plan", "Rehearsal", "rehearse"]
