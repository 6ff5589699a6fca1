"""What optimizers remember, by the names of the parameters: put together from the members' shares, and cut again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gossamer.engine.loop.shard import Span
from gossamer.engine.loop.strand import Strand
from gossamer.replica.joined import joined
from gossamer.replica.states import States, put, taken

Named = dict[str, dict[str, Any]]  # what is remembered, by parameter


def mine(strand: Strand, optimizer: torch.optim.Optimizer) -> States:
    """What this member remembers: of every tensor of a strand, or of its pieces of a shard."""
    return taken(strand.shard.optimizer, strand.shard.pieces) if strand.shard else taken(optimizer, strand.tensors)


def remember(strand: Strand, optimizer: torch.optim.Optimizer, states: States) -> None:
    """The inverse of `mine`."""
    if strand.shard:
        put(strand.shard.optimizer, strand.shard.pieces, states)
    else:
        put(optimizer, strand.tensors, states)


def gathered(strand: Strand, members: Sequence[Mapping[str, Any]]) -> Named:
    """One memory of all members' trees of a strand: shares put together, copies averaged, hubs' own where they step."""
    if members[0]["spans"] is not None:
        named = _joined(strand, [(each["spans"], each["steps"]) for each in members])
    else:
        named = dict(
            zip(strand.layout.names, map(_mean, zip(*(m["steps"] for m in members), strict=True)), strict=True)
        )
    for slot, desk in enumerate(strand.replica.desks):
        if states := hub_states(members, slot):
            steps = joined(states, desk.chosen)["steps"]
            for place, state in zip(desk.chosen.places, steps or [], strict=False):
                named[strand.layout.names[place]] = state
    return {name: state for name, state in named.items() if state}


def hub_states(members: Sequence[Mapping[str, Any]], slot: int) -> list[dict[str, Any]]:
    """What all members' trees of a strand keep of a hub: the states of its shards."""
    return [state for member in members for state in member["hubs"].get(slot, [])]


def portion(strand: Strand, named: Named) -> States:
    """What this member has to remember of it all: everything, or its pieces of a shard."""
    states = [named.get(name, {}) for name in strand.layout.names]
    if strand.shard is None:
        return states
    if not strand.borrowed.elementwise:
        return [states[strand.layout.spans.index(span)] for span in strand.shard.spans]
    flat = {name: _flat(strand, name, states) for name in _vectors(states, strand.layout.tags)}
    return [
        {name: flat[name][start:stop] if name in flat else value for name, value in _under(strand, start, states)}
        for start, stop in strand.shard.spans
    ]


def _joined(strand: Strand, shares: Sequence[tuple[list[Span], States]]) -> Named:
    """Pieces laid where they belong, then cut at the tensors."""
    edges = strand.layout.spans
    pieces = [(tuple(span), state) for spans, states in shares for span, state in zip(spans, states, strict=True)]
    if not strand.borrowed.elementwise:
        return {strand.layout.names[edges.index(span)]: state for span, state in pieces}  # type: ignore[arg-type]
    flats: dict[str, Tensor] = {}
    rest: list[dict[str, Any]] = [{} for _ in edges]
    for (start, stop), state in pieces:
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == (stop - start,):
                whole = flats.setdefault(name, value.new_zeros(strand.layout.length))
                whole[start:stop] = value
            else:
                for place, (left, right) in enumerate(edges):
                    if left < stop and start < right:
                        rest[place][name] = value
    views = {name: strand.layout.views(whole) for name, whole in flats.items()}
    return {n: {**rest[p], **{key: view[p] for key, view in views.items()}} for p, n in enumerate(strand.layout.names)}


def _mean(states: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Copies that are equal are taken as they are; else numbers are averaged, and counts are the first one's."""
    return {name: _averaged([each[name] for each in states if name in each]) for name in states[0]}


def _averaged(values: list[Any]) -> Any:
    first = values[0]
    if not isinstance(first, Tensor) or first.ndim == 0 or not first.is_floating_point():
        return first
    if all(torch.equal(first, other) for other in values[1:]):
        return first
    return torch.stack([value.double() for value in values]).mean(0).to(first.dtype)


def _vectors(states: States, tags: Sequence[Any]) -> Iterator[str]:
    """What is as large as the tensors it is about."""
    found = ((name, value, tag) for state, tag in zip(states, tags, strict=True) for name, value in state.items())
    yield from dict.fromkeys(n for n, value, tag in found if isinstance(value, Tensor) and value.shape == tag.shape)


def _flat(strand: Strand, name: str, states: States) -> Tensor:
    like = next(state[name] for state in states if name in state)
    whole = torch.zeros(strand.layout.length, dtype=like.dtype)
    for view, state in zip(strand.layout.views(whole), states, strict=True):
        if name in state:
            view.copy_(state[name])
    return whole


def _under(strand: Strand, start: int, states: States) -> list[tuple[str, Any]]:
    """The entries of the tensor that a piece begins in."""
    assert strand.shard is not None
    place = next(n for n, (left, right) in enumerate(strand.layout.spans) if left <= start < right)
    return list(states[place].items())
