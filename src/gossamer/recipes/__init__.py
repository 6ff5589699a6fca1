"""The local update: optimizers, and in time rate schedules, batch plans and precision."""

from gossamer.recipes.optimizer import Optimizer

__all__ = ["Optimizer"]
