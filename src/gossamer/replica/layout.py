"""Where each tensor of a model lies in one flat vector. Knows shapes, never values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn

from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Selection, Tag
from gossamer.strategy.buckets import parted


class Chosen:
    """The tensors one exchange carries: taken out of a flat vector and put back."""

    def __init__(self, tags: tuple[Tag, ...], selection: Selection | tuple[int, ...]) -> None:
        self.places = selection.pick(tags) if isinstance(selection, Selection) else selection
        self._tags, ends = tags, _ends(tags)
        self.shapes = tuple(tags[place].shape for place in self.places)
        self._spans = _joined((ends[place], ends[place + 1]) for place in self.places)
        self.count = sum(stop - start for start, stop in self._spans)
        self._gathered: Tensor | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        """Where the chosen elements lie, if they lie together."""
        return self._spans[0] if len(self._spans) == 1 else None

    @property
    def bounds(self) -> tuple[int, int]:
        """All of those chosen, as a stretch of them would say it."""
        return 0, self.count

    def parted(self, later: int) -> list[Chosen]:
        """A small first bucket that leaves early, then larger ones."""
        return [self.part(places) for places in parted(self._tags, self.places, later)]

    def part(self, places: tuple[int, ...]) -> Chosen:
        """Some of the same tensors."""
        return Chosen(self._tags, places)

    def take(self, flat: Tensor) -> Tensor:
        """The chosen elements in model order: a view where they lie together, a copy where not."""
        parts = [flat[start:stop] for start, stop in self._spans]
        return parts[0] if len(parts) == 1 else torch.cat([flat[:0], *parts])

    def gather(self, flat: Tensor) -> Tensor:
        """The same, a copy lying where the last one lay, which is gone then."""
        if len(self._spans) == 1:
            return self.take(flat)
        if self._gathered is None or self._gathered.dtype != flat.dtype or self._gathered.device != flat.device:
            self._gathered = flat.new_empty(self.count)
        return torch.cat([flat[:0], *(flat[start:stop] for start, stop in self._spans)], out=self._gathered)

    def put(self, flat: Tensor, values: Tensor) -> None:
        """Write the chosen elements back."""
        done = 0
        for start, stop in self._spans:
            there, part = flat[start:stop], values[done : done + stop - start]
            if there.data_ptr() != part.data_ptr():  # a mix made in place is there already
                there.copy_(part)
            done += stop - start

    def views(self, values: Tensor) -> list[Tensor]:
        """A vector of the chosen elements, cut into their shapes."""
        parts = values.split_with_sizes([prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class Layout:
    """All tensors of a model that train, one after the other; `as_they_lie`: each in the order it has in memory."""

    def __init__(self, model: nn.Module | Sequence[tuple[str, Tensor]], *, as_they_lie: bool = False) -> None:
        named = [(n, p) for n, p in _named(model) if p.requires_grad]
        if not named:
            raise Refused("the model has no parameter that trains")
        kinds = {(p.dtype, p.device) for _, p in named}
        if len(kinds) > 1:
            raise Refused(
                f"the model's parameters are of several kinds: {', '.join(sorted(map(str, kinds)))}",
                "one dtype",
            )
        self.tags = tags_of(named)
        self.names = tuple(tag.name for tag in self.tags)
        self.length = _ends(self.tags)[-1]
        kept = [as_they_lie and not p.is_contiguous() and dense(p) for _, p in named]
        self._strides = [p.stride() if keep else None for (_, p), keep in zip(named, kept, strict=True)]
        self.start = torch.cat(
            [flat_of(p.detach()) if keep else p.detach().reshape(-1) for (_, p), keep in zip(named, kept, strict=True)]
        )

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each tensor lies."""
        return list(pairwise(_ends(self.tags)))

    def views(self, flat: Tensor) -> list[Tensor]:
        """The flat vector cut into the model's tensors; leading dimensions of `flat` are kept."""
        parts = flat.split_with_sizes([prod(tag.shape) for tag in self.tags], dim=-1)
        return [
            part.view((*flat.shape[:-1], *tag.shape)) if stride is None else part.as_strided(tag.shape, stride)
            for part, tag, stride in zip(parts, self.tags, self._strides, strict=True)
        ]

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """The same by name, as `torch.func.functional_call` takes it."""
        return dict(zip(self.names, self.views(flat), strict=True))


def tags_of(model: nn.Module | Sequence[tuple[str, Tensor]]) -> tuple[Tag, ...]:
    """What is written on the tensors of a model that train, in model order."""
    return tuple(Tag(name, tuple(p.shape), p.element_size()) for name, p in _named(model) if p.requires_grad)


def flat_of(tensor: Tensor) -> Tensor:
    """A tensor that lies densely in memory as one vector, in the order in which it lies."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _named(model: nn.Module | Sequence[tuple[str, Tensor]]) -> Iterable[tuple[str, Tensor]]:
    return model.named_parameters() if isinstance(model, nn.Module) else model


def dense(tensor: Tensor) -> bool:
    """Whether a tensor fills its memory without gaps or overlaps, in whatever order (channels last)."""
    sides = sorted((stride, side) for stride, side in zip(tensor.stride(), tensor.shape, strict=True) if side > 1)
    filled = 1
    for stride, side in sides:
        if stride != filled:
            return False
        filled *= side
    return True


def _ends(tags: tuple[Tag, ...]) -> list[int]:
    ends = [0]
    for tag in tags:
        ends.append(ends[-1] + prod(tag.shape))
    return ends


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, stop in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined
