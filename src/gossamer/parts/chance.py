"""Counter-based randomness: a draw is a pure function of its key, so every player draws the same. Keeps no state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.parts import kernel

if TYPE_CHECKING:
    from numpy.random import Generator
    from torch import Tensor

_MASK = 2**64 - 1
Key = tuple[int, int]  # two words of 32 bits
Key3 = tuple[int, int, int]  # seed, slot, round


def draw(*key: int) -> int:
    """A 64-bit word decided by the key alone (splitmix64 over its numbers)."""
    word = 0x9E3779B97F4A7C15
    for number in key:
        word = (word ^ (number & _MASK)) * 0xBF58476D1CE4E5B9 & _MASK
        word = (word ^ (word >> 30)) + 0x9E3779B97F4A7C15 & _MASK
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _MASK
        word ^= word >> 31
    return word


def all_below(count: int, size: int, begins: Key3, *ends: int) -> list[int]:
    """`below(count, *begins, member, *ends)` of every member of so many, at once."""
    import numpy

    word = numpy.full(size, draw(*begins), numpy.uint64)
    for number in (numpy.arange(size, dtype=numpy.uint64), *(numpy.array(end & _MASK, numpy.uint64) for end in ends)):
        word = (word ^ number) * numpy.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> numpy.uint64(30))) + numpy.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        word ^= word >> numpy.uint64(31)
    found: list[int] = (word % numpy.uint64(count)).tolist()
    return found


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
        key = self.uniform_key
        return kernel.uniform(like, key) if kernel.fits(like) else _uniform(like, key)

    @property
    def uniform_key(self) -> Key:
        """The two words that decide the uniforms: a loop that has no room for them all draws each as it needs it."""
        word = draw(self.seed, self.slot, self.step, self.member)
        return word & 0xFFFFFFFF, word >> 32

    def shared_normal(self, like: Tensor, tag: int) -> Tensor:
        """Standard normals that all members of the slot draw alike, at any step: a common starting point."""
        import numpy
        import torch

        numbers = _stream(self.seed, self.slot, tag).standard_normal(like.numel(), dtype=numpy.float32)
        return torch.from_numpy(numbers).to(device=like.device, dtype=like.dtype).view(like.shape)

    def shared_places(self, like: Tensor, count: int) -> Tensor:
        """So many different places of `like`, in rising order, that all members of the slot draw alike at this step."""
        import numpy
        import torch

        drawn = _stream(self.seed, self.slot, self.step, -1).choice(like.numel(), count, replace=False, shuffle=False)
        return torch.from_numpy(numpy.sort(drawn)).to(like.device)


def _uniform(like: Tensor, key: Key) -> Tensor:
    """What `codec_uniform` of kernel.c draws, on any device: place k is mixed with one word, then with the other."""
    import torch

    one, other = (_signed(word) for word in key)
    words = torch.arange(like.numel(), dtype=torch.int32, device=like.device)
    words = _mixed(_mixed(words.mul_(_signed(0x9E3779B9)).add_(one)).add_(other))
    return (words >> 8 & 0xFFFFFF).to(torch.float32).mul_(2.0**-24).to(like.dtype).view(like.shape)


def _mixed(words: Tensor) -> Tensor:
    """Each word's bits spread over all of it; products wrap around."""
    words ^= words >> 16 & 0xFFFF
    words *= 0x7FEB352D
    words ^= words >> 15 & 0x1FFFF
    words *= _signed(0x846CA68B)
    words ^= words >> 16 & 0xFFFF
    return words


def _signed(word: int) -> int:
    """The 32 bits of a word read as a signed number."""
    return word - (word >> 31 << 32)


def _stream(*key: int) -> Generator:
    import numpy

    return numpy.random.Generator(numpy.random.Philox(key=draw(*key)))
