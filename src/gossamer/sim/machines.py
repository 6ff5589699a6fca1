"""The imagined machines of a rehearsal: how long members compute and how fast their links are."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from gossamer.parts.chance import normal
from gossamer.parts.refusal import Refused, real
from gossamer.parts.trouble import Script
from gossamer.parts.value import Value

_JITTER = 0x71  # keeps these draws apart from every other use of the seed


@dataclass(frozen=True, repr=False)
class Machines(Value):
    """Uniform links of `rate` bytes a second and `latency` seconds; member m computes compute[m mod len] seconds.

    A step's compute time is multiplied by exp(jitter * z), z standard normal, anew at every step of every member.
    """

    compute: tuple[float, ...] = (0.01,)
    rate: float = 125e6
    latency: float = 1e-4
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.compute, tuple) or not self.compute:
            raise Refused("Machines: compute must be one or more seconds a step", "compute=(0.01,)")
        for seconds in self.compute:
            real("Machines", "compute", seconds, 0.0, 1e6)
        real("Machines", "rate", self.rate, 1.0, 1e15)
        real("Machines", "latency", self.latency, 0.0, 3600.0)
        real("Machines", "jitter", self.jitter, 0.0, 5.0)

    def seconds(self, member: int, step: int, seed: int, trouble: Script) -> float:
        """Compute seconds of one step of one member."""
        base = self.compute[member % len(self.compute)] * trouble.slowdown(member, step)
        return base * exp(self.jitter * normal(seed, _JITTER, step, member)) if self.jitter else base
