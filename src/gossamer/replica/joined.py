"""The states of a hub's shards put together, as one hub would have them, and cut for others. Knows no file."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from gossamer.replica.layout import Chosen
from gossamer.replica.states import States
from gossamer.replica.stretch import Stretch

State = dict[str, Any]


def joined(states: Sequence[State], chosen: Chosen) -> State:
    """One state of all shards; counts are the first one's, and rounds that are open in one of them begin anew."""
    states = sorted(states, key=lambda state: tuple(state["bounds"]))
    first, stretches = states[0], [Stretch(chosen, *state["bounds"]) for state in states]
    names = {name: value for state in states for name, value in state["memory"].items()}
    memory = {
        name: torch.cat([_or_zeros(state["memory"].get(name), state["centre"], like) for state in states])
        for name, like in sorted(names.items())
    }
    steps = None if first["steps"] is None else _joined_steps([s["steps"] for s in states], stretches, chosen)
    known = {member: torch.cat([state["known"][member] for state in states]) for member in first["known"]}
    return {**first, "bounds": list(chosen.bounds), "centre": torch.cat([state["centre"] for state in states]),
            "memory": memory, "told": [], "known": known, "steps": steps}  # fmt: skip


def cut(whole: State, stretch: Stretch) -> State:
    """What one shard has of it."""
    start, stop = stretch.bounds
    steps = None if whole["steps"] is None else [_piece(whole["steps"], stretch, n) for n in range(len(stretch.pieces))]
    return {**whole, "bounds": [start, stop], "centre": whole["centre"][start:stop], "told": [], "steps": steps,
            "memory": {name: value[start:stop] for name, value in whole["memory"].items()},
            "known": {member: value[start:stop] for member, value in whole["known"].items()}}  # fmt: skip


def _or_zeros(value: Tensor | None, centre: Tensor, like: Tensor) -> Tensor:
    return centre.new_zeros(centre.shape, dtype=like.dtype) if value is None else value


def _joined_steps(shards: Sequence[States], stretches: Sequence[Stretch], chosen: Chosen) -> States:
    """By tensor: what is as large as a piece is laid side by side, of the rest the first is taken."""
    found: list[list[tuple[int, dict[str, Any]]]] = [
        [] for _ in chosen.shapes
    ]  # by tensor: each piece's length and state
    for states, stretch in zip(shards, stretches, strict=True):
        for state, piece in zip(states, stretch.pieces, strict=True):
            found[piece.tensor].append((piece.stop - piece.start, state))
    return [
        {name: _side_by_side(name, pieces, shape) for name in dict.fromkeys(n for _, state in pieces for n in state)}
        for pieces, shape in zip(found, chosen.shapes, strict=True)
    ]


def _side_by_side(name: str, pieces: Sequence[tuple[int, dict[str, Any]]], shape: tuple[int, ...]) -> Any:
    """Zeros for a piece that was never stepped, where the others are vectors."""
    first = next(state[name] for _, state in pieces if name in state)
    vectors = all(
        isinstance(state[name], Tensor) and state[name].ndim and state[name].numel() == length
        for length, state in pieces
        if name in state
    )
    if len(pieces) == 1 or not vectors:
        return first
    return torch.cat([state[name].reshape(-1) if name in state else first.new_zeros(n) for n, state in pieces]).view(
        shape
    )


def _piece(states: States, stretch: Stretch, number: int) -> dict[str, Any]:
    piece, shape = stretch.pieces[number], stretch.shapes[number]

    def mine(value: Any) -> Any:
        if (
            not isinstance(value, Tensor)
            or not value.ndim
            or value.numel() < piece.stop
            or prod(shape) == value.numel()
        ):
            return value
        return value.reshape(-1)[piece.start : piece.stop].view(shape)

    return {name: mine(value) for name, value in states[piece.tensor].items()}
