"""Counter-based randomness: a draw is a pure function of its key, so every player draws the same. Keeps no state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_MASK = 2**64 - 1


def draw(*key: int) -> int:
    """A 64-bit word decided by the key alone (splitmix64 over its numbers)."""
    word = 0x9E3779B97F4A7C15
    for number in key:
        word = (word ^ (number & _MASK)) * 0xBF58476D1CE4E5B9 & _MASK
        word = (word ^ (word >> 30)) + 0x9E3779B97F4A7C15 & _MASK
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _MASK
        word ^= word >> 31
    return word


def below(count: int, *key: int) -> int:
    """A whole number in [0, count), uniform to within 2**-40 for every count in use."""
    return draw(*key) % count


def uniform(*key: int) -> float:
    """A float in [0, 1)."""
    return (draw(*key) >> 11) * 2.0**-53


def normal(*key: int) -> float:
    """A standard normal number (Box-Muller on two draws of the key)."""
    from math import cos, log, pi, sqrt

    return sqrt(-2.0 * log(1.0 - uniform(*key, 1))) * cos(2.0 * pi * uniform(*key, 2))


@dataclass(frozen=True)
class Chance:
    """The draws one member may make in one exchange: keyed (seed, slot, step, member)."""

    seed: int
    slot: int
    step: int
    member: int

    def uniform_like(self, like: Tensor) -> Tensor:
        """Independent uniforms in [0, 1), one for each element of `like`; different on every member and step."""
        return _fill(like, "random", self.seed, self.slot, self.step, self.member)

    def shared_normal(self, like: Tensor, tag: int) -> Tensor:
        """Standard normals that all members of the slot draw alike, at any step: a common starting point."""
        return _fill(like, "standard_normal", self.seed, self.slot, tag)


def _fill(like: Tensor, law: str, *key: int) -> Tensor:
    import numpy
    import torch

    stream = numpy.random.Generator(numpy.random.Philox(key=draw(*key)))
    numbers = getattr(stream, law)(like.numel(), dtype=numpy.float32)
    return torch.from_numpy(numbers).to(device=like.device, dtype=like.dtype).view(like.shape)
