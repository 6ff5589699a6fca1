"""The user's DataLoader shared out: the same loader, reading one member's share of every global batch.

Knows nothing of models and opens no network; how an order is told to all members is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from gossamer.engine.loop.order import Told, known, order_of, sampler_of
from gossamer.engine.loop.shared import SharedOut
from gossamer.parts.refusal import Refused, whole


def shared_out(loader: DataLoader[Any], member: int, size: int, seed: int, told: Told | None = None) -> DataLoader[Any]:
    """The loader that gives `member` of `size` its share of each of the loader's batches, which are global ones.

    Over all members each sample comes once per epoch, and every member sees the same number of batches. A loader that
    makes no batches of indices (see `passed`) comes back as it is. Where the order is a sampler's own, every `iter()`
    calls `told`: with the order on member 0, with None on the others; all get member 0's back.
    """
    whole("shared_out", "size", size)
    whole("shared_out", "member", member, 0, size - 1)
    if passed(loader):
        return loader
    _refuse(loader)
    return SharedOut(loader, member, size, seed, order_of(loader, member, size, seed, told))


def passed(loader: DataLoader[Any]) -> bool:
    """Whether a loader cannot be shared out by index, so every member reads all of it."""
    return isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None


def counts(loader: DataLoader[Any]) -> tuple[int, int]:
    """Samples of mine and samples in all in the batch last handed to the loop; (0, 0) where that is not known."""
    return loader.handed if isinstance(loader, SharedOut) else (0, 0)


def computed(loaders: Iterable[DataLoader[Any]]) -> tuple[int, int]:
    """The counts of the batch a forward computes: of the loader that handed out last, while a loop over it goes on."""
    known = [loader for loader in loaders if isinstance(loader, SharedOut) and loader.live]
    return max(known, key=lambda loader: loader.moment).computed() if known else (0, 0)


def _refuse(loader: DataLoader[Any]) -> None:
    """Say no to loaders that sharing out would silently change."""
    name = type(loader).__name__
    if isinstance(loader, SharedOut):
        raise Refused("this DataLoader is shared out already", "handing it over once")
    for method in ("__iter__", "__len__", "_get_iterator"):
        if getattr(type(loader), method) is not getattr(DataLoader, method):
            raise Refused(f"{name} has a {method} of its own, which sharing out would lose", "a plain DataLoader")
    if loader.num_workers > 0 and not loader.in_order:
        raise Refused("in_order=False lets members read different batches in one step", "in_order=True")


def said(loader: DataLoader[Any], size: int) -> str:
    """One line for the screen: how a loader's batches are, or would be, shared out over `size` members."""
    if isinstance(loader.dataset, IterableDataset):
        return f"{type(loader.dataset).__name__} is an IterableDataset: every member reads it all; shard it yourself"
    if loader.batch_sampler is None:
        return "batch_size=None: every member reads all its sampler gives; set a batch_size to have it shared out"
    batches = loader.shares.batches if isinstance(loader, SharedOut) else loader.batch_sampler
    sampler = sampler_of(batches)
    order = "" if known(batches) or size == 1 else f", in the order of member 0's {type(sampler).__name__}"
    batch = getattr(batches, "batch_size", None)
    return f"batch {_split(batch, size)}{order}" if isinstance(batch, int) else f"batches over {size} members{order}"


def _split(batch: int, size: int) -> str:
    """A global batch as what its members read: 256 = 4 x 64, 10 = 2 x 3 + 2 x 2."""
    least, more = divmod(batch, size)
    parts = [(more, least + 1), (size - more, least)]
    sum_ = " + ".join(f"{members} x {each}" for members, each in parts if members and each)
    idle = f"; {size - more} of {size} members have no sample, and weight 0" * (least == 0)
    return f"{batch}" if size == 1 else f"{batch} = {sum_}{idle}"
