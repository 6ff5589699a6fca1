"""What is exchanged, and on which side of the local update. Knows nothing of how it travels."""

from __future__ import annotations

from gossamer.parts.value import Word


class Payload(Word):
    """GRADIENTS of this step, PARAMETERS as they are, or DELTAS since the members last agreed."""

    GRADIENTS = "gradients"
    PARAMETERS = "parameters"
    DELTAS = "deltas"


class Order(Word):
    """AFTER: step, then mix (gossip). BEFORE: mix, then step with the gradient of the unmixed point (EASGD)."""

    AFTER = "after"
    BEFORE = "before"
