"""The local update: optimizers, how the rate and the batch go over a run, and named recipes of all of it."""

from gossamer.recipes.batches import Batches, Share, Timetable, shared
from gossamer.recipes.borrowed import Borrowed, refuse_odd
from gossamer.recipes.optimizer import Optimizer
from gossamer.recipes.pace import Pace
from gossamer.recipes.recipe import Recipe
from gossamer.recipes.schedule import (
    SLOW_START,
    Constant,
    Cosine,
    Cyclic,
    OneCycle,
    Polynomial,
    Schedule,
    Stairs,
    Steps,
    Warmup,
    scaled,
)

LAZY = {"LARS": "lars", "LAMB": "lars", "RMSpropToSGD": "warm", "VelocitySGD": "warm", "sgd_share": "warm"}

__all__ = [
    "LAMB", "LARS", "SLOW_START", "Batches", "Borrowed", "Constant", "Cosine", "Cyclic", "OneCycle", "Optimizer",
    "Pace", "Polynomial", "RMSpropToSGD", "Recipe", "Schedule", "Share", "Stairs", "Steps", "Timetable",
    "VelocitySGD", "Warmup", "refuse_odd", "scaled", "sgd_share", "shared",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """What needs torch is loaded when it is asked for."""
    if name in LAZY:
        from importlib import import_module

        return getattr(import_module(f"gossamer.recipes.{LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
