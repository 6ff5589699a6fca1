"""Which tensors an exchange carries, by name, rank, size or share. Knows shapes, never values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod

from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.value import Value


@dataclass(frozen=True)
class Tag:
    """What a selection may know of a tensor."""

    name: str
    shape: tuple[int, ...]
    itemsize: int = 4

    @property
    def bytes(self) -> int:
        """Bytes of the tensor as it lies in memory."""
        return prod(self.shape) * self.itemsize


class Selection(ABC, Value):
    """Chooses among tensors by what is written on their tags."""

    @abstractmethod
    def takes(self, place: int, tag: Tag) -> bool:
        """Whether the tensor at `place` in the model belongs to the exchange."""

    @property
    def by_shape(self) -> bool:
        """Whether it looks at nothing but shapes, so that any part of a model can be asked."""
        return True

    def pick(self, tags: Sequence[Tag]) -> tuple[int, ...]:
        """The places of the chosen tensors, in model order."""
        return tuple(place for place, tag in enumerate(tags) if self.takes(place, tag))


@dataclass(frozen=True, repr=False)
class Everything(Selection):
    """Every tensor of the model."""

    def takes(self, place: int, tag: Tag) -> bool:
        return True


@dataclass(frozen=True, repr=False)
class Named(Selection):
    """Tensors whose name matches a glob, as `Named("*.weight")`."""

    glob: str

    def __post_init__(self) -> None:
        kind("Named", "glob", self.glob, str)
        if not self.glob:
            raise Refused("Named: an empty glob matches nothing", 'Named("*")')

    def takes(self, place: int, tag: Tag) -> bool:
        return fnmatchcase(tag.name, self.glob)

    @property
    def by_shape(self) -> bool:
        return False


@dataclass(frozen=True, repr=False)
class Dims(Selection):
    """Tensors with `least` to `most` dimensions: matrices are Dims(least=2), biases Dims(most=1)."""

    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        _bounds("Dims", self.least, self.most)

    def takes(self, place: int, tag: Tag) -> bool:
        return self.least <= len(tag.shape) and (self.most is None or len(tag.shape) <= self.most)


@dataclass(frozen=True, repr=False)
class Bytes(Selection):
    """Tensors of `least` to `most` bytes."""

    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        _bounds("Bytes", self.least, self.most)

    def takes(self, place: int, tag: Tag) -> bool:
        return self.least <= tag.bytes and (self.most is None or tag.bytes <= self.most)


@dataclass(frozen=True, repr=False)
class Matrices(Selection):
    """Tensors of two dimensions or more with `least` elements or more: what is worth a codec, biases and norms not."""

    least: int = 1024

    def __post_init__(self) -> None:
        whole("Matrices", "least", self.least, 0)

    def takes(self, place: int, tag: Tag) -> bool:
        return len(tag.shape) > 1 and prod(tag.shape) >= self.least


@dataclass(frozen=True, repr=False)
class Part(Selection):
    """Every tensor whose place in the model leaves `index` when divided by `of`."""

    index: int
    of: int

    def __post_init__(self) -> None:
        whole("Part", "of", self.of, 1, 10**6)
        whole("Part", "index", self.index, 0, self.of - 1)

    def takes(self, place: int, tag: Tag) -> bool:
        return place % self.of == self.index

    @property
    def by_shape(self) -> bool:
        return False


@dataclass(frozen=True, repr=False)
class Except(Selection):
    """Every tensor that `but` does not take."""

    but: Selection

    def __post_init__(self) -> None:
        kind("Except", "but", self.but, Selection)

    def takes(self, place: int, tag: Tag) -> bool:
        return not self.but.takes(place, tag)

    @property
    def by_shape(self) -> bool:
        return self.but.by_shape


def _bounds(owner: str, least: int, most: int | None) -> None:
    whole(owner, "least", least, 0)
    if most is not None:
        whole(owner, "most", most, least)
