"""Gossamer: train models on many workers with any synchronisation strategy, behind one switch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.engine.hook import as_comm_hook
    from gossamer.engine.loop.keeping import Loaded, averaged, load, save
    from gossamer.engine.loop.noise import noise
    from gossamer.engine.loop.prepare import prepare
    from gossamer.engine.loop.weight import weight
    from gossamer.engine.norms import fresh_statistics, shared_norms
    from gossamer.engine.stock import from_comm_hook
    from gossamer.parts.refusal import Refused
    from gossamer.parts.world import World
    from gossamer.recipes import Optimizer
    from gossamer.sim import Machines, Outcome, Plan
    from gossamer.sim.cluster import Cluster
    from gossamer.sim.described import described
    from gossamer.sim.fit import Measured, fit
    from gossamer.sim.forecast import Forecast
    from gossamer.sim.rehearse import rehearse
    from gossamer.sim.simulate import simulate
    from gossamer.sim.workload import Workload
    from gossamer.strategy import Exchange, Staged, Strategy, parse, parse_trouble, phases, position
    from gossamer.tasks import Task

__version__ = "0.1.0"
_HOMES = {
    **dict.fromkeys(("Loaded", "averaged", "load", "save"), "engine.loop.keeping"),
    "as_comm_hook": "engine.hook",
    "from_comm_hook": "engine.stock",
    **dict.fromkeys(("fresh_statistics", "shared_norms"), "engine.norms"),
    "noise": "engine.loop.noise",
    "prepare": "engine.loop.prepare",
    "weight": "engine.loop.weight",
    "Refused": "parts.refusal",
    "World": "parts.world",
    "Optimizer": "recipes",
    **dict.fromkeys(("Machines", "Outcome", "Plan"), "sim"),
    "Cluster": "sim.cluster",
    "described": "sim.described",
    **dict.fromkeys(("Measured", "fit"), "sim.fit"),
    "Forecast": "sim.forecast",
    "rehearse": "sim.rehearse",
    "simulate": "sim.simulate",
    "Workload": "sim.workload",
    **dict.fromkeys(("Exchange", "Staged", "Strategy", "parse", "parse_trouble", "phases", "position"), "strategy"),
    "Task": "tasks",
}
__all__ = [
    "Cluster", "Exchange", "Forecast", "Loaded", "Machines", "Measured", "Optimizer", "Outcome", "Plan", "Refused",
    "Staged", "Strategy", "Task", "Workload", "World", "as_comm_hook", "averaged", "described", "fit",
    "fresh_statistics", "from_comm_hook", "load", "noise", "parse", "parse_trouble", "phases", "position", "prepare",
    "rehearse", "save", "shared_norms", "simulate", "weight",
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
