"""The local update: optimizers, how the rate and the batch go over a run, and named recipes of all of it."""

from gossamer.recipes.batches import Batches, Portion, Timetable, portion
from gossamer.recipes.borrowed import Borrowed, refuse_odd
from gossamer.recipes.noise import NoiseScale, told_cost
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

LAZY = {
    "LARS": "lars", "LAMB": "lars", "RMSpropToSGD": "warm", "VelocitySGD": "warm", "sgd_share": "warm",
    "Precision": "precision", "Master": "master", "decayed": "norms",
    "fresh_statistics": "norms", "zero_last_gamma": "norms",
}  # fmt: skip

__all__ = [
    "LAMB", "LARS", "SLOW_START", "Batches", "Borrowed", "Constant", "Cosine", "Cyclic", "Master", "NoiseScale",
    "OneCycle", "Optimizer", "Pace", "Polynomial", "Precision", "RMSpropToSGD", "Recipe", "Schedule", "Portion",
    "Stairs", "Steps", "Timetable", "VelocitySGD", "Warmup", "decayed", "fresh_statistics",
    "refuse_odd", "scaled", "sgd_share", "portion", "told_cost", "zero_last_gamma",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """What needs torch is loaded when it is asked for."""
    if name in LAZY:
        from importlib import import_module

        return getattr(import_module(f"gossamer.recipes.{LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
