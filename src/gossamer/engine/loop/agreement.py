"""Whether all workers were given the same: versions, strategies, models. What differs is named."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version

import msgspec
import torch
from torch import Tensor

from gossamer.engine.loop.place import Place
from gossamer.engine.told import read
from gossamer.parts.refusal import Refused

PATIENCE = timedelta(minutes=10)  # loading data may take one worker much longer than another


class Facts(msgspec.Struct, frozen=True):
    """What one worker says of itself: nothing that could be executed."""

    gossamer: str
    torch: str
    strategy: str
    seed: int
    fabric: str
    truth: int
    things: list[str]
    tensors: list[list[tuple[str, str]]]  # by optimizer, then by model what is in none: name, and what it is


def facts(
    strategy: str,
    seed: int,
    fabric: str,
    truth: int,
    things: Sequence[object],
    named: Sequence[Sequence[tuple[str, Tensor]]],
) -> Facts:
    """What this worker was given."""
    return Facts(
        version("gossamer"),
        str(torch.__version__),
        strategy,
        seed,
        fabric,
        truth,
        [type(thing).__name__ for thing in things],
        [[(name, sides(tensor)) for name, tensor in each] for each in named],
    )


def agree(place: Place, mine: Facts) -> None:
    """Compare with every other worker; all refuse alike, naming rank and what differs."""
    if len(place.everybody) == 1:
        return
    place.store.set(f"facts/{place.member}", msgspec.json.encode(mine).decode())
    place.store.wait([f"facts/{rank}" for rank in place.everybody], PATIENCE)
    said = [place.store.get(f"facts/{rank}") for rank in place.everybody]
    told = [read(each, Facts, f"prepare: {_who(place, rank)}") for rank, each in enumerate(said)]
    for rank, theirs in enumerate(told[1:], start=1):
        difference = differs(told[0], theirs)
        if difference is not None:
            reason = f"prepare: {_who(place, rank)} differs from rank 0: {difference}"
            raise Refused(reason, "the same script on every rank")


def _who(place: Place, rank: int) -> str:
    host = next((number for number, members in enumerate(place.hosts) if rank in members), None)
    host = place.servers[rank - place.size] if host is None else host
    return place.named(rank) if place.one_host else f"{place.named(rank)} on {place.whereabouts(host)}"


def differs(first: Facts, other: Facts) -> str | None:
    """The first difference in words, or None."""
    for name in ("gossamer", "torch", "strategy", "seed", "fabric", "truth", "things"):
        here, there = getattr(first, name), getattr(other, name)
        if here != there:
            return f"{name} is {there!r}, not {here!r}"
    for here, there in zip(first.tensors, other.tensors, strict=True):
        for one, two in zip(here, there, strict=False):
            if one != two:
                return f"{_kind(two)} is {two[1]}, not {one[1] if one[0] == two[0] else f'{one[0]} {one[1]}'}"
        if len(here) != len(there):
            extra = (here if len(here) > len(there) else there)[min(len(here), len(there))]
            return f"it has {len(there)} tensors, not {len(here)}: {_kind(extra)} is on one of them only"
    return None


def _kind(told: tuple[str, str]) -> str:
    return told[0] if told[0].startswith("buffer ") else f"parameter {told[0]}"


def sides(tensor: Tensor) -> str:
    """What a tensor is, in words."""
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    trains = "" if tensor.requires_grad else ", frozen"
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')}{trains}"
