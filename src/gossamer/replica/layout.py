"""Where each tensor of a model lies in one flat vector. Knows shapes, never values."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import torch
from torch import Tensor, nn

from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Selection, Tag


class Chosen:
    """The tensors one exchange carries: taken out of a flat vector and put back."""

    def __init__(self, tags: tuple[Tag, ...], selection: Selection) -> None:
        self.places = selection.pick(tags)
        if not self.places:
            raise Refused(f"{selection!r} chooses none of the model's tensors", "where=Everything()")
        self.shapes = tuple(tags[place].shape for place in self.places)
        ends = _ends(tags)
        self._spans = _joined((ends[place], ends[place + 1]) for place in self.places)
        self.count = sum(stop - start for start, stop in self._spans)

    def take(self, flat: Tensor) -> Tensor:
        """The chosen elements in model order: a view where they lie together, a copy where not."""
        parts = [flat[start:stop] for start, stop in self._spans]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def put(self, flat: Tensor, values: Tensor) -> None:
        """Write the chosen elements back."""
        done = 0
        for start, stop in self._spans:
            flat[start:stop].copy_(values[done : done + stop - start])
            done += stop - start

    def views(self, values: Tensor) -> list[Tensor]:
        """A vector of the chosen elements, cut into their shapes."""
        parts = values.split_with_sizes([prod(shape) for shape in self.shapes])
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class Layout:
    """All tensors of a model, one after the other."""

    def __init__(self, model: nn.Module) -> None:
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise Refused("the model has no parameter that trains")
        kinds = {(p.dtype, p.device) for _, p in named}
        if len(kinds) > 1:
            raise Refused(
                f"the model's parameters are of several kinds: {', '.join(sorted(map(str, kinds)))}",
                "one dtype",
            )
        self.tags = tuple(Tag(name, tuple(p.shape), p.element_size()) for name, p in named)
        self.names = tuple(tag.name for tag in self.tags)
        self.length = _ends(self.tags)[-1]
        self.start = torch.cat([p.detach().reshape(-1) for _, p in named])

    def views(self, flat: Tensor) -> list[Tensor]:
        """The flat vector cut into the model's tensors; leading dimensions of `flat` are kept."""
        parts = flat.split_with_sizes([prod(tag.shape) for tag in self.tags], dim=-1)
        return [part.view(*flat.shape[:-1], *tag.shape) for part, tag in zip(parts, self.tags, strict=True)]

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """The same by name, as `torch.func.functional_call` takes it."""
        return dict(zip(self.names, self.views(flat), strict=True))


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
