"""The local update: optimizers, and in time rate schedules, batch plans and precision."""

from gossamer.recipes.borrowed import Borrowed, refuse_odd
from gossamer.recipes.optimizer import Optimizer

__all__ = ["Borrowed", "Optimizer", "refuse_odd"]
