"""The imagined run: real numbers in virtual time. Names load when asked for, so that what needs no torch loads none."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossamer.sim.machines import Machines
    from gossamer.sim.plan import Outcome, Plan
    from gossamer.sim.rehearse import Rehearsal

__all__ = ["Machines", "Outcome", "Plan", "Rehearsal"]
_HOMES = {"Machines": "machines", "Outcome": "plan", "Plan": "plan", "Rehearsal": "rehearse"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"gossamer.sim has no {name!r}")
    return getattr(import_module(f"gossamer.sim.{_HOMES[name]}"), name)
