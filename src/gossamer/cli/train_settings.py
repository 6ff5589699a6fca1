"""The settings of a training run: what there is to say, and for each value who said it. Loads nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

DEFAULT = "default"
NEWEST = "newest"  # the run that --resume means where it names none
APART = {"epochs": "steps", "steps": "epochs", "batch": "batches", "batches": "batch"}  # both say the same


@dataclass(frozen=True)
class Settings:
    """What a run file and the command line may say, under one name each. None: chosen by what else is said."""

    strategy: str = "allreduce"
    workers: int = 4
    servers: int = 0
    seed: int = 0
    task: str = "digits"
    options: dict[str, Any] = field(default_factory=dict)
    path: str | None = None
    optimizer: str = "sgd"
    rate: float | None = None
    momentum: float | None = None
    decay: float = 0.0
    clip: float | None = None
    batch: int | None = None
    epochs: float | None = None
    steps: int | None = None
    target: float = 0.97
    evaluate_every: int | None = None
    save_every: int | None = None
    keep: int = 2
    fabric: str = "auto"
    folder: str = "runs"
    trouble: str | None = None
    truth: int | None = None
    recipe: str | None = None
    schedule: str | None = None
    batches: str | None = None
    rule: str = "linear"
    smoothing: float = 0.0
    trust: float = 0.001
    at_once: int | None = None
    accumulate: bool = True
    precision: str = "fp32"
    scale: float = 0.0
    norms: str = "moving"
    decays: str = "all"
    zero_gamma: str | None = None


NAMES = tuple(each.name for each in fields(Settings))
DEFAULTS = Settings()


@dataclass(frozen=True)
class Resolved:
    """Settings, and where each value came from."""

    settings: Settings
    origins: Mapping[str, str]

    def filled(self, found: Mapping[str, Any], why: Mapping[str, str]) -> Resolved:
        """With the values that were chosen for those nobody gave, and why they were chosen."""
        origins = {**self.origins, **why}
        return Resolved(replace(self.settings, **found), origins)


def resolve(*sources: tuple[str, Mapping[str, Any]]) -> Resolved:
    """Each source is a name and what it says; a later one overrides an earlier, by another name too."""
    values: dict[str, Any] = {}
    origins = dict.fromkeys(NAMES, DEFAULT)
    for origin, said in sources:
        for name, value in said.items():
            if name in APART and APART[name] not in said:
                values.pop(APART[name], None)
                origins[APART[name]] = DEFAULT
            values[name] = {**values.get(name, {}), **value} if name == "options" else value
            origins[name] = f"--{option(name)}" if origin == "option" else origin
    return Resolved(Settings(**values), origins)


def option(name: str) -> str:
    """How a setting is spelled on the command line."""
    return "task-option" if name == "options" else name.replace("_", "-")
