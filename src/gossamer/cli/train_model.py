"""What settings ask of the model: batch norm for its statistics, blocks for their gammas. Refuses what it has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gossamer.cli.train_settings import Resolved, option
from gossamer.parts.refusal import Refused
from gossamer.recipes.recipe import BLOCKS, DECAYS, NORMS
from gossamer.strategy import AnyStrategy, slots

if TYPE_CHECKING:
    from gossamer.tasks import Task


def fitted(resolved: Resolved, task: Task, strategy: AnyStrategy) -> Resolved:
    """The settings as this model can have them.

    Norms or blocks that somebody asked for and the model has not are refused; of a recipe they are what recipes say of
    models that have them, so that any other is as it is.
    """
    from gossamer.recipes.norms import BATCH_NORMS, has_parts, keeping, parts_called

    said = resolved.settings
    for name, words in (("norms", NORMS), ("decays", DECAYS)):
        if getattr(said, name) not in words:
            raise Refused(f"train: there are no {name} {getattr(said, name)!r}", " or ".join(words))
    if said.zero_gamma is not None and resolved.origins["zero_gamma"].startswith("recipe "):
        had = next((kind for kind in BLOCKS if has_parts(task.model, kind)), None)
        why = resolved.origins["zero_gamma"] if had else "default: the model has no residual blocks that we know"
        resolved = resolved.filled({"zero_gamma": had}, {"zero_gamma": why})
    elif said.zero_gamma is not None:
        parts_called(task.model, said.zero_gamma)
    if said.norms == "moving":
        return resolved
    norms = [part for part in task.model.modules() if isinstance(part, BATCH_NORMS)]
    if not (keeping(task.model) if said.norms == "fresh" else norms):
        if resolved.origins["norms"].startswith("recipe "):
            return resolved.filled({"norms": "moving"}, {"norms": "default: the model has no batch norm"})
        lacks = f"no batch norm{' that keeps statistics' * bool(norms)}"
        raise Refused(f"train: norms {said.norms}, but the model of {said.task} has {lacks}", _instead(said.task))
    if said.norms == "shared" and not all(_in_step(strategy)):
        raise Refused(
            f"train: norms shared let every worker wait for all others as it computes, and {said.strategy} does not",
            "norms fresh",
        )
    return resolved


def _in_step(strategy: AnyStrategy) -> list[bool]:
    """Of each exchange, whether all members wait for all others in it."""
    return [ex.synchrony.staleness == 0 and ex.synchrony.quorum is None for ex in slots(strategy)]


def _instead(task: str) -> str:
    return f"norms moving, or --{option('options')} model=resnet" if task in ("digits", "idx") else "norms moving"
