"""Memory that members on one host share, the words they wait by, and the sums over it. Knows no strategy."""

from gossamer.engine.shared import kernel
from gossamer.engine.shared.lane import Into, Lane
from gossamer.engine.shared.memory import NoRoom, Unshared

__all__ = ["Into", "Lane", "NoRoom", "Unshared", "kernel"]
