"""A recipe: all of a run but the model, the data and the workers, and what it comes to for those.

A named recipe is written for 90 epochs of 1.28 million images; `epochs` stretches all of its moments, and its batches
keep their ratios: the first is `base_batch`, or as large a share of the data at hand as the published one was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from gossamer.parts.refusal import Refused, flag, kind, real, whole
from gossamer.parts.spelling import nearest
from gossamer.parts.value import Value
from gossamer.recipes.batches import Batches, nearest_size
from gossamer.recipes.optimizer import Optimizer
from gossamer.recipes.published import IMAGES
from gossamer.recipes.schedule import Schedule, long_enough

LEAST = 8  # samples for each worker, where the published share of the data would be fewer
RULES = ("linear", "constant")  # what the rate does where the batch changes
NORMS = ("moving", "fresh", "shared")  # statistics of batch norm: averages over time, taken anew, of all workers
BLOCKS = ("Bottleneck", "BasicBlock", "Residual")  # residual ones, by the names of torchvision's classes and of ours
DECAYS = ("all", "weights")  # what decays: weights without biases and norms


@dataclass(frozen=True, repr=False)
class Recipe(Value):
    """`rate` is of the optimizer at its height for a step of `per` samples, or with 0 for any; `batches`: moments, as
    epochs, and how many times the first batch from there on; `rule`: what the rate does where the batch changes;
    `norms`: which statistics batch norm has, where the model has any; `decays`: all of the model, or weights alone;
    `zero_gamma`: residual blocks begin as the identity, where the model has any that we know."""

    optimizer: Optimizer
    schedule: Schedule
    epochs: float = 90.0
    per: int = 0
    published: int = 8192
    base_batch: int = 0
    batches: tuple[tuple[float, int], ...] = ((0.0, 1),)
    rule: str = "linear"
    smoothing: float = 0.0
    strategy: str = "allreduce"
    norms: str = "moving"
    decays: str = "all"
    zero_gamma: bool = False

    def __post_init__(self) -> None:
        kind("recipe", "optimizer", self.optimizer, Optimizer)
        kind("recipe", "schedule", self.schedule, Schedule)
        real("recipe", "epochs", self.epochs, 0.0, 1e6, open_low=True)
        whole("recipe", "per", self.per, 0)
        whole("recipe", "base_batch", self.base_batch, 0)
        real("recipe", "smoothing", self.smoothing, 0.0, 1.0, open_high=True)
        if self.rule not in RULES:
            raise Refused(f"recipe: there is no rule {self.rule!r} for the rate", " or ".join(RULES))
        for name, words in (("norms", NORMS), ("decays", DECAYS)):
            if getattr(self, name) not in words:
                raise Refused(f"recipe: there are no {name} {getattr(self, name)!r}", " or ".join(words))
        flag("recipe", "zero_gamma", self.zero_gamma)
        long_enough(lambda epochs: self.schedule.misses(epochs) or self.sizes(1).misses(epochs), self.epochs)

    def sizes(self, first: int) -> Batches:
        """The batches of a run that begins with `first` samples a step."""
        return Batches(tuple((epoch, times * first) for epoch, times in self.batches))

    def first(self, samples: int, workers: int) -> int:
        """The batch that a run over so many samples, on so many workers, begins with."""
        if self.base_batch:
            return self.base_batch
        share = max(LEAST * workers, round(samples * self.published / IMAGES / workers) * workers)
        return nearest_size(share, workers, samples, max(times for _, times in self.batches)) or share

    def settings(self, samples: int, workers: int) -> dict[str, Any]:
        """What it comes to, as the settings of a run."""
        first = self.first(samples, workers)
        rate = self.optimizer.rate * first / self.per if self.per else self.optimizer.rate
        return {
            "strategy": self.strategy, "optimizer": self.optimizer.name, "rate": rate,
            "momentum": self.optimizer.momentum, "decay": self.optimizer.decay, "trust": self.optimizer.trust,
            "schedule": repr(self.schedule), "batches": written(self.sizes(first)), "rule": self.rule,
            "epochs": self.epochs, "smoothing": self.smoothing, "norms": self.norms, "decays": self.decays,
            **({"zero_gamma": " or ".join(BLOCKS)} if self.zero_gamma else {}),
        }  # fmt: skip


def written(sizes: Batches) -> str:
    """As the command line takes it: `0:256, 30:512`."""
    return ", ".join(f"{epoch:g}:{size}" for epoch, size in sizes.sizes)


def read(text: str) -> Batches:
    """`256` or `0:256, 30:512`: epochs, and the samples of a step from there on."""
    sizes = []
    for each in text.split(","):
        start, colon, size = each.partition(":")
        try:
            sizes.append((float(start), int(size)) if colon else (0.0, int(start)))
        except ValueError:
            raise Refused(f"batches: {each.strip()!r} is no epoch and size", "0:256, 30:512") from None
    return Batches(tuple(sizes))


def named(text: str, **given: Any) -> Recipe:
    """The recipe that an expression such as `sony(base_batch=256)` stands for; `given` where it does not say."""
    from gossamer.recipes.famous import FAMOUS
    from gossamer.strategy.expression import read as read_expression

    name = text.partition("(")[0].strip()
    if name not in FAMOUS:
        near = nearest(name, tuple(FAMOUS))
        raise Refused(f"there is no recipe {name!r}; there are {', '.join(FAMOUS)}", near)
    found = read_expression(text, {each: partial(entry.make, **given) for each, entry in FAMOUS.items()}, {})
    assert isinstance(found, Recipe)
    return found


def schedule_of(text: str) -> Schedule:
    """The schedule that an expression such as `Warmup(epochs=5, then=Cosine())` stands for."""
    from gossamer.recipes import schedule as kinds
    from gossamer.strategy.expression import read as read_expression

    makers = {each.__name__: each for each in vars(kinds).values() if isinstance(each, type)}
    schedules = {name: made for name, made in makers.items() if issubclass(made, Schedule) and made is not Schedule}
    found = read_expression(text, schedules, {})
    kind("schedule", "schedule", found, Schedule)
    assert isinstance(found, Schedule)
    return found
