"""Gossamer: train models on many workers with any synchronisation strategy, behind one switch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.engine.hook import as_comm_hook
    from gossamer.engine.loop.keeping import Loaded, averaged, load, save
    from gossamer.engine.loop.prepare import prepare
    from gossamer.engine.loop.weight import weight
    from gossamer.engine.norms import fresh_statistics, shared_norms
    from gossamer.engine.stock import from_comm_hook
    from gossamer.parts.refusal import Refused
    from gossamer.parts.world import World
    from gossamer.recipes import Optimizer
    from gossamer.sim import Cluster, Outcome, Plan
    from gossamer.sim.rehearse import rehearse
    from gossamer.strategy import Exchange, Staged, Strategy, parse, parse_trouble, phases, position
    from gossamer.tasks import Task

__version__ = "0.1.0"
_HOMES = {
    **dict.fromkeys(("Loaded", "averaged", "load", "save"), "engine.loop.keeping"),
    "as_comm_hook": "engine.hook",
    "from_comm_hook": "engine.stock",
    **dict.fromkeys(("fresh_statistics", "shared_norms"), "engine.norms"),
    "prepare": "engine.loop.prepare",
    "weight": "engine.loop.weight",
    "Refused": "parts.refusal",
    "World": "parts.world",
    "Optimizer": "recipes",
    **dict.fromkeys(("Cluster", "Outcome", "Plan"), "sim"),
    "rehearse": "sim.rehearse",
    **dict.fromkeys(("Exchange", "Staged", "Strategy", "parse", "parse_trouble", "phases", "position"), "strategy"),
    "Task": "tasks",
}
__all__ = [
    "Cluster", "Exchange", "Loaded", "Optimizer", "Outcome", "Plan", "Refused", "Staged", "Strategy", "Task", "World",
    "as_comm_hook", "averaged", "fresh_statistics", "from_comm_hook", "load", "parse", "parse_trouble", "phases",
    "position", "prepare", "rehearse", "save", "shared_norms", "weight",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: the language of strategies needs no torch."""
    if name not in _HOMES:
        raise AttributeError(f"gossamer has no {name!r}")
    value = getattr(import_module(f"gossamer.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
